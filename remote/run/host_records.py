"""What hosts say of themselves and of their ranks."""

from __future__ import annotations

import math
from dataclasses import replace

from remote.events import Parsed
from remote.format import duration
from remote.plan.plan import OnNan
from remote.run.diagnosis import agent_end, stall_causes
from remote.run.diagnosis.cause import ended
from remote.run.run_state import RunState
from remote.run.series import marks
from remote.run.state.host_state import LAST_WORDS, HostState
from remote.run.state.phases import HostPhase, RankPhase, RunPhase
from remote.run.state.progress import WATCHED, Diverged
from remote.run.state.rank_state import RankState
from remote.run.state.types import Death, Evidence
from training.wire import events
from training.wire.enums import EndReason
from training.wire.events import Event, Record


def apply(run: RunState, record: Record, host: HostState, when: float) -> None:
    """Take in a record of a host."""
    host.hear(when, run.now)
    rank = run.rank_of(getattr(record.event, "rank", -1), host)
    is_current = record.attempt >= run.attempt
    if isinstance(record.event, events.OutputText):
        _print(run, record.event, host, rank, when)
    elif rank is None:
        _apply_agent(run, record, host, when)
    elif is_current:
        run.course.attempt = record.attempt
        _apply_rank(run, record.event, host, rank, when)
    if isinstance(record.event, events.Exited) and is_current:
        host.apply(record.event, record.attempt, when)


def _print(
    run: RunState, text: events.OutputText, host: HostState, rank: RankState | None, when: float
) -> None:
    if text.path:  # it is no output
        return
    number = rank.rank if rank else -1
    lines = run.log.add(when, host.name, number, text.stream, text.text)
    if text.stream != "stderr":
        return
    (rank or host).tail.extend(lines[-LAST_WORDS:])
    if rank and rank.exited:  # words that came after the exit may change what it means
        run.judge_rank(rank)


def _apply_rank(run: RunState, event: Event, host: HostState, rank: RankState, when: float) -> None:
    if isinstance(event, events.Exited) and rank.exited:  # a process ends once
        return
    if isinstance(event, events.GpuSample) and run.plan.job and not rank.on_gpu:
        return
    if isinstance(event, events.ScriptMetrics):
        if run.plan.job:
            return
        event = run.known(event, rank, when)
    elif rank.begun is None and isinstance(
        event, events.StepFinished
    ):  # a script tells of no start
        _step(run, event, when)
    rank.apply(event, when)
    run.curves.take(event, rank.rank, rank.step, when - run.started)
    match event:
        case events.StepFinished():
            is_worse = not math.isfinite(event.loss) and not run.progress.diverged
            if is_worse and rank.is_diverged:
                _diverge(run, Diverged(rank.rank, event.step, event.loss, when), host, when)
            if run.stalls:
                _look_at_stall(run, when)
            run.stepped(rank, when)
        case events.RankSample():
            host.loads[rank.rank] = event.cpu
        case events.Stack() if run.stall:
            run.stalls[-1] = stall_causes.explained(run.stall, run.ranks, run.hosts)
        case events.Entered():
            _enter(run, rank, RankPhase(event.phase), when)
        case events.Started():
            if run.progress.start(event):
                _go_back(run, event.resumed)
            _enter(run, rank, RankPhase.TRAINING, when)
        case events.Evaluated() if rank.rank == 0:
            run.progress.evaluate(event)
            run.marks.add(marks.TEST, event.step, when - run.started)
        case events.Drifted() if run.progress.compare(event, when):
            what = f"after step {event.step} the ranks' models differ {event.extent}"
            run.note("", f"drift: {what}", when)
        case events.Epoch():
            run.marks.add(marks.EPOCH, event.step, when - run.started)
        case events.Saved() if rank.local_rank == 0:
            host.saved_step = event.step
            run.marks.add(marks.CHECKPOINT, event.step, when - run.started)
        case events.Finished():
            _look_at_stall(run, when)
        case Parsed():
            _parse(run, event, when)
        case events.Spawned() if not run.plan.job:  # a script tells no phases
            _enter(run, rank, RankPhase.TRAINING, when)
        case events.Exited():
            run.judge_rank(rank)


def _step(run: RunState, event: events.StepFinished, when: float) -> None:
    """A step of a user's own program. The first one that is watched says that it is, and the first
    in a later attempt where that one begins."""
    if not run.progress.watched and run.plan.job is None and (event.compute or event.sync):
        run.progress.watched = True
        run.note("", WATCHED, when)
    if run.progress.anew < run.attempt:
        run.progress.anew = run.attempt
        run.progress.go_back(max(0, event.step - 1))
        _go_back(run, max(0, event.step - 1))


def _parse(run: RunState, event: Parsed, when: float) -> None:
    """What is printed is read by a format, or a file is read. That is said once of each, and not
    of which ranks: others may print later."""
    run.progress.printed_steps = event.steps or run.progress.printed_steps
    if event.format and event.format not in run.progress.formats:
        run.progress.formats.append(event.format)
        run.note("", f"read as: {event.format}", when)
    for path in event.files:
        if path not in run.progress.files:
            run.progress.files.append(path)
            run.note("", f"reads {path}", when)


def _go_back(run: RunState, step: int) -> None:
    """The ranks begin after this step, which some may have gone beyond before."""
    run.curves.rewind(step)
    run.marks.rewind(step)
    if run.progress.restarts:
        run.marks.add(marks.RESTART, step, run.progress.restarts[-1].seconds)


def _enter(run: RunState, rank: RankState, phase: RankPhase, when: float) -> None:
    if not rank.go_on(phase, when):
        return
    _look_at_stall(run, when)
    if rank.pace:
        run.foresee(rank)
    if phase is RankPhase.TRAINING and run.phase is RunPhase.STARTING:
        run.phase = RunPhase.TRAINING


def _diverge(run: RunState, found: Diverged, host: HostState, when: float) -> None:
    """The loss is no finite number any more, which every later step of all ranks may follow."""
    run.progress.diverged = found
    lower = "lower --lr" if run.plan.job else "lower its learning rate"
    if run.plan.policy.on_nan is OnNan.STOP:
        what = f"loss is {found.what}"
        advice = lower
        death = Death(host.name, found.rank, when, Evidence.OWN, what, found.step, advice=advice)
        run.judge.refuse(death)
    else:
        advice = f"{lower.capitalize()}, or stop such runs with --on-nan stop"
        run.note("", f"{found.text}; training continues. {advice}", when)


def _look_at_stall(run: RunState, when: float) -> None:
    """Whether all ranks have gone on."""
    if run.stall and not any(rank.stalled and not rank.finished for rank in run.ranks):
        run.stalls[-1] = replace(run.stall, over=when)
        seconds = when - run.stalls[-1].since
        run.note("", f"the ranks continue after a stall of {duration(seconds)}", when)


def _apply_agent(run: RunState, record: Record, host: HostState, when: float) -> None:
    """What an agent says of its host."""
    match record.event:
        case events.Launched() as event if record.attempt > host.attempt:  # else told again
            host.count_age(event.age, record.time)
            _launch(run, record.attempt, event, host, when)
            for rank in (run.rank_of(index, host) for index in event.ranks):
                if rank:
                    _enter(run, rank, RankPhase.IMPORTING, when)
        case events.Reserved(_, _, error) if error:
            run.note(host.name, error, when)
        case events.Reserved(address, port) if host is _master(run):
            run.rendezvous = f"{address}:{port}"
        case events.RecordsDropped(first, last):
            host.dropped = True
            what = "were dropped: the journal on the host was full"
            run.note(host.name, f"records {first} to {last} {what}", when)
        case events.StopHeard(by_person=True) if _is_current(run, record):
            run.judge.hear_stop(when)
            host.stop_heard = True
        case events.HostSample():
            run.curves.sample(host.index, record.event, host.used, when - run.started)
        case events.AgentEnded() as event:
            host.age_at_end = host.count_age(event.age, record.time)
            _end_agent(run, event, host, when)
    host.apply(record.event, record.attempt, when)


def _master(run: RunState) -> HostState | None:
    return next((host for host in run.hosts if not host.gone), None)


def _is_current(run: RunState, record: Record) -> bool:
    return record.attempt == run.attempt or run.phase is RunPhase.STARTING


def _launch(
    run: RunState, attempt: int, event: events.Launched, host: HostState, when: float
) -> None:
    """Ranks are started on a host, perhaps by a launcher of which nothing is recorded here."""
    run.date(when, event.age)
    if attempt > run.attempt and run.are_hosts(event.hosts):
        run.restart(attempt, event.hosts, _why_restarted(run), when, started=True)
    elif attempt >= run.attempt:
        run.course.launch(attempt)
    if attempt == run.attempt:
        run.course.attempts = event.attempts


def _why_restarted(run: RunState) -> str:
    """Return what the attempt before failed of, as far as the hosts tell; "" where all they tell
    are consequences of what a host that cannot be heard would tell."""
    death = run.judge.first_death()
    is_known = death is not None and death.evidence < Evidence.UNHEARD
    return run.cause.text() if run.cause and is_known else ""


def _end_agent(run: RunState, event: events.AgentEnded, host: HostState, when: float) -> None:
    run.date(when, event.age)
    host.reason = agent_end.describe(event)
    if host.phase is not HostPhase.LOST:
        host.enter(HostPhase.ENDED, when)
    if event.died:
        folder = host.hello.folder if host.hello else ""
        what, advice = ended(event, run.plan.hosts[host.index], folder)
        run.judge.judge_host(host, what, _began_to_end(run, host, when), advice=advice)
    elif event.reason in agent_end.STOPPED:
        run.judge.stop_reason = run.judge.stop_reason or agent_end.why(event)
        if host.parted:  # others still had theirs
            what = "the connection to it was lost for too long, so it stopped its ranks"
            run.judge.judge_host(host, what, when)
    elif event.reason is EndReason.NO_LAUNCHER:
        run.judge.judge_host(host, agent_end.why(event), when)


def _began_to_end(run: RunState, host: HostState, when: float) -> float:
    """When an agent began to end by itself: it says so only once its ranks have ended, which it
    stops first."""
    ranks = [rank for rank in run.ranks if rank.host == host.index and rank.exited]
    stopped = [rank.since for rank in ranks if rank.exited and rank.exited.stopped]
    return min([when, *stopped])

"""What the records of a host change in the state of a run: those of its agent and its ranks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise
from operator import itemgetter

from remote.events import Parsed
from remote.format import duration
from remote.plan.plan import OnNan
from remote.run import workers
from remote.run.diagnosis.agent_end import STOPPING_ENDS, describe_end, explain_end
from remote.run.diagnosis.cause import explain_agent_end
from remote.run.diagnosis.detector import Report
from remote.run.diagnosis.stall_causes import explain_stall
from remote.run.findings.isolation import describe_isolation
from remote.run.output.worker_lines import split_by_rank
from remote.run.run_state import RunState, judge_rank, restart, take_age
from remote.run.series.marks import CHECKPOINT, EPOCH, RESTART, TEST
from remote.run.state.epoch_tally import MOST_PENDING, EpochSums, epoch_line
from remote.run.state.host_state import LAST_WORDS, HostState
from remote.run.state.phases import HostPhase, RankPhase, RunPhase
from remote.run.state.progress import TOTAL_HINT, WATCHED, Diverged
from remote.run.state.rank_state import RankState, find_leader
from remote.run.state.script_metrics import MOST
from remote.run.state.script_rank import ScriptRank, is_of_watch
from remote.run.state.types import Cause, Evidence
from training.schedule import Schedule
from training.wire.enums import EndReason
from training.wire.events import Event, Record
from training.wire.host_events import (
    AgentEnded,
    Exited,
    GpuSample,
    HostSample,
    Launched,
    OutputText,
    RankSample,
    RecordsDropped,
    Reserved,
    Spawned,
    Stack,
    StopHeard,
    WorkerExited,
    WorkerJoined,
)
from training.wire.rank_events import (
    Collectives,
    Drifted,
    Entered,
    Epoch,
    Evaluated,
    Finished,
    Isolation,
    Saved,
    ScriptMetrics,
    Started,
    StepFinished,
)
from training.wire.step_block import StepColumns


def apply(run: RunState, record: Record, host: HostState, when: float) -> None:
    """Take in a record of a host."""
    host.hear(when, run.now)
    rank = run.source_of(record.event, host)
    is_current = record.attempt >= run.attempt
    if isinstance(record.event, OutputText):
        _take_output(run, record.event, host, rank, when)
    elif isinstance(record.event, WorkerJoined):
        if is_current:
            workers.take_join(run, record.event, host, when)
    elif rank is None:
        _apply_agent(run, record, host, when)
    elif is_current:
        run.launcher.attempt = record.attempt
        _apply_rank(run, record.event, host, rank, when)
    if isinstance(record.event, Exited) and is_current:
        host.apply(record.event, record.attempt, when)


def _take_output(
    run: RunState, text: OutputText, host: HostState, rank: RankState | None, when: float
) -> None:
    if text.path:  # it was written to a file, not printed
        run.progress.has_file_text = True
        return
    shown_lines: list[str] = []
    for rank_number, part in _split_output(run, text.text, rank):
        shown_lines += run.log.add(when, host.name, rank_number, text.stream, part)
    if text.stream != "stderr":
        return
    (rank or host).tail.extend(shown_lines[-LAST_WORDS:])
    if rank and rank.exited:  # output that comes after the exit may change what it means
        judge_rank(run, rank)


def _split_output(run: RunState, text: str, process: RankState | None) -> Iterator[tuple[int, str]]:
    """Yield the parts of what a process has printed, each with the rank that it is of."""
    if process is None or not run.has_workers:
        yield (process.rank if process else -1), text
        return
    own_ranks = [rank.rank for rank in run.ranks if rank.process == process.rank]
    first_rank = own_ranks[0] if own_ranks else process.rank
    for named_rank, lines in split_by_rank(text):
        yield (named_rank if named_rank in own_ranks else first_rank), "\n".join(lines)


# Ranks --------------------------------------------------------------------------------------------


def _apply_rank(run: RunState, event: Event, host: HostState, rank: RankState, when: float) -> None:
    if isinstance(event, Exited | WorkerExited) and rank.exited:  # a process ends once
        return
    # The GPU may be another program's: the rank itself has said that it computes on cores.
    if isinstance(event, GpuSample) and run.plan.job and not rank.on_gpu:
        return
    if isinstance(event, ScriptMetrics):
        if run.plan.job:
            return
        event = _take_metrics(run, event, rank, when)
    elif isinstance(event, Isolation):
        _take_isolation(run, event, rank, when)
        return
    elif rank.begun is None and isinstance(event, StepFinished):  # a script reports no start
        _begin_script(run, event, when)
    if isinstance(rank, ScriptRank) and isinstance(event, StepFinished):
        event = rank.shown_step(event)
    rank.apply(event, when)
    if isinstance(event, ScriptMetrics):
        _note_printing_rank(run, rank)
    _hide_step_losses(run, rank, when)
    # After the rank has taken it in, so that a step has its own number.
    if run.trains(rank):
        made_at = when
        if isinstance(event, ScriptMetrics):
            # A line may come long after its step. For all but the curves, it shows that the rank
            # is alive now.
            made_at = max(event.made_at(when + host.offset) - host.offset, host.began)
        run.curves.take(event, rank.rank, rank.step, made_at - run.started)
    match event:
        case Collectives():
            _end_stall_if_over(run, when)
        case StepFinished():
            _take_step(run, event, host, rank, when)
        case RankSample(worker=False):
            host.loads[rank.rank] = event.cpu
        case Stack() if run.stall:
            run.replace_stall(explain_stall(run.stall, run.ranks, run.hosts))
        case Entered():
            _enter_phase(run, rank, RankPhase(event.phase), when)
        case Started():
            if run.progress.start(event):
                _rewind(run, event.resumed)
            _enter_phase(run, rank, RankPhase.TRAINING, when)
        case Evaluated() if rank.rank == 0:
            run.progress.evaluate(event)
            run.mark(TEST, event.step, when)
        case Drifted() if run.progress.compare(event, when):
            drift_text = f"drift: after step {event.step} the ranks' models differ {event.extent}"
            run.note("", drift_text, when)
        case Epoch():
            run.epoch_tally.add(event)
            run.mark(EPOCH, event.step, when)
        # All ranks of a host save their parts of the same checkpoint.
        case Saved() if rank.local_rank == 0:
            host.saved_step = event.step
            run.mark(CHECKPOINT, event.step, when)
        case Finished():
            _end_stall_if_over(run, when)
        case Parsed():
            _note_parsing(run, event, when)
        case Spawned() if not run.plan.job:  # a script reports no phases but its meetings
            _enter_phase(run, rank, RankPhase.TRAINING, when)
        case Exited():
            if rank.has_ended_well and rank.step:
                run.progress.compare_argument(rank.step, is_last=True)
            judge_rank(run, rank)
        case WorkerExited():
            workers.take_exit(run, rank, when)
    if run.epoch_tally.pending and isinstance(event, _ENDING_EPOCHS):
        _tell_epochs(run, rank, when)
    # Last, since detectors look at the rank as it is after the report.
    if isinstance(event, StepFinished | ScriptMetrics):
        _tell_detectors(run, event, rank, when)


def _take_step(
    run: RunState, step: StepFinished, host: HostState, rank: RankState, when: float
) -> None:
    is_first = not math.isfinite(step.loss) and not run.progress.diverged
    if is_first and rank.is_diverged:
        _take_divergence(run, Diverged(rank.rank, step.step, step.loss, when), host, when)
    if run.stalls:
        _end_stall_if_over(run, when)
    run.progress.compare_argument(rank.step)
    _update_forecast(run, rank)


def take_steps(
    run: RunState,
    steps: StepColumns,
    host: HostState,
    rank: RankState,
    times: Sequence[float],
) -> None:
    """Take in alike steps of a rank at once, see `remote.run.apply`: with what each of them changes
    once the run knows the first of them."""
    host.hear(times[-1], run.now)
    if isinstance(rank, ScriptRank):
        steps = rank.shown_steps(steps)
    if run.trains(rank):
        run.curves.take_steps(steps, rank.rank, [when - run.started for when in times])
    turns = {*rank.find_turns()}
    for detector in run.detectors:
        turns |= {*detector.find_checks(steps, rank)}
    turn_places = sorted(turn - steps.step[0] + 1 for turn in turns)
    inner_places = [place for place in turn_places if 0 < place < len(steps)]
    for start, stop in pairwise((0, *inner_places, len(steps))):
        part = steps.part(start, stop)
        rank.take_steps(part, times[start:stop])
        _show_detectors(run, part, rank, times[start:stop])
    run.progress.compare_argument(rank.step)
    if rank is find_leader(run.ranks):
        run.forecast.take_pace(steps.step, steps.seconds, run.progress.steps)
        _update_forecast(run, rank)


def _show_detectors(
    run: RunState, steps: StepColumns, rank: RankState, times: Sequence[float]
) -> None:
    remarks = [
        remark for detector in run.detectors for remark in detector.take_steps(steps, rank, times)
    ]
    for when, text in sorted(remarks, key=itemgetter(0)):
        run.note("", text, when)


_ENDING_EPOCHS = (StepFinished, Epoch, Evaluated, Saved, Finished, Exited)
"""Events after which all may be known of an epoch."""


def _tell_epochs(run: RunState, rank: RankState, when: float) -> None:
    """Add a line for each epoch that all ranks have finished, as soon as its test and checkpoint
    are known, too; without them when the first rank, which tells them, has gone on."""
    first_rank = next((rank for rank in run.ranks if rank.step), rank)
    has_ended = first_rank.finished or first_rank.exited is not None
    tally = run.epoch_tally
    num_training = sum(rank.step > 0 for rank in run.ranks)
    test_of_epoch = {test.epoch: test for test in run.progress.evaluations[-MOST_PENDING:]}
    saved_step = max(rank.saved_step for rank in run.ranks)

    def is_complete(sums: EpochSums) -> bool:
        has_gone_on = has_ended or first_rank.epoch > sums.epoch
        has_checkpoint = saved_step >= sums.step or not _saves_after(run, sums.step)
        return has_gone_on or (sums.epoch in test_of_epoch and has_checkpoint)

    for sums in tally.pop_finished(num_training, is_complete):
        # The newest checkpoint may be of an earlier epoch, or by now of a later one.
        is_of_epoch = tally.last_step < saved_step <= sums.step
        tally.last_step = sums.step
        line = epoch_line(
            sums,
            run.progress.epochs,
            test_of_epoch.get(sums.epoch),
            saved_step if is_of_epoch else 0,
        )
        run.log.add_epoch(when, line)


def _saves_after(run: RunState, step: int) -> bool:
    """Return True if a checkpoint is saved after this step."""
    job, begun = run.plan.job, run.progress.begun
    if job is None or begun is None:
        return False
    return Schedule.of(job, begun.steps_per_epoch, compares=False).saves(step)


def _take_isolation(run: RunState, event: Isolation, rank: RankState, when: float) -> None:
    """Take in that a rank of a script trains alone, or no longer; note it once all ranks do."""
    were_apart = run.trains_apart
    rank.apply(event, when)
    run.curves.are_apart = run.trains_apart
    if run.trains_apart and not were_apart:
        run.note("", describe_isolation(run), when)
    elif were_apart and not run.trains_apart:
        run.note("", f"rank {rank.rank} exchanges something with other ranks now", when)


def _tell_detectors(run: RunState, report: Report, rank: RankState, when: float) -> None:
    for detector in run.detectors:
        for remark in detector.take_report(report, rank, when):
            run.note("", remark, when)


def _update_forecast(run: RunState, rank: RankState) -> None:
    """Take in a step or a new phase of a rank, if it is the leader."""
    if rank is find_leader(run.ranks):
        run.forecast.update(rank, run.ranks, run.progress, run.plan)


def _take_metrics(
    run: RunState, event: ScriptMetrics, rank: RankState, when: float
) -> ScriptMetrics:
    """Take in values of a script. Return those that are kept."""
    had_room = not run.metrics.beyond
    event = run.metrics.take(event, rank.step)
    # Said once, at the first metric for which there is no room.
    if had_room and run.metrics.beyond:
        example_name = min(run.metrics.beyond)
        others_text = f"others, such as {example_name}, are counted but not kept"
        run.note("", f"the run has {MOST} metrics, the limit; {others_text}", when)
    return event


def _note_printing_rank(run: RunState, rank: RankState) -> None:
    """Have all ranks show the losses that they print once all of them print some."""
    printing_ranks = run.progress.printing_ranks
    if not rank.prints_loss or rank.rank in printing_ranks:
        return
    printing_ranks.add(rank.rank)
    if len(printing_ranks) == len(run.ranks):
        for any_rank in run.script_ranks:
            any_rank.all_print_losses = True


def _hide_step_losses(run: RunState, rank: RankState, when: float) -> None:
    """Show the losses of steps of no rank once one of them prints another quantity: means of both
    would be of neither."""
    if run.progress.prints_other_loss or not isinstance(rank, ScriptRank):
        return
    if rank.prints_other_loss:
        run.progress.prints_other_loss = True
        run.note("", rank.describe_other_loss(), when)
        for other_rank in run.script_ranks:
            other_rank.hide_step_losses()


def _begin_script(run: RunState, step: StepFinished, when: float) -> None:
    """Take in the first step of an attempt of a script, which shows whether torch is watched."""
    progress = run.progress
    is_watched = run.plan.job is None and is_of_watch(step.compute, step.sync)
    if is_watched and not progress.watched:
        progress.watched = True
        total = run.progress.argument_steps
        total_text = f"its arguments ask for {total:,}" if total else TOTAL_HINT
        run.note("", f"{WATCHED}; {total_text}", when)
    if progress.first_step_attempt < run.attempt:
        progress.first_step_attempt = run.attempt
        last_step = max(0, step.step - 1)
        _rewind(run, last_step)


def _note_parsing(run: RunState, event: Parsed, when: float) -> None:
    """Note by which format output is read, and which files are.

    Each is noted once, and not of which ranks: others may print later.
    """
    progress = run.progress
    progress.printed_steps = event.steps or progress.printed_steps
    formats = (event.format,) if event.format else ()
    for known_names, new_names, verb in (
        (progress.formats, formats, "read as:"),
        (progress.files, event.files, "reads"),
    ):
        for new_name in new_names:
            if new_name not in known_names:
                known_names.append(new_name)
                run.note("", f"{verb} {new_name}", when)


def _rewind(run: RunState, step: int) -> None:
    """Take in that the ranks go on after this step, which some may have passed before."""
    run.progress.rewind(step)
    run.curves.rewind(step)
    run.marks.rewind(step)
    run.epoch_tally.rewind(step)
    if run.progress.restarts:
        run.marks.add(RESTART, step, run.progress.restarts[-1].seconds)


def _enter_phase(run: RunState, rank: RankState, phase: RankPhase, when: float) -> None:
    has_met = run.plan.job is None and rank.phase is RankPhase.JOINING is not phase
    if not rank.enter(phase, when):
        return
    if has_met:
        _take_meeting_over(run)
    _end_stall_if_over(run, when)
    if rank.pace:
        _update_forecast(run, rank)
    if phase is RankPhase.TRAINING and run.phase is RunPhase.STARTING:
        run.phase = RunPhase.TRAINING


def _take_meeting_over(run: RunState) -> None:
    """Take in that a rank of a script no longer waits for the others before its first step.

    So all have come, also those that cannot tell, as they are not watched.
    """
    for rank in run.ranks:
        if not rank.pace:
            rank.stalled = False


def _take_divergence(run: RunState, diverged: Diverged, host: HostState, when: float) -> None:
    """Take in the first loss that is no finite number; every later step of all ranks may follow."""
    run.progress.diverged = diverged
    advice = "lower --lr" if run.plan.job else "lower its learning rate"
    if run.plan.policy.on_nan is OnNan.STOP:
        problem = f"loss is {diverged.what}"
        divergence = Cause(
            host.name, diverged.rank, problem, diverged.step, advice=advice, time=when
        )
        run.judge.refuse(divergence)
    else:
        advice = f"{advice.capitalize()}, or stop such runs with --on-nan stop"
        run.note("", f"{diverged.text}; training continues. {advice}", when)


def _end_stall_if_over(run: RunState, when: float) -> None:
    """End the stall once all ranks have gone on."""
    if run.stall and not any(rank.stalled and not rank.finished for rank in run.ranks):
        seconds = when - run.stall.since
        run.replace_stall(replace(run.stall, over=when))
        run.note("", f"the ranks continue after a stall of {duration(seconds)}", when)


# Agents -------------------------------------------------------------------------------------------


def _apply_agent(run: RunState, record: Record, host: HostState, when: float) -> None:
    """Take in what an agent reports of its host."""
    match record.event:
        case Launched() as event if record.attempt > host.attempt:  # else it is repeated
            host.count_age(event.age, record.time)
            _take_launch(run, record.attempt, event, when)
            for rank_number in event.ranks:
                rank = run.process_of(rank_number, host)
                if rank:
                    _enter_phase(run, rank, RankPhase.IMPORTING, when)
        case Reserved(_, _, error) if error:
            run.note(host.name, error, when)
        case Reserved(address, port) if host is _first_living_host(run):
            run.rendezvous = f"{address}:{port}"
        case RecordsDropped(first, text_only=True):
            if not host.has_dropped_text:
                host.has_dropped_text = True
                what = f"the oldest printed lines were dropped, from record {first} on"
                run.note(host.name, f"{what}: the journal on the host was full", when)
        case RecordsDropped(first, last):
            host.dropped = True
            missing_text = f"records {first} to {last} are missing"
            reason_text = "the journal on the host was full, or a file of it was deleted or renamed"
            run.note(host.name, f"{missing_text}: {reason_text}", when)
        case StopHeard(by_person=True) if _is_of_attempt(run, record):
            run.judge.hear_stop(when)
            host.stop_heard = True
        case HostSample():
            run.curves.sample(host.index, record.event, host.cpu_share, when - run.started)
        case AgentEnded() as event:
            host.age_at_end = host.count_age(event.age, record.time)
            _end_agent(run, event, host, when)
    # After the cases, which compare the record with what the host was before.
    host.apply(record.event, record.attempt, when)


def _first_living_host(run: RunState) -> HostState | None:
    return next((host for host in run.hosts if not host.gone), None)


def _is_of_attempt(run: RunState, record: Record) -> bool:
    return record.attempt == run.attempt or run.phase is RunPhase.STARTING


def _take_launch(run: RunState, attempt: int, launched: Launched, when: float) -> None:
    """Take in that ranks are started on a host, perhaps by a launcher without a record here."""
    take_age(run, when, launched.age)
    if attempt > run.attempt and run.are_hosts(launched.hosts):
        restart(run, attempt, launched.hosts, _reason_to_restart(run), when, started=True)
    elif attempt >= run.attempt:
        run.launcher.launch(attempt)
    if attempt == run.attempt:
        run.launcher.attempts = launched.attempts


def _reason_to_restart(run: RunState) -> str:
    """Return what the attempt before failed of, as far as the hosts report.

    It is "" if all they report may follow from what a host would report that cannot be heard.
    """
    death = run.judge.first_death()
    is_known = death is not None and death.evidence < Evidence.UNHEARD
    return run.cause.text() if run.cause and is_known else ""


def _end_agent(run: RunState, event: AgentEnded, host: HostState, when: float) -> None:
    take_age(run, when, event.age)
    host.reason = describe_end(event)
    # A host that was given up stays lost, though its last record may still come.
    if host.phase is not HostPhase.LOST:
        host.enter(HostPhase.ENDED, when)
    if event.died:
        run_folder = host.hello.folder if host.hello else ""
        problem, advice = explain_agent_end(event, run.plan.hosts[host.index], run_folder)
        run.judge.judge_host(host, problem, _began_to_end_at(run, host, when), advice=advice)
    elif event.reason in STOPPING_ENDS:
        run.judge.stop_reason = run.judge.stop_reason or explain_end(event)
        if host.parted:  # the launcher was not gone: other hosts still had theirs
            problem = "the connection to it was lost for too long, so it stopped its ranks"
            run.judge.judge_host(host, problem, when)
    elif event.reason is EndReason.NO_LAUNCHER:
        run.judge.judge_host(host, explain_end(event), when)


def _began_to_end_at(run: RunState, host: HostState, when: float) -> float:
    """Return when an agent began to end by itself.

    It first stops its ranks, and reports its own end only once they have ended.
    """
    stopped_ranks = (rank for rank in run.processes if rank.exited and rank.exited.stopped)
    return min([when, *(rank.since for rank in stopped_ranks if rank.host == host.index)])

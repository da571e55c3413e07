"""`rankboard attach`, `stop` and `logs`: which run is meant, whose word counts, and what a launcher
on this machine is told."""

from __future__ import annotations

import fcntl
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.events import HostLost, Restarted, SessionClosed, Stopping
from remote.host_commands import kept_plan
from remote.host_commands.kept_plan import Difference, KeptPlan
from remote.host_commands.run_on_hosts import HostAnswer
from remote.launch import Launcher
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError, Policy, Upload
from remote.record.write import Recorder
from remote.session.session import Session
from remote.transport import Transport
from tests.kit.commands import (
    NOWHERE,
    OBEYING,
    Done,
    Watched,
    plan_on_hosts,
    recording,
    watching,
)
from tests.kit.foreign_runs import records
from tests.kit.histories import History, plan
from tests.kit.journals import Hosts, KeptLine, Library
from tests.kit.launches import LONG, RANKBOARD, launch
from tests.kit.recorded import recorded
from tests.kit.sshd import Sshd
from tests.kit.stage import all_run, trains, until
from training.agent.host_commands import run_folders as far
from training.agent.journal import Journal
from training.job import Job
from training.wire.enums import EndReason
from training.wire.events import (
    PREFIX,
    SESSION,
    AgentEnded,
    Exited,
    Finished,
    Launched,
    OutputText,
    Record,
    encode,
    to_object,
)
from training.wire.jsonl import dumps
from tui.app.show_run import LineOptions
from tui.commands.attach import attach
from tui.commands.logs import logs
from tui.commands.stop import stop
from tui.kit.exit import FAILED, STOPPED

FILE = Cluster("test", (Host("node1", "10.0.0.1"), Host("node2", "10.0.0.2")))
PLAN = Plan("a-run", FILE.hosts, Job())


# Plans of hosts -----------------------------------------------------------------------------------


def told(run: str = "a-run", said: Plan = PLAN, **more: object) -> dict[str, Any]:
    """What a host answers that keeps this plan of the run."""
    return {"run": run, "plan": json.dumps(json.loads(serialize.dump(said)) | more), "now": 1000.0}


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Have the hosts of FILE answer so, each with one or several objects."""

    def answer(*objects: dict[str, Any] | list[dict[str, Any]], moment: float = 990.0) -> None:
        answers = [
            HostAnswer(host, tuple(said) if isinstance(said, list) else (said,), moment=moment)
            for host, said in zip(FILE.hosts, objects, strict=False)
        ]
        monkeypatch.setattr(kept_plan, "run_on_hosts", lambda *_, **__: answers)

    return answer


def test_the_plan_and_the_clocks_of_a_run_elsewhere(answer: Callable[..., None]) -> None:
    answer([], told())
    kept = plan_on_hosts(NOWHERE, FILE, "a-run")
    assert (kept.plan, kept.offsets) == (PLAN, {1: 10.0})


def test_a_host_that_was_away_when_the_run_was_left_has_another_policy(
    answer: Callable[..., None],
) -> None:
    answer(told(said=replace(PLAN, policy=Policy(keep=True))), told())
    assert plan_on_hosts(NOWHERE, FILE, "a-run").plan.policy.keep


THREE = Cluster("test", tuple(Host(f"node{n}", f"10.0.0.{n}") for n in (1, 2, 3)))
ON_THREE = replace(PLAN, hosts=THREE.hosts)


def test_a_host_whose_plan_differs_is_named_and_the_plan_of_the_others_counts(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    differing = replace(ON_THREE, work=Job(batch_size=7, lr=0.5))
    said = [told(said=differing), told(said=ON_THREE), told(said=ON_THREE)]
    answers = [HostAnswer(host, (one,)) for host, one in zip(THREE.hosts, said, strict=True)]
    monkeypatch.setattr(kept_plan, "run_on_hosts", lambda *_, **__: answers)
    kept = plan_on_hosts(NOWHERE, THREE, "a-run")
    assert (kept.plan, kept.others) == (ON_THREE, ())
    run = kept_plan.ask_for_plans(NOWHERE, THREE, "a-run").runs["a-run"]
    assert run.differences == (
        Difference("node1", "batch_size", "7", "64"),
        Difference("node1", "lr", "0.5", "0.1"),
    )
    assert (
        "rankboard: node1 keeps another plan of a-run, which is not used: batch_size is 7, "
        "elsewhere 64; lr is 0.5, elsewhere 0.1\n" in capsys.readouterr().err
    )


def test_a_host_whose_plan_cannot_be_read_is_named_and_the_plan_of_the_others_counts(
    answer: Callable[..., None], capsys: pytest.CaptureFixture[str]
) -> None:
    answer(told(said=replace(PLAN, hosts=(Host("../../etc", "x"),))), told())
    assert plan_on_hosts(NOWHERE, FILE, "a-run").plan == PLAN
    assert (
        "rankboard: node1: a-run runs on hosts that test does not have" in capsys.readouterr().err
    )


def test_of_two_hosts_that_differ_each_has_a_plan_by_which_it_is_stopped(
    answer: Callable[..., None],
) -> None:
    """Nobody knows which one is right: by the other's plan it would not be found."""
    swapped = replace(PLAN, hosts=FILE.hosts[::-1])
    answer(told(said=swapped), told())
    kept = plan_on_hosts(NOWHERE, FILE, "a-run")
    assert {kept.plan.hosts, *(plan.hosts for plan in kept.others)} == {FILE.hosts, swapped.hosts}
    alone = replace(PLAN, hosts=FILE.hosts[:1])
    answer(told(said=alone), told())
    assert plan_on_hosts(NOWHERE, FILE, "a-run").plan == PLAN, "it leaves nobody out"


@pytest.mark.parametrize(
    "name",
    ["/home/u/x", "../..", "..", ".", "", ".hidden", "-x", "a/b", "a\nb", "\x1b[2J", "a\u202eb"],
)
def test_a_name_that_is_no_plain_one_is_refused_wherever_a_plan_is_read(
    name: str, answer: Callable[..., None]
) -> None:
    """A run's name says where this machine writes."""
    with pytest.raises(ValueError, match="is not a plain name"):
        serialize.parse(serialize.dump(replace(PLAN, run=name)))
    if name:
        with pytest.raises(ValueError, match="is not a plain name"):
            serialize.parse(serialize.dump(replace(PLAN, project=name)))
    answer(told(name, replace(PLAN, run=name)))
    asked = kept_plan.ask_for_plans(NOWHERE, FILE, name)
    assert not asked.runs
    why = str(asked.mistakes[name])
    assert "cannot be read: its run" in why
    assert "is not a plain name" in why


@pytest.mark.parametrize("target", ["/etc", "../x", "a/../../b", "a//b", "a\0b"])
def test_an_upload_that_leads_elsewhere_is_refused(target: str) -> None:
    with pytest.raises(ValueError, match="leads elsewhere"):
        serialize.parse(
            serialize.dump(replace(PLAN, uploads=(Upload("/src", target),), project="x"))
        )


@pytest.mark.parametrize(
    ("said", "mistake"),
    [
        (told(said=replace(PLAN, run="b-run")), "the plan of another run, b-run"),
        (told(said=replace(PLAN, hosts=(FILE.hosts[0], FILE.hosts[0]))), "a host twice"),
        (
            told(hosts=[{"name": "node1", "address": "x", "slots": 0}]),
            "slots = 0: write a whole number from 1 to 4096",
        ),
        (
            told(said=replace(PLAN, hosts=(Host("../../etc", "x"),))),
            "that test does not have: ../../etc",
        ),
        (told(policy={"max_restarts": "many"}), "cannot be read"),
        (told(work={"script": [["rm"]]}), "cannot be read"),
        ({"run": "a-run", "plan": "[" * 100_000}, "cannot be read"),
        (
            {"run": "b-run", "plan": serialize.dump(replace(PLAN, run="b-run"))},
            "No run called 'a-run' here or on the hosts of test",
        ),
        ({"run": 7, "plan": serialize.dump(PLAN)}, "No run called 'a-run' here or on the"),
    ],
    ids=[
        "another",
        "twice",
        "no rank",
        "unknown host",
        "policy",
        "script",
        "deep",
        "not asked for",
        "no name",
    ],
)
def test_what_a_host_tells_is_not_taken_on_trust(
    said: dict[str, Any], mistake: str, answer: Callable[..., None]
) -> None:
    answer(said)
    with pytest.raises(PlanError, match=mistake):
        plan_on_hosts(NOWHERE, FILE, "a-run")


def test_a_clock_that_is_none_is_not_known(answer: Callable[..., None]) -> None:
    answer(told() | {"now": float("nan")}, told() | {"now": "noon"})
    assert plan_on_hosts(NOWHERE, FILE, "a-run").offsets == {}


def named(*names: str) -> list[dict[str, Any]]:
    return [told(name, replace(PLAN, run=name)) for name in names]


def test_a_run_elsewhere_is_known_by_its_beginning_or_as_the_last(
    answer: Callable[..., None],
) -> None:
    both = named("20261119-a", "20261120-b")
    answer(both, both)
    for asked, found in (
        ("20261119", "20261119-a"),
        ("20261120-b", "20261120-b"),
        ("last", "20261120-b"),
    ):
        assert plan_on_hosts(NOWHERE, FILE, asked).plan.run == found
    with pytest.raises(
        PlanError,
        match=r"2026: 2 runs begin so; write more of the name:\n  20261120-b\n  20261119-a$",
    ):
        plan_on_hosts(NOWHERE, FILE, "2026")
    answer(named("a", "ab"), named("ab"))
    assert plan_on_hosts(NOWHERE, FILE, "a").plan.run == "a"


def test_a_host_answers_with_the_runs_that_may_be_meant(tmp_path: Path) -> None:
    for name, host, kept in (
        ("1-a", 0, True),
        ("1-a", 1, False),
        ("1-b", 0, True),
        ("2-c", 0, True),
        ("3-d", 0, False),
    ):
        (tmp_path / "runs" / name / str(host)).mkdir(parents=True)
        if kept:
            (tmp_path / "runs" / name / str(host) / "plan.json").write_text(f"plan of {name}")
    plan = tmp_path / "runs" / "1-b" / "0" / "plan.json"
    plan.write_text('{"label": "best", "of": "1-b"}')

    def asked(name: str) -> list[str]:
        return [one["run"] for one in far.plan([str(tmp_path), name])]

    assert asked("1-a") == ["1-a"]
    assert asked("1") == ["1-a", "1-b"]
    assert asked("best") == ["1-b"]
    assert asked("last") == asked("2") == ["2-c"]
    assert asked("3") == asked("x") == asked("bes") == []


def test_a_host_tells_of_the_newest_runs_that_have_begun_and_of_all_live_ones(
    tmp_path: Path,
) -> None:
    names = [f"{number}-run" for number in range(9)]
    for name in names:
        folder = tmp_path / "runs" / name / "0"
        folder.mkdir(parents=True)
        (folder / "plan.json").write_text("{}")
        if name != "8-run":
            Journal(str(folder), 0).write(0, [Launched((0,))])
    with open(tmp_path / "runs" / "1-run" / "0" / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        told = {
            one["run"]: (one["live"], one["begun"]) for one in far.plan([str(tmp_path), "last"])
        }
    assert told == {
        **dict.fromkeys(("4-run", "5-run", "6-run", "7-run"), (False, True)),
        "1-run": (True, True),
    }


# Commands -----------------------------------------------------------------------------------------


def test_a_run_that_is_begun_after_coming_back_is_kept_over_ssh(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    for name, local in (("a-run", False), ("b-run", True)):
        Recorder(tmp_path / "runs", replace(PLAN, run=name)).release()
        if local:
            (tmp_path / "runs" / name / "node").mkdir()
    watched = Watched()
    for name in ("a-run", "b-run"):
        assert run(watching(watched, attach), run=name).returncode == 42
        watched.sessions[-1]._recorder.release()
    assert [launcher.policy.keep for launcher in watched.launchers] == [True, False]


@pytest.mark.usefixtures("over")
def test_a_dashboard_without_a_terminal_is_refused_before_anything_is_recorded(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "node1"\naddress = "10.0.0.1"\n')
    elsewhere = KeptPlan(PLAN, {}, foreign=True)
    with patch("tui.flags.recorded.find_kept", lambda *_, **__: elsewhere):
        done = run(attach, run=PLAN.run)
    assert done.returncode == 2
    assert "the dashboard needs a terminal on stdin, stdout and stderr" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_who_names_no_run_of_this_machine_or_its_hosts_is_told(run: Callable[..., Done]) -> None:
    done = run(watching(Watched(), attach), run="last")
    assert done.returncode == 2
    assert done.stderr.startswith(
        "rankboard: No run called 'last' in runs, and no hosts to ask for it: hosts.toml: no"
    )


def test_logs_ends_where_a_host_is_silent_and_says_so(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    lines = [
        Record(0, 0, seq, float(seq), OutputText(0, "stdout", f"line {seq}")) for seq in (1, 2)
    ]
    library = Library(
        KeptLine(["".join(map(encode, lines)).encode()], stays=True),
        KeptLine(
            [
                dumps({"error": "/w/runs/a-run/1: No such file or \x1b[31mdirectory"}).encode()
                + b"\n"
            ]
        ),
    )
    over(library)
    Recorder(tmp_path / "runs", library.plan).release()
    done = run(logs, run="a-run")
    assert (done.returncode, done.stdout) == (3, "[rank 0] line 1\n[rank 0] line 2\n")
    assert "rankboard: node1: its journal stood still for 0.3 s" in done.stderr
    assert "rankboard: node2: /w/runs/a-run/1: No such file or directory\n" in done.stderr


def test_logs_of_a_run_that_only_its_hosts_know(sshd: Sshd, run: Callable[..., Done]) -> None:
    """Over SSH: node2 has no folder of it."""
    hosts = sshd.make_hosts(2)
    sshd.hosts_toml(hosts)
    folder = Path(hosts[0].workdir) / "runs" / "a-run" / "0"
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(serialize.dump(replace(PLAN, hosts=hosts)))
    Journal(str(folder), 0).write(0, [OutputText(0, "stdout", "up")])
    done = run(logs, run="a-")
    assert (done.returncode, done.stdout) == (3, "[rank 0] up\n")
    missing = f"{hosts[1].workdir}/runs/a-run/1: No such file or directory"
    assert done.stderr.splitlines() == [
        "rankboard: a-run is not recorded here: using the plan of its hosts",
        f"rankboard: node2: {missing}",
    ]


def restarted() -> History:
    """A run whose rank 1 is killed in its first attempt, and that finishes in its second."""
    told = History(plan(2)).training(2)
    told.say(0, OutputText(0, "stdout", "one")).say(1, OutputText(1, "stdout", "dies"))
    told.rank(1, Exited(1, -9, "SIGKILL"))
    told.attempt = 1
    told.session(Restarted((0, 1), "node2, rank 1: killed by SIGKILL at step 2"))
    told.training(2)
    return told.say(0, OutputText(0, "stdout", "two")).say(1, OutputText(1, "stdout", "lives"))


ENDED = "---- attempt 1 ended: node2, rank 1: killed by SIGKILL at step 2; attempt 2 begins ----"


@pytest.mark.parametrize("rank", [None, 1])
def test_logs_says_where_an_attempt_ends(
    run: Callable[..., Done], tmp_path: Path, rank: int | None
) -> None:
    told = restarted().done(0, 1).ended()
    recorded(tmp_path / "runs", told)
    done = run(logs, run=told.plan.run, rank=rank)
    both = ["[rank 0] one", "[rank 1] dies", ENDED, "[rank 0] two", "[rank 1] lives"]
    mine = [line for line in both if not line.startswith("[rank 0]")]
    told_of = [line for line in done.stdout.splitlines() if "done" not in line]
    assert told_of == (both if rank is None else mine)


def test_logs_says_where_an_attempt_ends_that_only_hosts_tell(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    told = [one for one in restarted().records if one.host != SESSION]
    journals = [
        "".join(encode(one) for one in told if one.host == host).encode() for host in (0, 1)
    ]
    library = Library(*(KeptLine([text]) for text in journals))
    over(library)
    Recorder(tmp_path / "runs", library.plan).release()
    done = run(logs, run="a-run", rank=1)
    begins = "; attempt 2 begins ----"
    assert [line for line in done.stdout.splitlines() if line.endswith(begins)] == [
        f"---- attempt 1 ended: node2, rank 1: killed by SIGKILL at step 2{begins}"
    ]


def finished(folder: Path) -> Hosts:
    """The hosts of a run that was left, and has ended since."""
    stage = Hosts(trains, trains)
    session = stage.session(folder, Policy(keep=True))
    batches = session.batches()
    until(session, batches, lambda: all_run(session))
    session.detach()
    for _ in batches:
        continue
    for rank, line in stage.lines.items():
        done = PREFIX + dumps(to_object(Finished(rank, 1, 1, 1.0)))
        line.say(
            OutputText(rank, "stdout", f"{done}\nrank {rank} is done"),
            Exited(rank, 0),
            AgentEnded(EndReason.ALL_ENDED),
        )
    return stage


def test_logs_follows_from_elsewhere_from_the_first_line_on(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    stage = finished(tmp_path / "elsewhere")
    over(stage)
    Recorder(tmp_path / "runs", stage.plan(Policy(keep=True))).release()
    done = run(logs, run="a-run", follow=True)
    assert done.returncode == 0
    assert sorted(done.stdout.splitlines()) == [
        "[rank 0] rank 0 is done",
        "[rank 1] rank 1 is done",
    ]
    again = run(logs, run="a-run", rank=1)
    assert (again.returncode, again.stdout) == (0, "[rank 1] rank 1 is done\n")


# Stopping what a process of this machine records --------------------------------------------------

DEAF = "time.sleep(600)"


@pytest.mark.parametrize(("now", "name"), [(False, "SIGUSR1"), (True, "SIGQUIT")])
def test_a_launcher_that_is_told_to_stop_is_waited_for(
    now: bool, name: str, run: Callable[..., Done], tmp_path: Path
) -> None:
    watched = Watched()
    with recording(tmp_path, OBEYING) as pid:
        done = run(watching(watched, stop), run="last", now=now)
    assert done.returncode == 0
    assert done.stderr.splitlines() == [
        f"rankboard: last is a-run, started here, live: its launcher is process {pid}",
        f"rankboard: asked the launcher of a-run, process {pid}, to stop it",
        f"rankboard: stopped after 1 s: {name} came",
    ]
    assert not watched.sessions


LOSING = """
from remote.events import HostLost
from training.wire.events import Launched, encode
recorder.raw(encode(Record(0, 0, 1, 0.5, Launched((0,)))).encode())
ends = Stopping("enough", True), HostLost(0, "node1: not heard", reached=True), SessionClosed()
for seq, event in enumerate(ends, 1):
    recorder.write(Record(SESSION, 0, seq, float(seq), event))
recorder.close(RunState(plan))
"""


def test_a_launcher_that_stopped_a_run_without_one_of_its_hosts_is_not_believed(
    run: Callable[..., Done], tmp_path: Path
) -> None:
    with recording(tmp_path, LOSING):
        done = run(watching(Watched(), stop), run="a-run")
    assert done.returncode == 3
    assert done.stderr.splitlines()[-2:] == [
        "rankboard: stopped after 2 s, except perhaps on node1: enough",
        "rankboard: ranks may still run on node1: once it answers, repeat rankboard stop a-run",
    ]


@pytest.mark.parametrize("verdict", [STOPPED, FAILED])
def test_stop_fails_as_long_as_a_host_has_not_confirmed(
    verdict: int,
    run: Callable[..., Done],
    over: Callable[[Transport], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over(NOWHERE)

    def watch(_: Launcher, session: Session, __: LineOptions) -> int:
        session._recorder.release()
        return verdict

    monkeypatch.setattr("tui.app.show_run.watch", watch)
    recorder = Recorder(tmp_path / "runs", PLAN)
    recorder.release()
    told = [
        *((host, Launched((host,), (0, 1))) for host in (0, 1)),
        (SESSION, Stopping("enough", True)),
        (SESSION, HostLost(1, "node2: not heard", reached=True)),
        (0, Exited(0, -15, "SIGTERM", stopped=True)),
        (0, AgentEnded(EndReason.CLOSED)),
        (SESSION, SessionClosed()),
    ]
    (recorder.folder / "events.jsonl").write_text(records(told))
    done = run(stop, run="a-run")
    assert done.returncode == 3
    assert done.stderr == (
        "rankboard: ranks may still run on node2: once it answers, repeat rankboard stop a-run\n"
    )
    confirmed = [
        *told,
        (1, Exited(1, -15, "SIGTERM", stopped=True)),
        (1, AgentEnded(EndReason.CLOSED)),
    ]
    (recorder.folder / "events.jsonl").write_text(records(confirmed))
    assert run(stop, run="a-run").returncode == 0


def test_a_launcher_that_does_not_obey_is_named(
    run: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tui.commands.stop.OBEYING", 0.3)
    with recording(tmp_path, DEAF) as pid:
        done = run(watching(Watched(), stop), run="a-run", now=True)
    assert done.returncode == 3
    assert done.stderr.endswith(
        f"rankboard: the launcher does not respond: end it with kill -9 {pid}, then repeat "
        "rankboard stop a-run\n"
    )


def test_what_a_launcher_has_left_behind_is_stopped_without_it(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    watched = Watched()
    with recording(tmp_path, ""):
        assert run(watching(watched, stop), run="a-run").returncode == 42
    (session,) = watched.sessions
    assert not session._queue.empty(), "it is told to stop"
    session._recorder.release()


def test_a_run_is_stopped_at_once_from_another_terminal(tmp_path: Path) -> None:
    running = launch(tmp_path, "--local", "2", *LONG)
    running.events("launched")
    words = [RANKBOARD, "stop", "last", "--now"]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as stop:
        assert running.end(30) == 130  # which reads what it prints meanwhile
        _, said = stop.communicate()
    assert stop.returncode == 0, said
    assert "rankboard received SIGQUIT" in said

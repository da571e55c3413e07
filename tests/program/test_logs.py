"""`rankboard logs`: of runs that are recorded here, and of those that only hosts know."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.events import Restarted
from remote.plan import serialize
from remote.plan.plan import Plan, Policy
from remote.record.write import Recorder
from remote.transport import Transport
from tests.kit.commands import (
    Done,
)
from tests.kit.histories import History, plan
from tests.kit.journals import Hosts, KeptLine, Library
from tests.kit.recorded import recorded
from tests.kit.sshd import Sshd
from tests.kit.stage import all_run, trains, until
from training.agent.journal import Journal
from training.job import Job
from training.wire.enums import EndReason
from training.wire.events import PREFIX, SESSION, Record, encode, to_object
from training.wire.host_events import AgentEnded, Exited, OutputText
from training.wire.jsonl import dumps
from training.wire.rank_events import Finished
from tui.commands.logs import logs

FILE = Cluster("test", (Host("node1", "10.0.0.1"), Host("node2", "10.0.0.2")))
PLAN = Plan("a-run", FILE.hosts, Job())


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


@pytest.mark.parametrize("rank", [(), ("1",)])
def test_logs_says_where_an_attempt_ends(
    run: Callable[..., Done], tmp_path: Path, rank: tuple[str, ...]
) -> None:
    told = restarted().done(0, 1).ended()
    recorded(tmp_path / "runs", told)
    done = run(logs, run=told.plan.run, rank=rank)
    both = ["[rank 0] one", "[rank 1] dies", ENDED, "[rank 0] two", "[rank 1] lives"]
    mine = [line for line in both if not line.startswith("[rank 0]")]
    told_of = [line for line in done.stdout.splitlines() if "done" not in line]
    assert told_of == (mine if rank else both)


def many(tmp_path: Path) -> History:
    """A recorded run of six ranks, each of which has printed its number."""
    told = History(plan(6)).training(1)
    for rank in range(6):
        told.say(rank, OutputText(rank, "stdout", f"line of {rank}"))
    recorded(tmp_path / "runs", told.done(*range(6)).ended())
    return told


@pytest.mark.parametrize(
    ("words", "ranks"),
    [
        (("2",), [2]),
        (("0,2",), [0, 2]),
        (("5", "1"), [1, 5]),
        (("1-3",), [1, 2, 3]),
        (("0, 3-4", "3"), [0, 3, 4]),
    ],
)
def test_several_ranks_are_shown_together(
    run: Callable[..., Done], tmp_path: Path, words: tuple[str, ...], ranks: list[int]
) -> None:
    told = many(tmp_path)
    done = run(logs, run=told.plan.run, rank=words)
    lines = [line for line in done.stdout.splitlines() if "line of" in line]
    assert lines == [f"[rank {rank}] line of {rank}" for rank in ranks]
    assert {line.split("]")[0] for line in done.stdout.splitlines()} == {
        f"[rank {rank}" for rank in ranks
    }


@pytest.mark.parametrize("tail", [None, 3])
def test_what_ranks_wrote_to_stderr_is_printed_in_order_to_stdout(
    run: Callable[..., Done], tmp_path: Path, tail: int | None
) -> None:
    traceback = "Traceback (most recent call last):\nValueError: bad label"
    told = History(plan(2, script=True)).rank(0, OutputText(0, "stdout", "step 7"))
    told.rank(1, OutputText(1, "stderr", traceback), Exited(1, 1))
    recorded(tmp_path / "runs", told.ended())
    done = run(logs, run=told.plan.run, tail=tail)
    assert done.stdout.splitlines() == [
        "[rank 0] step 7",
        "[rank 1] Traceback (most recent call last):",
        "[rank 1] ValueError: bad label",
    ]
    assert "ValueError" not in done.stderr


@pytest.mark.parametrize("tail", [None, 5])
@pytest.mark.parametrize(
    ("words", "remark"),
    [
        (("1",), "rankboard: rank 1 has printed nothing\n"),
        (("1-2",), "rankboard: ranks 1 and 2 have printed nothing\n"),
        (("0-1",), ""),
    ],
)
def test_of_ranks_that_have_printed_nothing_this_is_said(
    run: Callable[..., Done],
    tmp_path: Path,
    words: tuple[str, ...],
    remark: str,
    tail: int | None,
) -> None:
    told = History(plan(3, script=True)).say(0, OutputText(0, "stdout", "a line"))
    for host in range(3):
        told.done(host).say(host, AgentEnded(EndReason.ALL_ENDED))
    recorded(tmp_path / "runs", told.ended())
    done = run(logs, run=told.plan.run, rank=words, tail=tail)
    assert (done.returncode, done.stderr) == (0, remark)
    assert bool(done.stdout) == (not remark)


@pytest.mark.parametrize(
    ("word", "problem"),
    [
        ("6", "has ranks 0 to 5"),
        ("4-6", "has ranks 0 to 5"),
        ("3-1", "write the lower rank first"),
        ("one", "write ranks, such as"),
        ("1,,2", "write ranks, such as"),
        ("-1", "write ranks, such as"),
        ("1-", "write ranks, such as"),
        ("9" * 5000, "write ranks, such as"),
    ],
)
def test_a_rank_that_the_run_does_not_have_is_refused(
    run: Callable[..., Done], tmp_path: Path, word: str, problem: str
) -> None:
    done = run(logs, run=many(tmp_path).plan.run, rank=("0", word))
    assert (done.returncode, done.stdout) == (2, "")
    assert problem in done.stderr


@pytest.mark.parametrize("tail", range(8))
@pytest.mark.parametrize("rank", [(), ("1",), ("0-1",)])
def test_the_last_lines_are_those_that_are_printed_last(
    run: Callable[..., Done], tmp_path: Path, rank: tuple[str, ...], tail: int
) -> None:
    told = restarted().rank(1, OutputText(1, "stdout", "a\nb\nc")).done(0, 1).ended()
    recorded(tmp_path / "runs", told)
    whole = run(logs, run=told.plan.run, rank=rank).stdout.splitlines(keepends=True)
    done = run(logs, run=told.plan.run, rank=rank, tail=tail)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "".join(whole[-tail:] if tail else [])
    with (tmp_path / "runs" / told.plan.run / "events.jsonl").open("r+") as file:
        lines = [line for line in file if '"event":"steps"' not in line]
        file.seek(0)
        file.truncate()
        file.writelines(lines)
        file.write(encode(Record(1, 1, 10**6, told.now, OutputText(1, "stdout", "x\ny")))[:-1])
    again = run(logs, run=told.plan.run, rank=rank, tail=tail)
    whole += ["[rank 1] x\n", "[rank 1] y\n"]
    assert again.stdout == "".join(whole[-tail:] if tail else [])


def test_the_last_lines_of_a_run_that_was_left_are_those_of_its_hosts(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    stage = finished(tmp_path / "runs")
    over(stage)
    whole = run(logs, run="a-run").stdout.splitlines(keepends=True)
    assert len(whole) == 2
    for tail in range(4):
        assert run(logs, run="a-run", tail=tail).stdout == "".join(whole[-tail:] if tail else [])
    (tmp_path / "runs" / "a-run" / "events.jsonl").unlink()
    assert run(logs, run="a-run", tail=1).stdout in whole


def test_the_last_lines_are_not_parsed(run: Callable[..., Done], tmp_path: Path) -> None:
    told = History(plan(1, script=True)).training(2)
    recorded(tmp_path / "runs", told)
    done = run(logs, run=told.plan.run, parse=True, tail=3)
    assert done.returncode == 2
    assert "leave --tail out" in done.stderr


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
    done = run(logs, run="a-run", rank=("1",))
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
    again = run(logs, run="a-run", rank=("1",))
    assert (again.returncode, again.stdout) == (0, "[rank 1] rank 1 is done\n")

"""The agent with real processes: what it starts, hears, stops, and never leaves behind."""

from __future__ import annotations

import gc
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.kit.agents import ROOT, Host, python
from tests.kit.wait import GUARD, wait
from training.agent.__main__ import main
from training.agent.host.processes import descendants
from training.agent.host.system import LINUX
from training.agent.times import AgentTimes
from training.wire.commands import (
    Close,
    Keep,
    Lease,
    Placement,
    Reserve,
    RunBefore,
    StartAttempt,
    Stop,
)
from training.wire.enums import EndReason
from training.wire.events import Record
from training.wire.host_events import (
    AGENT,
    AgentEnded,
    BeforeEnded,
    BeforeStarted,
    Exited,
    GpuSample,
    Hello,
    HostSample,
    Launched,
    OutputText,
    RankSample,
    Reserved,
    Spawned,
)

pytestmark = pytest.mark.skipif(not LINUX, reason="the proof that nothing is left needs /proc")

SLEEP = "import time; print('up'); time.sleep(600)"
STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); "
    "time.sleep(600)"
)
RUNAWAY = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print("away", flush=True)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""


def ended(records: list[Record]) -> AgentEnded:
    """The last record's event, which must be the end, after a gapless row of records."""
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    last = records[-1].event
    assert isinstance(last, AgentEnded)
    return last


# Ranks


def test_a_run_of_two_ranks_from_hello_to_ended(host: Host) -> None:
    line = host.follow("--route-to", "127.0.0.2", "--cwd", str(host.folder.parent))
    code = (
        "import os, sys; print(os.environ['RANK'], os.getcwd()); print('bad', file=sys.stderr); "
        "print('no newline', end='')"
    )
    line.start(python(code, 0, RANK="0"), python(code, 1, RANK="1"))
    line.exits(2)
    records = line.close()
    assert ended(records) == AgentEnded(EndReason.CLOSED)
    first = records[0].event
    assert isinstance(first, Hello)
    assert (first.route_interface, first.folder) == ("lo", str(host.folder))
    assert line.of(Launched) == [Launched((0, 1))]
    assert {record.attempt for record in records[1:]} == {1}
    for rank in (0, 1):
        own = [record.event for record in records if getattr(record.event, "rank", None) == rank]
        assert isinstance(own[0], Spawned)
        assert own[-1] == Exited(rank, 0)
        assert line.text(rank) == f"{rank} {host.folder.parent}\nno newline"
        assert line.text(rank, "stderr") == "bad"
    assert host.folder.stat().st_mode & 0o777 == 0o700


def test_an_agent_tells_how_old_the_run_is_and_how_many_attempts_it_may_have(host: Host) -> None:
    """As its launcher has said first, also where another launcher says so later."""
    line = host.follow()
    line.send(Keep("plan.json", "{}", 100.0), Keep("plan.json", "{}", 7.0))
    line.send(StartAttempt(0, False, (python("pass"),), (0,), attempts=3))
    line.exits(1)
    last = ended(line.close())
    (launched,) = line.of(Launched)
    assert launched.attempts == 3
    assert 100.0 <= launched.age <= last.age < 200.0


def test_an_exit_is_told_by_code_or_signal(host: Host) -> None:
    ends = (
        ("raise SystemExit(0)", 0, ""),
        ("raise SystemExit(7)", 7, ""),
        ("raise ValueError", 1, ""),
        ("import os; os.abort()", -6, "SIGABRT"),
        ("import os; os.kill(os.getpid(), 9)", -9, "SIGKILL"),
        ("import os; os.kill(os.getpid(), 15)", -15, "SIGTERM"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGRTMIN + 3)",
            -signal.SIGRTMIN - 3,
            "SIG37",
        ),
    )
    line = host.follow()
    line.start(*(python(code, rank) for rank, (code, _, _) in enumerate(ends)))
    assert line.exits(len(ends)) == {
        rank: Exited(rank, code, name) for rank, (_, code, name) in enumerate(ends)
    }
    line.close()


def test_a_program_that_does_not_exist_is_said_as_a_shell_would(host: Host) -> None:
    line = host.follow("--cwd", "/")
    line.start(
        Placement(0, 0, ("no-such-program",), ()), Placement(1, 1, (sys.executable, "\0"), ())
    )
    assert line.exits(2) == {0: Exited(0, 127), 1: Exited(1, 127)}
    assert line.text(0, "stderr") == "cannot start no-such-program in /: No such file or directory"
    assert "null byte" in line.text(1, "stderr")
    line.close()


def test_a_descendant_that_holds_the_pipe_does_not_hold_up_the_exit(host: Host) -> None:
    line = host.follow()
    line.start(
        python("import os, time\nif os.fork() == 0: time.sleep(600)\nprint('last words', end='')")
    )
    assert line.exits(1)[0] == Exited(0, 0)
    assert line.text() == "last words"
    assert ended(line.close()) == AgentEnded(EndReason.CLOSED)


def test_a_flood_comes_whole_and_in_order_while_the_agent_obeys(host: Host) -> None:
    line = host.follow()
    line.start(
        python(
            "import sys\nfor n in range(100_000): sys.stdout.write(f'{n} some words of a log "
            "line\\n')"
        ),
        python(SLEEP, 1),
    )
    line.wait_for(OutputText, 5, 0)
    line.send(Reserve("127.0.0.1", 0))
    line.exits(1)
    assert line.text().split("\n") == [f"{n} some words of a log line" for n in range(100_000)]
    assert len(line.of(OutputText, 0)) < 10_000
    events = [record.event for record in line.records]
    assert events.index(line.of(Reserved)[0]) < events.index(line.of(Exited)[0])
    line.close()


def test_binary_output_and_a_line_of_a_megabyte(host: Host) -> None:
    line = host.follow()
    binary = "import os; [os.write(1, bytes(range(256)) * 16) for _ in range(200)]"
    line.start(python(binary), python("import os; os.write(1, b'y' * 1_000_000 + b'\\n')", 1))
    line.exits(2)
    pieces = line.of(OutputText, 1)
    assert "".join(piece.text for piece in pieces) == "y" * 1_000_000
    expected = (bytes(range(256)) * 16 * 200).decode(errors="replace")
    assert line.text().replace("\n", "") == expected.replace("\n", "")
    assert ended(line.close()) == AgentEnded(EndReason.CLOSED)


def test_ranks_keep_the_niceness_that_the_agent_gives_up(host: Host) -> None:
    line = host.follow()
    line.start(python("import os, time; print(os.nice(0)); time.sleep(600)"))
    line.wait_for_text(str(os.nice(0)))
    assert os.getpriority(os.PRIO_PROCESS, line.agent()) == min(19, os.nice(0) + 10)
    assert os.getpriority(os.PRIO_PROCESS, line.pid()) == os.nice(0)
    line.close()


def test_samples_of_host_and_ranks_come_with_each_tick(host: Host) -> None:
    line = host.follow(times=AgentTimes(tick=0.05))
    line.start(python("while True: pass"), python(SLEEP, 1))
    wait(
        lambda: any(sample.cpu > 20 for sample in line.of(RankSample, 0)),
        "rank 0 is seen to be busy",
    )
    wait(
        lambda: {one.rank for one in line.of(RankSample) if one.memory > 1 << 20} == {0, 1},
        "the memory of both ranks, which is small until they execute their program",
    )
    assert len(line.wait_for(HostSample)[0].cpu) == os.cpu_count()
    line.close()


def test_samples_of_gpus_come_while_ranks_run_and_nothing_is_left(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "nvidia-smi"
    line_of_gpu = "1, GPU-8a5f, 97, 71680, 81559, 1410, 1980, 0x0000000000000000"
    tool.write_text(
        f"#!/bin/sh\necho $$ >> {tmp_path}/pids\nwhile echo '{line_of_gpu}'; do sleep 0.05; done\n"
    )
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    line = host.follow(times=AgentTimes(tick=0.05))
    line.start(python(SLEEP), python(SLEEP, 1), python("", 2, CUDA_VISIBLE_DEVICES="1,0"))
    samples = line.wait_for(GpuSample, 3)
    assert {one.rank for one in samples} == {1}
    assert samples[0] == GpuSample(1, 97.0, 71680 << 20, 81559 << 20, 1410, 1980)
    assert ended(line.close()) == AgentEnded(EndReason.CLOSED)
    for pid in (tmp_path / "pids").read_text().split():
        assert not Path(f"/proc/{pid}").exists()


def test_an_idle_agent_costs_nothing(host: Host) -> None:
    line = host.follow()
    agent = line.agent()

    def ticks() -> int:
        fields = Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    line.wait_for(HostSample, 1)
    before = ticks()
    line.wait_for(HostSample, 3)
    assert ticks() - before <= 0.03 * 2 * os.sysconf("SC_CLK_TCK")
    line.close()


# Commands


def test_a_port_is_reserved_and_free_again_for_a_plain_program(host: Host) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        line = host.follow()
        line.send(Reserve("127.0.0.1", port))
        refused = line.wait_for(Reserved)[0]
    assert refused.port == 0
    assert f"port {port} on 127.0.0.1 is in use by " in refused.error
    line.send(Reserve("127.0.0.1", 0))
    given = line.wait_for(Reserved, 2)[1]
    socket.create_connection(("127.0.0.1", given.port)).close()
    line.start(
        python(f"import socket; socket.create_server(('127.0.0.1', {given.port})); print('bound')")
    )
    assert line.exits(1)[0] == Exited(0, 0), line.text(0, "stderr")
    line.close()


def test_stop_ends_who_obeys_who_ignores_it_and_who_is_stopped(host: Host) -> None:
    line = host.follow()
    line.start(python(SLEEP, 0), python(STUBBORN, 1), python(SLEEP, 2))
    for rank in range(3):
        line.wait_for_text("up", rank)
    os.kill(line.pid(2), signal.SIGSTOP)
    line.stop(0.5)
    stopped = line.exits(3)
    assert stopped[0] == Exited(0, -15, "SIGTERM", stopped=True)
    assert stopped[1] == Exited(1, -9, "SIGKILL", stopped=True)
    assert stopped[2].stopped  # by which of the two depends on the kernel
    line.send(StartAttempt(2, False, (python("print('again')"),)))
    wait(lambda: line.of(Exited, 0)[-1] == Exited(0, 0), "the second attempt")
    assert line.records[-1].attempt == 2
    line.close()


def test_stop_also_ends_what_left_its_rank_s_group(host: Host) -> None:
    line = host.follow()
    line.start(python(RUNAWAY))
    line.wait_for_text("away")
    line.stop(5)
    line.exits(1)
    wait(lambda: len(host.processes()) == 3, "only follower, guard and agent are left")
    line.close()


def test_close_leaves_nothing_behind_when_the_line_ends(host: Host) -> None:
    line = host.follow(times=AgentTimes(grace=0.3))
    line.start(python(RUNAWAY, 0), python(STUBBORN, 1))
    line.wait_for_text("away")
    line.wait_for_text("up", 1)
    records = line.close()
    assert host.processes() == []
    assert ended(records) == AgentEnded(EndReason.CLOSED)
    assert all(event.stopped for event in line.of(Exited))
    assert not list(host.folder.glob("reserve"))


def test_what_is_no_command_or_comes_at_the_wrong_time_is_said(host: Host) -> None:
    line = host.follow()
    assert line.process.stdin
    line.process.stdin.write(b"nonsense\n")
    line.start(python(SLEEP))
    line.send(StartAttempt(2, False, (python(SLEEP, 1),)))
    line.wait_for(OutputText, 2, AGENT)
    assert line.text(AGENT, "stderr").split("\n") == [
        "not a command: a line of 8 bytes",
        "attempt 2 is not started: ranks of the one before still run",
    ]
    line.close()


def test_a_command_that_comes_twice_is_obeyed_once(host: Host) -> None:
    """As over a new connection, where nobody knows whether it came over the one before."""
    line = host.follow()
    line.send(Reserve("127.0.0.1", 0), Reserve("127.0.0.1", 0))
    first, second = line.wait_for(Reserved, 2)
    assert first == second
    line.start(python("print('once')"))
    line.exits(1)
    line.start(python("print('again')"))
    line.close()
    assert line.text() == "once"


def before(command: str, **env: str) -> RunBefore:
    return RunBefore(Placement(0, 0, ("sh", "-c", command), tuple(env.items())))


def test_a_command_before_the_ranks_runs_once_where_they_work(host: Host) -> None:
    line = host.follow("--cwd", str(host.folder.parent))
    command = before("pwd; echo $WORD >&2; echo x >> before.txt; exit 3", WORD="secret")
    line.send(command, command)
    [ended_command] = line.wait_for(BeforeEnded)
    assert ended_command.code == 3
    line.start(python("print('rank')"))
    line.exits(1)
    records = line.close()
    kinds = [type(record.event) for record in records]
    assert kinds.index(BeforeStarted) < kinds.index(BeforeEnded) < kinds.index(Launched)
    assert line.text(AGENT) == str(host.folder.parent)
    assert line.text(AGENT, "stderr") == "secret"
    assert (host.folder.parent / "before.txt").read_text() == "x\n"


def test_the_agent_is_awake_while_a_command_before_the_ranks_runs_and_a_close_ends_it(
    host: Host,
) -> None:
    line = host.follow("--policy", "stop")
    line.send(before("echo up; sleep 600"))
    line.wait_for(OutputText, 1, AGENT)
    line.send(Reserve("127.0.0.1", 0))
    line.wait_for(Reserved)
    assert ended(line.close()) == AgentEnded(EndReason.CLOSED)


def test_a_command_before_the_ranks_that_is_stopped_may_clean_up(host: Host) -> None:
    line = host.follow("--policy", "stop")
    trap = "trap 'sleep 0.2; echo cleaned; exit 0' TERM; echo up; while :; do sleep 0.05; done"
    line.send(before(trap))
    line.wait_for(OutputText, 1, AGENT)
    records = line.close()
    assert ended(records) == AgentEnded(EndReason.CLOSED)
    assert line.text(AGENT).split() == ["up", "cleaned"]
    [end] = [record.event for record in records if isinstance(record.event, BeforeEnded)]
    assert (end.code, end.stopped) == (0, True)


# Followers


def test_a_new_follower_goes_on_where_the_killed_one_was(host: Host) -> None:
    line = host.follow("--policy", "stop")
    line.start(python("import time\nfor n in range(500): print(n); time.sleep(0.002)"))
    line.wait_for(OutputText, 5, 0)
    line.kill()
    known = list(line.records)
    second = host.follow(after=known[-1].seq)
    second.wait_for(OutputText, 5, 0)
    third = host.follow(after=known[-1].seq)  # beside the second one
    third.exits(1)
    rest = second.close()
    records = known + rest
    assert ended(records) == AgentEnded(EndReason.CLOSED)
    assert third.rest() == rest
    texts = [record.event.text for record in records if isinstance(record.event, OutputText)]
    assert "\n".join(texts).split("\n") == [str(n) for n in range(500)]


def test_the_journal_can_still_be_read_when_all_has_ended(host: Host) -> None:
    records = host.follow().close()
    assert host.follow().rest() == records
    assert host.follow(after=1).rest() == records[1:]
    assert host.processes() == []


def test_a_stop_run_ends_when_its_follower_is_killed(host: Host) -> None:
    line = host.follow("--policy", "stop", times=AgentTimes(reconnect=0.3, grace=0.3))
    line.start(python(RUNAWAY, 0), python(STUBBORN, 1))
    line.wait_for_text("away")
    line.wait_for_text("up", 1)
    line.kill()
    host.wait_until_empty()
    assert ended(host.follow().rest()) == AgentEnded(EndReason.OPERATOR_GONE)


def test_a_keep_run_goes_on_without_a_follower_and_ends_by_itself(host: Host) -> None:
    line = host.follow("--policy", "keep", times=AgentTimes(reconnect=0.1))
    flag = host.folder.parent / "go"
    line.start(
        python(
            f"import os, time\nwhile not os.path.exists({str(flag)!r}): "
            "time.sleep(0.01)\nprint('went')"
        )
    )
    line.pid()
    line.kill()
    agent = line.agent()
    before = time.monotonic()
    wait(lambda: time.monotonic() - before > 0.5, "far more than the time for a reconnect")
    assert agent in host.processes()
    flag.touch()
    host.wait_until_empty()
    last = host.follow()
    assert ended(last.rest()) == AgentEnded(EndReason.ALL_ENDED)
    assert last.text() == "went"


def test_while_nobody_is_there_a_failed_rank_stops_the_others(host: Host) -> None:
    line = host.follow("--policy", "keep", times=AgentTimes(reconnect=0.1))
    flag = host.folder.parent / "go"
    line.start(python(SLEEP), python(failing_on(flag), 1))
    line.pid(0), line.pid(1)
    line.kill()
    flag.touch()
    host.wait_until_empty()
    exits = host.follow().exits(2)
    assert (exits[1].code, exits[1].stopped) == (3, False)
    assert exits[0].stopped


def failing_on(flag: Path) -> str:
    """A rank that fails once this file is there."""
    return (
        f"import os, sys, time\nwhile not os.path.exists({str(flag)!r}): "
        "time.sleep(0.01)\nsys.exit(3)"
    )


def test_a_failed_run_that_may_be_started_again_waits_for_whoever_does_it(host: Host) -> None:
    line = host.follow("--policy", "keep", times=AgentTimes(tick=0.05, reconnect=0.1))
    flag = host.folder.parent / "go"
    line.send(StartAttempt(0, False, (python(SLEEP), python(failing_on(flag), 1)), again=True))
    line.pid(0), line.pid(1)
    line.kill()
    flag.touch()
    wait(lambda: len(host.processes()) == 2, "guard and agent are left")
    before = time.monotonic()
    wait(lambda: time.monotonic() - before > 0.5, "far more than the time for a reconnect")
    second = host.follow(after=line.records[-1].seq)
    second.send(StartAttempt(1, False, (python("print('again')"),), again=True))
    second.wait_for_text("again")
    second.wait_for(Exited, 3)
    second.kill()
    host.wait_until_empty()
    assert ended(host.follow().rest()) == AgentEnded(EndReason.ALL_ENDED)


def test_it_waits_so_long_only_from_the_failure_on(host: Host) -> None:
    line = host.follow("--policy", "keep", times=AgentTimes(tick=0.05, reconnect=0.1, restart=0.4))
    flag = host.folder.parent / "go"
    line.send(StartAttempt(0, False, (python(failing_on(flag)),), again=True))
    line.pid()
    line.kill()
    before = time.monotonic()
    wait(lambda: time.monotonic() - before > 0.6, "it is alone for longer than it will wait")
    flag.touch()
    host.wait_until_empty()
    records = host.follow().rest()
    assert ended(records) == AgentEnded(EndReason.ALL_ENDED)
    (failed,) = [record.time for record in records if isinstance(record.event, Exited)]
    assert records[-1].time - failed > 0.3


@pytest.mark.parametrize(
    ("code", "stop", "waits"),
    [
        ("print('up')", None, False),
        (SLEEP, Stop(), False),
        (SLEEP, Stop(again=True), True),
    ],
    ids=["finished", "stopped for good", "stopped to be started again"],
)
def test_only_what_is_to_be_started_again_is_waited_for(
    host: Host, code: str, stop: Stop | None, waits: bool
) -> None:
    restart = 0.8 if waits else 600.0
    line = host.follow(
        "--policy", "keep", times=AgentTimes(tick=0.05, reconnect=0.1, restart=restart)
    )
    line.send(StartAttempt(0, False, (python(code),), again=True))
    line.wait_for_text("up")
    if stop:
        line.send(stop)
    line.exits(1)
    line.kill()
    host.wait_until_empty()
    records = host.follow().rest()
    assert ended(records) == AgentEnded(EndReason.ALL_ENDED)
    (exited,) = [record.time for record in records if isinstance(record.event, Exited)]
    assert not waits or records[-1].time - exited > 0.7


def test_where_agent_and_guard_are_gone_at_once_the_journal_gets_its_end(host: Host) -> None:
    line = host.follow()
    agent = line.agent()
    guard = int(Path(f"/proc/{agent}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(guard, signal.SIGSTOP)
    os.kill(agent, signal.SIGKILL)
    os.kill(guard, signal.SIGKILL)
    (end,) = [record.event for record in line.rest() if isinstance(record.event, AgentEnded)]
    assert end == AgentEnded(EndReason.ABANDONED)
    assert ended(host.follow().rest()) == end


def test_where_there_is_no_journal_nobody_is_come_back_to(host: Host) -> None:
    line = host.follow("--no-found")
    assert line.process.wait(GUARD) == 2
    assert not host.folder.exists()


def test_without_a_sign_of_life_a_stop_run_ends(host: Host) -> None:
    line = host.follow(times=AgentTimes(tick=0.05, lease=0.6))
    line.start(python(SLEEP))
    line.wait_for_text("up")
    before = time.monotonic()
    while time.monotonic() - before < 1.0:
        line.send(Lease())
        line.wait_for(HostSample, len(line.of(HostSample)) + 1)
    assert not line.of(Exited)
    assert ended(line.rest()) == AgentEnded(EndReason.LEASE_EXPIRED, "0.6 s")


def test_a_follower_without_input_exits(host: Host) -> None:
    line = host.follow(times=AgentTimes(input=0.3, reconnect=0.1))
    assert line.process.wait(GUARD) == 1
    assert line.process.stderr
    assert line.process.stderr.read() == b"no input for 0.3 s\n"
    host.wait_until_empty()


def test_a_follower_ends_with_its_stdin(host: Host) -> None:
    line = host.follow(times=AgentTimes(reconnect=0.3))
    line.agent()
    assert line.process.stdin
    line.process.stdin.close()
    assert line.process.wait(GUARD) == 0
    host.wait_until_empty()


@pytest.mark.parametrize("is_asked", [True, False])
def test_files_that_programs_write_are_told_at_the_end(
    is_asked: bool, host: Host, tmp_path: Path
) -> None:
    (tmp_path / "train.py").touch()
    line = host.follow("--cwd", str(tmp_path))
    writes = (python("open('first.pt', 'w')"), python("open('second.pt', 'w')"))
    for attempt, rank in enumerate(writes):
        line.send(StartAttempt(attempt, False, (rank,), again=True, tell_written=is_asked))
        line.wait_for(Exited, attempt + 1)
    end = ended(line.close())
    assert end.written == (("first.pt", "second.pt") if is_asked else ())
    assert end.written_count == len(end.written)


def test_a_folder_with_a_very_long_path(host: Host) -> None:
    host.folder = host.folder / ("x" * 100) / ("y" * 100)
    assert ended(host.follow().close()) == AgentEnded(EndReason.CLOSED)


def test_a_folder_that_cannot_be_used_is_a_message(host: Host) -> None:
    host.folder.write_text("a file")
    line = host.follow()
    assert line.process.wait(GUARD) == 2
    assert line.process.stderr
    said = line.process.stderr.read().decode()
    assert said == f"the agent cannot use its folder {host.folder}: File exists\n"


# Deaths


def test_when_the_agent_is_killed_all_below_it_goes_and_the_guard_says_so(host: Host) -> None:
    line = host.follow("--policy", "keep")
    line.start(python(RUNAWAY, 0), python(STUBBORN, 1))
    line.wait_for_text("away")
    line.wait_for_text("up", 1)
    os.kill(line.agent(), signal.SIGKILL)
    records = line.rest()
    assert host.processes() == []
    assert ended(records) == AgentEnded(EndReason.AGENT_DIED, "SIGKILL")
    assert records[-1].attempt == 1


def test_when_somebody_tells_the_agent_to_terminate_it_ends_its_ranks_and_says_so(
    host: Host,
) -> None:
    line = host.follow("--policy", "keep")
    line.start(python(RUNAWAY, 0), python(SLEEP, 1))
    line.wait_for_text("away")
    line.wait_for_text("up", 1)
    os.kill(line.agent(), signal.SIGTERM)
    assert ended(line.rest()) == AgentEnded(EndReason.TERMINATED)
    assert host.processes() == []
    assert all(event.stopped for event in line.exits(2).values())


def test_when_the_guard_is_killed_nothing_is_left(host: Host) -> None:
    line = host.follow("--policy", "keep", times=AgentTimes(grace=0.3))
    line.start(python(RUNAWAY, 0), python(STUBBORN, 1))
    line.wait_for_text("away")
    line.wait_for_text("up", 1)
    guard = int(Path(f"/proc/{line.agent()}/stat").read_text().rpartition(")")[2].split()[1])
    assert Path(f"/proc/{guard}/comm").read_text() == "rankboard-guard\n"
    os.kill(guard, signal.SIGKILL)
    records = line.rest()
    host.wait_until_empty()
    assert ended(records) == AgentEnded(EndReason.GUARD_DIED)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small file system to fill")
def test_a_full_disk_stops_the_run_and_is_told(host: Host) -> None:
    host.folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "none", str(host.folder)]
    mounted = subprocess.run(mount, capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.strip()}")
    try:
        line = host.follow()
        line.start(python("while True: print('x' * 10_000)"), python(SLEEP, 1))
        assert ended(line.rest()) == AgentEnded(EndReason.DISK_FULL)
        assert all(event.stopped for event in line.exits(2).values())
    finally:
        subprocess.run(["umount", "--lazy", str(host.folder)], check=True)


def test_a_mistake_in_the_agent_itself_is_told(host: Host) -> None:
    line = host.follow(
        preload="import os, sys; os.write(int(sys.argv[2]), b'nonsense\\n'); import time; "
        "time.sleep(600)"
    )
    line.start(python(SLEEP), preload=True)
    last = ended(line.rest())
    assert (last.reason, last.died) == (EndReason.AGENT_DIED, True)
    assert last.detail.startswith("ValueError: not enough values to unpack")
    assert host.processes() == []


# Preload

FORKING = """
import os, sys, time
from training.wire.commands import decode
print("importing")
words = dict(zip(sys.argv[1::2], sys.argv[2::2]))
report = int(words["--report-fd"])
pipes = [[int(n) for n in pipe.split(":")] for pipe in words["--pipes"].split(",")]
print("listen", words.get("--listen-fd"))
start, pids = decode(sys.stdin.buffer.readline()), {}
for placement, (rank, out, err) in zip(start.placements, pipes):
    if (pid := os.fork()) == 0:
        os.setpgid(0, 0)
        os.dup2(out, 1), os.dup2(err, 2)
        os.execv(placement.argv[0], placement.argv)
    pids[pid] = rank
    time.sleep(float(os.environ.get("HESITATE", 0)))
    os.write(report, f"pid {rank} {pid}\\n".encode())
while pids:
    pid, status = os.wait()
    os.write(report, f"exit {pids.pop(pid)} {status}\\n".encode())
"""


def test_preload_forks_the_ranks_and_reports_them(host: Host) -> None:
    line = host.follow(preload=FORKING)
    line.send(Reserve("127.0.0.1", 0))
    line.start(
        python("print('zero')"), python("import os; print('one'); os.abort()", 1), preload=True
    )
    assert line.exits(2) == {0: Exited(0, 0), 1: Exited(1, -6, "SIGABRT")}
    assert (line.text(0), line.text(1)) == ("zero", "one")
    line.wait_for_text("listen", AGENT)
    own = line.text(AGENT).split("\n")
    assert own[0] == "importing"
    assert own[1].removeprefix("listen ").isdigit()
    for rank in (0, 1):
        events = [
            record.event for record in line.records if getattr(record.event, "rank", None) == rank
        ]
        assert [type(event) for event in events if not isinstance(event, RankSample)] == [
            Spawned,
            OutputText,
            Exited,
        ]
    assert ended(line.close()) == AgentEnded(EndReason.CLOSED)


def test_a_rank_that_writes_before_it_is_reported_is_heard_after_it(host: Host) -> None:
    line = host.follow(preload=FORKING, times=AgentTimes(gather=0.01))
    line.start(python("print('early')", HESITATE="0.3"), preload=True)
    line.exits(1)
    events = [record.event for record in line.records if getattr(record.event, "rank", None) == 0]
    assert [type(event) for event in events if not isinstance(event, RankSample)] == [
        Spawned,
        OutputText,
        Exited,
    ]
    assert ended(line.close()) == AgentEnded(EndReason.CLOSED)


def test_a_second_attempt_may_follow_before_the_first_preload_is_gone(host: Host) -> None:
    line = host.follow(preload=FORKING + "time.sleep(600)")
    for attempt in (1, 2, 3):
        line.send(StartAttempt(attempt, True, (python(f"print({attempt})"),)))
        assert line.wait_for(Exited, attempt)[-1] == Exited(0, 0)
    assert line.text() == "1\n2\n3"
    assert ended(line.close()) == AgentEnded(EndReason.CLOSED)


def test_a_working_folder_that_is_not_there_is_said(host: Host) -> None:
    line = host.follow("--cwd", "/no/such/folder")
    line.start(python(SLEEP), preload=True)
    assert line.exits(1)[0] == Exited(0, 127)
    assert line.text(AGENT, "stderr").endswith(" in /no/such/folder: No such file or directory")
    line.close()


def test_ranks_of_preload_are_stopped_one_by_one(host: Host) -> None:
    line = host.follow(preload=FORKING)
    line.start(python(SLEEP), python(STUBBORN, 1), preload=True)
    line.wait_for_text("up")
    line.wait_for_text("up", 1)
    line.stop(0.3)
    stopped = line.exits(2)
    assert stopped[0] == Exited(0, -15, "SIGTERM", stopped=True)
    assert stopped[1] == Exited(1, -9, "SIGKILL", stopped=True)
    line.close()


def test_when_preload_dies_its_ranks_go_with_it(host: Host) -> None:
    line = host.follow(preload=FORKING)
    line.start(python("print('done')"), python(STUBBORN, 1), python(RUNAWAY, 2), preload=True)
    line.wait_for_text("up", 1)
    line.wait_for_text("away", 2)
    line.wait_for(Exited, 1, 0)
    agent = line.agent()
    (preload,) = [
        pid
        for pid in descendants(agent)
        if b"--report-fd" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(preload, signal.SIGKILL)
    assert line.exits(3) == {
        0: Exited(0, 0),
        1: Exited(1, -9, "SIGKILL"),
        2: Exited(2, -9, "SIGKILL"),
    }
    wait(lambda: not descendants(agent), "nothing below the agent")
    line.close()


@pytest.mark.parametrize(
    "preload", ["import no_such_module", "import sys; sys.exit('no torch here')"]
)
def test_a_preload_that_cannot_import_is_the_end_of_all_ranks(host: Host, preload: str) -> None:
    line = host.follow(preload=preload)
    line.start(python(SLEEP), python(SLEEP, 1), preload=True)
    assert line.exits(2) == {0: Exited(0, 1), 1: Exited(1, 1)}
    assert "no" in line.text(AGENT, "stderr").split("\n")[-1]
    line.close()


def test_a_stop_while_preload_still_imports(host: Host) -> None:
    line = host.follow(preload="import time; print('importing'); time.sleep(600)")
    line.start(python(SLEEP), preload=True)
    line.wait_for_text("importing", AGENT)
    line.send(Stop(5.0))
    assert line.exits(1)[0] == Exited(0, -15, "SIGTERM", stopped=True)
    line.close()


def test_the_agent_imports_neither_torch_nor_what_is_not_of_python_itself() -> None:
    code = (
        "import sys, training.agent.__main__; print(*{name.split('.')[0] for name in sys.modules} "
        "- sys.stdlib_module_names)"
    )
    said = subprocess.run(
        [sys.executable, "-S", "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert set(said.stdout.split()) <= {"training", "__main__", "sitecustomize"}


def test_an_agent_collects_garbage_though_what_starts_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "umask", lambda _: 0)
    gc.disable()
    with pytest.raises(SystemExit):
        main(["follow"])
    assert gc.isenabled()


def test_close_is_obeyed_at_once_without_ranks(host: Host) -> None:
    line = host.follow()
    line.send(Close(), Close())
    assert ended(line.rest()) == AgentEnded(EndReason.CLOSED)

"""`rankboard doctor` and its screen, with sessions that are acted out and with real hosts."""

from __future__ import annotations

import json
import math
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from textual.pilot import Pilot

from remote.doctor import doctor
from remote.events import CheckFinished, HostLost, SessionClosed, Stopping
from remote.plan.plan import Plan
from remote.run.run_state import RunState
from remote.run.state.phases import RunPhase
from tests.kit.acted import ActedSession, cluster, make_plan, until
from tests.kit.histories import History, plan
from tests.kit.launches import run
from tests.kit.looks import screen_text
from tests.kit.sshd import Sshd
from training import registry
from training.job import Job
from training.wire.events import SESSION
from training.wire.host_events import Hello, Spawned
from tui.app.app import RankboardApp
from tui.commands.doctor import describe_verdict
from tui.doctor import checks, host_table
from tui.doctor.check_verdict import exclude_hosts, judge_checks
from tui.doctor.host_table import HostLine
from tui.doctor.screen import DoctorScreen
from tui.kit import palette
from tui.kit.open_runs import LaunchRequest
from tui.run.screen import RunScreen

HELLO = Hello("host", "ada", 1, "3.12.3", "/usr/bin/python3", "Linux", "boot", 8.0, 2**34)
TORCH = CheckFinished(
    1,
    "torch",
    "failed",
    "torch 2.13.0, but 2.14.1 on node1",
    "install the same\n\x1b[31meverywhere",
)
CLOCK = CheckFinished(1, "clock", "warning", "its clock is 3,600 s ahead", "set it")


def history(hosts: int = 2) -> History:
    found = History(plan(hosts))
    for host in range(hosts):
        found.say(host, HELLO)
        found.session(
            *(
                CheckFinished(host, name, "ok", "fine")
                for name in ("address", "python", "torch", "clock")
            )
        )
    return found


def text(state: RunState, width: int) -> list[str]:
    return ["".join(word for _, word in line) for line in checks.make_table(state, width)]


def problem_lines(state: RunState, width: float = math.inf) -> list[str]:
    return [
        line
        for check in checks.list_problems(state)
        for _, line in checks.describe_problem(state, check, width)
    ]


def test_the_table_has_a_row_for_each_check_and_names_the_hosts_that_differ() -> None:
    state = history().session(TORCH, CLOCK).closed()
    assert text(state, 80) == [
        "address  ✓ fine",
        "python   ✓ fine",
        "torch    ✗ failed on node2, fine on node1",
        "clock    ▲ warning on node2, fine on node1",
    ]
    assert problem_lines(state) == [
        "✗ node2: torch failed: torch 2.13.0, but 2.14.1 on node1",
        "    install the same everywhere",
        "▲ node2: clock: its clock is 3,600 s ahead",
        "    set it",
    ]
    assert checks.summarise(state) == "8 checks on 2 hosts: 1 failed, 1 warning"


def test_of_two_hosts_each_has_its_name() -> None:
    ports = [CheckFinished(host, "port", "ok", f"4000{host} is free") for host in range(2)]
    state = history().session(*ports).closed()
    assert text(state, 80)[-1].split(" ✓ ")[1] == "40000 is free on node1, 40001 is free on node2"


def test_a_check_that_was_not_come_to_is_no_failure() -> None:
    state = history(2).session(CheckFinished(1, "unheard of", "ok", "found")).closed()
    assert text(state, 80)[-1] == "unheard of  ─ not checked on node1, found on node2"


def test_without_utf8_the_glyphs_are_ascii(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(palette, "has_utf8", lambda: False)
    state = history().session(TORCH, CLOCK).closed()
    assert "".join(text(state, 80)).isascii()
    assert "torch    x failed on node2, fine on node1" in text(state, 80)


@pytest.mark.parametrize("width", [40, 80, 160])
def test_many_hosts_fit_whatever_the_width(width: int) -> None:
    addresses = [CheckFinished(host, "address", "ok", f"10.0.0.{host + 1}") for host in range(30)]
    state = history(30).session(*addresses, replace(TORCH, host=29)).closed()
    lines = text(state, width)
    assert max(map(len, lines)) <= width
    assert "10.0.0.1 … 10.0.0.30" in lines[0]
    assert "torch    ✗ failed on node30, others fine" in lines
    assert len(lines) == 4, "a row per check"
    whole = text(state, 10_000)[0]
    assert [f"10.0.0.{number}" in whole for number in range(1, 31)] == [True] * 30


def test_a_weak_host_has_its_value_beside_those_of_the_others() -> None:
    """Four hosts, two warnings: all on one page, each with a command to copy."""
    state = history(4)
    run_name = "20261128-235117-ddp-lenet5-d1e2"
    for host in range(4):
        trains = CheckFinished(host, "load", "warning", f"another run of yours trains: {run_name}")
        state.session(
            CheckFinished(host, "cores", "ok", "0.4"),
            replace(trains, same=(0, 1, 2, 3), value="busy", command=f"rankboard stop {run_name}"),
        )
    weak = CheckFinished(2, "cores", "warning", "only 0.1 cores, the others 0.4", "leave it")
    weak = replace(weak, value="0.1", helps_to_exclude=True)
    state.session(replace(weak, command="rankboard doctor --exclude node3"))
    found = state.closed()
    assert text(found, 80)[-2:] == ["cores    ▲ 0.1 on node3, others 0.4", "load     ▲ busy"]
    assert problem_lines(found, 60) == [
        "▲ node3: cores: only 0.1 cores, the others 0.4",
        "  ▶ rankboard doctor --exclude node3",
        "▲ all hosts: load: another run of yours trains:",
        f"  {run_name}",
        f"  ▶ rankboard stop {run_name}",
    ]
    verdict = judge_checks(found)
    assert verdict
    assert verdict.title == "node3: only 0.1 cores, the others 0.4"
    assert (verdict.weak_hosts, verdict.others) == (("node3",), 1)
    rest = judge_checks(found, ("node1", "node2", "node4"))
    assert rest
    assert rest.title.startswith("all hosts: another run")
    assert rest.weak_hosts == (), "it is busy everywhere"
    assert checks.summarise(found) == "24 checks on 4 hosts: 2 warnings"


def test_the_last_line_says_whether_a_run_can_start() -> None:
    passed = describe_verdict(history().closed())
    assert passed.endswith("8 checks on 2 hosts passed: ready to start")
    warned = describe_verdict(history().session(CLOCK).closed())
    finding = "▲ node2: its clock is 3,600 s ahead"
    assert warned == f"{finding} (8 checks on 2 hosts): ready to start, with 1 warning"
    failed = describe_verdict(history().session(TORCH, CLOCK).closed())
    assert failed.endswith("(8 checks on 2 hosts: 1 failed, 1 warning)")
    lost = describe_verdict(
        history().session(CLOCK, HostLost(0, "node1: gone", reached=True)).closed()
    )
    assert "ready" not in lost


def test_exit_codes() -> None:
    assert checks.get_exit_code(history().closed()) == 0
    assert checks.get_exit_code(history().session(CLOCK).closed()) == 0, "a warning is no failure"
    assert checks.get_exit_code(history().session(TORCH).closed()) == 2
    lost = (
        History(plan(2)).say(0, HELLO).session(TORCH, HostLost(1, "node2: refused", reached=False))
    )
    assert checks.get_exit_code(lost.closed()) == 3
    assert (
        checks.get_exit_code(
            History(plan(1)).session(Stopping("interrupted (Ctrl+C)", True)).closed()
        )
        == 130
    )


def test_a_python_that_does_not_work_is_a_mistake_and_no_lost_host() -> None:
    found = (
        History(plan(2))
        .say(0, HELLO)
        .session(HostLost(1, "node2: no /x there", reached=False, unfit=True))
    )
    found.session(CheckFinished(1, "python", "failed", "no /x there", "set python"))
    assert checks.get_exit_code(found.closed()) == 2
    both = found.session(
        CheckFinished(0, "login", "failed", "no answer"),
        HostLost(0, "node1: no answer", reached=True),
    )
    assert checks.get_exit_code(both.closed()) == 3


def test_what_was_found_of_several_hosts_is_told_once() -> None:
    state = (
        history(3)
        .session(*(replace(TORCH, host=on, same=(0, 2)) for on in (0, 2)), replace(CLOCK, host=1))
        .closed()
    )
    assert problem_lines(state)[:2] == [
        "✗ node1 and node3: torch failed: torch 2.13.0, but 2.14.1 on node1",
        "    install the same everywhere",
    ]
    assert len(checks.list_problems(state)) == 2
    assert checks.summarise(state) == "12 checks on 3 hosts: 1 failed, 1 warning"
    assert [note.text for note in state.log.notes if "clock" in note.text] == [
        "node2: clock: its clock is 3,600 s ahead (see rankboard doctor)"
    ]


def test_json_has_one_object_per_check_in_order() -> None:
    objects = list(
        checks.to_objects(
            history().session(TORCH, CheckFinished(SESSION, "together", "ok", "fine")).closed()
        )
    )
    assert objects[0]["host"] is None
    assert [one["host"] for one in objects[1:]] == ["node1"] * 4 + ["node2"] * 4
    assert objects[7] == {
        "host": "node2",
        "check": "torch",
        "outcome": "failed",
        "text": "torch 2.13.0, but 2.14.1 on node1",
        "advice": "install the same everywhere",
    }


# The real thing -----------------------------------------------------------------------------------


def test_this_machine_is_fit_and_nothing_is_left_of_having_looked(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", "--local", "4", "--slots", "2", "--json")
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert {(one["host"], one["check"]) for one in found} >= {
        (f"local{n}", name) for n in (1, 2) for name in doctor.CHECKS[:3]
    }
    assert done.returncode == 0, found
    assert not any(one["outcome"] == "failed" for one in found)
    assert list(tmp_path.iterdir()) == []


def test_hosts_over_ssh_each_with_what_is_wrong_there(sshd: Sshd, tmp_path: Path) -> None:
    one, two, three, four = sshd.make_hosts(4)
    hosts = (
        one,
        replace(two, interface="eth9"),
        replace(three, python="/no/python"),
        replace(four, port=1),
    )
    path = sshd.hosts_toml(hosts)
    done = run(tmp_path, "doctor", "--hosts", str(path))
    assert done.returncode == 3
    pattern = r"python +✗ failed on node3, not checked on node4, others \d"
    assert re.search(pattern, done.stdout), done.stdout
    assert "\nconnect" not in done.stdout, "node1 has nobody to try"
    assert "✗ node2: interface failed: it has no interface 'eth9'" in done.stdout
    assert "✗ node3: python failed: no /no/python there" in done.stdout
    assert (
        "✗ node4: login failed: 127.0.0.4:1 refused the connection\n    start sshd there"
        in done.stdout
    )
    (verdict,) = [line for line in done.stderr.splitlines() if "✗" in line]
    assert re.search(r"✗ node\d: .*\(\d+ checks on 4 hosts: 3 failed", verdict), "it is one line"

    fit = run(tmp_path, "doctor", "--hosts", str(path), "--only", "node1")
    assert (fit.returncode, "✗" in fit.stdout) == (0, False), fit.stdout
    assert re.search(r"(✓ \d+ checks on 1 host passed: ready to start|▲ )", fit.stderr)


def test_a_program_that_is_to_be_uploaded_is_looked_for_here(sshd: Sshd, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("")
    path = sshd.hosts_toml(sshd.make_hosts(1))
    words = ("doctor", "--hosts", str(path), "--upload", ".", "--", "train.py")
    done = run(tmp_path, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^program .* uploaded", done.stdout, re.MULTILINE), done.stdout
    assert {found.name for found in (tmp_path / "node1").iterdir()} == {"code"}, "nothing is sent"


def test_all_hosts_reach_each_other(sshd: Sshd, tmp_path: Path) -> None:
    path = sshd.hosts_toml(sshd.make_hosts(4), sync=["src"])
    (path.parent / "src").mkdir()
    for name in registry.read_constant("datasets", "mnist", "FILES"):
        file = sshd.far_home / ".cache" / "rankboard" / "data" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(b"of another origin")
    words = ("doctor", "--hosts", str(path), "--dataset", "mnist")
    done = run(tmp_path, *words)
    assert done.returncode == 2
    assert (
        "train-images-idx3-ubyte.gz and 3 more files do not have the published checksum"
        in done.stdout
    )
    assert "--no-verify-data" in done.stdout
    done = run(tmp_path, *words, "--no-verify-data")
    assert done.returncode == 0, done.stdout
    connected = [line for line in done.stdout.splitlines() if line.startswith("connect")]
    assert len(connected) == 1
    assert re.search(r"✓ \d+\.\d ms", connected[0]), done.stdout
    left = {
        found.name for number in range(1, 5) for found in (tmp_path / f"node{number}").iterdir()
    }
    assert left == {"code"}, "it keeps nothing else there"


def test_mistakes_on_the_command_line_are_lines_of_text(tmp_path: Path) -> None:
    done = run(tmp_path, "doctor", "--local", "3", "--slots", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "--slots 2 does not divide" in done.stderr


# The screen ---------------------------------------------------------------------------------------


class Stage:
    """The dashboard on its launch form, with a doctor that the test acts."""

    def __init__(self) -> None:
        self.doctors: list[ActedSession] = []
        lab = cluster()
        self.app = RankboardApp(
            LaunchRequest(lab, lab, Job(), make_plan, ActedSession, check=self._check)
        )

    def _check(self, of: Plan) -> ActedSession:
        self.doctors.append(ActedSession(of))
        return self.doctors[-1]

    async def drawn(self, pilot: Pilot[None], part: str) -> str:
        """The screen, once that is on it."""

        def there() -> bool:
            if isinstance(self.app.screen, DoctorScreen):
                self.app.screen.tick()
            return part in self.text()

        await until(pilot, there)
        return self.text()

    def text(self) -> str:
        return "\n".join(line.rstrip() for line in screen_text(self.app).splitlines())


def found_all(acted: ActedSession) -> None:
    of_a_job = [name for name in doctor.CHECKS if name != "program"]
    for host in range(2):
        acted.say(host, HELLO)
        acted.say(SESSION, *(CheckFinished(host, name, "ok", "fine") for name in of_a_job))
    acted.say(SESSION, TORCH, CLOCK)


@pytest.mark.parametrize("size", [(80, 24), (40, 10)])
async def test_the_doctor_of_the_form_shows_its_table(size: tuple[int, int]) -> None:
    stage = Stage()
    async with stage.app.run_test(size=size) as pilot:
        await pilot.press("f2", "D")
        await stage.drawn(pilot, "checking: connecting to all")
        found_all(stage.doctors[0])
        drawn = await stage.drawn(pilot, "✗ node2: torch 2.13.0")
        if size[0] >= 80:
            assert drawn.splitlines()[1].endswith("✗ node2: torch 2.13.0, but 2.14.1 on node1")
            assert "▲ node2: clock: its clock is 3,600 s ahead" in drawn
            assert re.search(r"✗ torch +fine +failed ✗\s+▲ clock +fine +warning ▲", drawn)
            assert not re.search(r"login +fine", drawn)
            await pilot.press("v")
            assert re.search(r"(?m)^ +login +fine +fine$", await stage.drawn(pilot, "login  "))
        stage.doctors[0].close()
        await stage.drawn(pilot, "Check again" if size[0] >= 80 else "torch 2.13.0")
        await until(pilot, lambda: stage.doctors[0].state.phase is RunPhase.ENDED)
        await pilot.press("r")
        await until(pilot, lambda: len(stage.doctors) == 2)
        assert "✗" not in await stage.drawn(pilot, "checking")
        await pilot.press("escape")
        assert not isinstance(stage.app.screen, DoctorScreen)
        found_all(stage.doctors[1])
        if size[0] >= 80:  # the form goes on to show what they find
            assert re.search(r"node2 .*✗ torch: ", await stage.drawn(pilot, "✗ torch"))
        assert stage.doctors[1].stops == []
        stage.doctors[1].close()


WEAK = CheckFinished(
    1,
    "cores",
    "warning",
    "only 0.1 cores, the other 0.4: all ranks wait for it",
    "leave it out with --exclude node2",
    value="0.1",
    command="rankboard doctor --hosts 'the lab/hosts.toml' --exclude node2",
    helps_to_exclude=True,
)


async def opened(stage: Stage, pilot: Pilot[None], *findings: CheckFinished) -> None:
    """Show the checks of the form with these findings, once they have ended."""
    await pilot.press("f2")
    await until(pilot, lambda: bool(stage.doctors))
    for host in range(2):
        stage.doctors[0].say(host, HELLO)
        stage.doctors[0].say(
            SESSION, *(CheckFinished(host, name, "ok", "fine") for name in doctor.CHECKS)
        )
    stage.doctors[0].say(SESSION, *findings, SessionClosed())
    stage.doctors[0].close()
    await pilot.press("D")
    await stage.drawn(pilot, "Check again")


async def test_a_host_that_holds_up_the_others_is_left_out_with_a_key() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await opened(stage, pilot, CheckFinished(0, "cores", "ok", "0.4"), WEAK)
        lines = (await stage.drawn(pilot, "start anyway")).splitlines()
        assert lines[1].endswith("▲ node2: only 0.1 cores, the other 0.4: all ranks wait for it")
        assert any("▶ h leave node2 out" in line for line in lines)
        assert any(re.search(r"▲ cores +0.4 +0.1 ▲", line) for line in lines)
        assert any("▶ rankboard doctor --hosts 'the lab/hosts.toml'" in line for line in lines)
        await pilot.press("y")
        assert stage.app.clipboard == WEAK.command, "the whole command"
        await pilot.press("h")
        await until(pilot, lambda: len(stage.doctors) == 2)
        assert [host.name for host in stage.doctors[1].plan.hosts] == ["node1"]
        stage.doctors[1].close()


async def test_checks_that_are_the_same_on_all_hosts_are_a_line_until_a_key_shows_them() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await opened(stage, pilot, CheckFinished(0, "cores", "ok", "0.4"), WEAK)
        drawn = await stage.drawn(pilot, "checks the same on all hosts: v shows them")
        assert "▲ node2 cores   all other checks passed" in drawn
        each_check = r"(?m)^ +disk +fine +fine$"
        for _ in range(2):
            assert re.search(r"(?m)^ ▲ cores +0.4 +0.1 ▲", drawn)
            assert not re.search(each_check, drawn)
            await pilot.press("v")
            assert re.search(each_check, await stage.drawn(pilot, "v hides them"))
            await pilot.press("v")
            drawn = await stage.drawn(pilot, "v shows them")


async def test_where_there_is_room_checks_that_all_hosts_have_passed_are_listed_below() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 50)) as pilot:
        await opened(stage, pilot, CheckFinished(0, "cores", "ok", "0.4"), WEAK)
        drawn = await stage.drawn(pilot, "passed on all hosts   v hides them")
        assert re.search(r"(?m)^ +disk +fine$", drawn), "their value once"
        await pilot.press("v")
        folded = await stage.drawn(pilot, "checks the same on all hosts: v shows them")
        assert "passed on all hosts" not in folded
        await pilot.press("v")
        assert re.search(r"(?m)^ +disk +fine +fine$", await stage.drawn(pilot, "v hides them"))


async def test_the_checks_say_what_it_is_worth_to_leave_a_host_out() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(120, 40)) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: bool(stage.doctors))
        acted = stage.doctors[0]
        acted.say(0, replace(HELLO, cores=8.0))
        acted.say(1, replace(HELLO, cores=1.0, boot_id="another"))
        acted.say(SESSION, CheckFinished(0, "cores", "ok", "8"), WEAK, SessionClosed())
        acted.close()
        await pilot.press("D")
        drawn = await stage.drawn(pilot, "time to compute a step without sync, estimated")
        advised = re.search(
            r"without node2 +(━+) +4x faster to compute, 32 samples per rank", drawn
        )
        other = re.search(r"with all 2 hosts +(━+) +all wait for node2, 16 samples", drawn)
        assert advised
        assert other
        assert len(other[1]) == pytest.approx(4 * len(advised[1]), abs=3), "as long as a step"
        assert re.search(r"what would start\n +without node2 +with all 2 hosts *\n", drawn), drawn
        assert re.search(r"batch of 32 per rank +4 ranks on 2 hosts: batch of 16", drawn)
        assert drawn.count("steps per epoch") == 2
        await pilot.resize_terminal(70, 24)
        await until(pilot, lambda: "32 samples per rank" not in screen_text(stage.app))
        assert "4x faster to compute" in screen_text(stage.app), (
            "the bars have the room of the rest"
        )


async def test_checks_that_have_passed_say_that_the_run_can_start_and_by_which_key() -> None:
    stage = Stage()
    async with stage.app.run_test(size=(80, 24)) as pilot:
        await pilot.press("f2")
        await until(pilot, lambda: bool(stage.doctors))
        for host in range(2):
            stage.doctors[0].say(host, HELLO)
            stage.doctors[0].say(SESSION, CheckFinished(host, "disk", "ok", "80 GiB"))
        stage.doctors[0].say(SESSION, SessionClosed())
        stage.doctors[0].close()
        await pilot.press("D")
        drawn = await stage.drawn(pilot, "✓ 2 checks on 2 hosts passed: ready to start")
        assert "▶ f5 start" in drawn
        assert "✓ 2 of 2 checks passed" in drawn
        await pilot.press("f5")
        await until(pilot, lambda: isinstance(stage.app.screen, RunScreen))


def draw_host_table(state: RunState, width: int) -> list[str]:
    columns = host_table.choose_columns(state, width)
    assert columns
    return join_cells(host_table.make_host_table(state, columns))


def join_cells(lines: Sequence[HostLine]) -> list[str]:
    """The text of each line."""
    return ["".join(text for _, text in line.cells) for line in lines]


def test_a_row_per_host_has_the_values_that_fit_and_marks_the_odd_one() -> None:
    state = history(3)
    for host in range(3):
        state.session(
            CheckFinished(host, "memory", "ok", "8 GiB"),
            CheckFinished(host, "gpus", "ok", "none: trains on CPUs"),
            CheckFinished(host, "disk", "ok", "80 GiB"),
        )
    state.session(CheckFinished(1, "disk", "warning", "little is left", value="3 GiB"))
    found = state.closed()
    lines = draw_host_table(found, 120)
    assert lines[0].split() == ["host", "disk", "memory", "gpus", "python", "torch", "clock"]
    assert lines[1].split() == ["node1", "80", "GiB", "8", "GiB", "none", "fine", "fine", "fine"]
    assert re.match(r"▲ node2  3 GiB ▲  8 GiB ", lines[2])
    narrow = draw_host_table(found, 30)
    assert narrow[0].split()[:2] == ["host", "disk"], "what is amiss stays"
    assert max(len(line.rstrip()) for line in narrow) <= 30
    assert host_table.choose_columns(found, 12) is None


def test_hosts_side_by_side_have_what_is_amiss_first_and_marked() -> None:
    state = history(3)
    for host in range(3):
        state.session(CheckFinished(host, "disk", "ok", "80 GiB"))
    state.session(CheckFinished(1, "disk", "warning", "little is left", value="3 GiB"))
    found = state.closed()
    names = host_table.list_host_checks(found)
    lines = host_table.make_check_table(found, names, 120)
    texts = join_cells(lines)
    assert texts[0].split() == ["host", "node1", "node2", "node3"]
    assert texts[1].split() == ["▲", "disk", "80", "GiB", "3", "GiB", "▲", "80", "GiB"]
    assert [line.ground for line in lines[:3]] == ["", "warning", ""], "its row stands out"
    assert max(map(len, texts)) <= 120
    column = texts[0].index("node3")
    assert all(text[column - 1] == " " != text[column] for text in texts), "one below the other"
    assert host_table.make_check_table(found, names, 20) == [], "three hosts have no room"


def test_of_many_hosts_those_with_findings_come_first() -> None:
    state = history(20).session(replace(TORCH, host=17)).closed()
    lines = draw_host_table(state, 80)
    assert lines[1].startswith("✗ node18 ")
    assert lines[2].split()[0] == "node1"


def test_passed_checks_without_a_column_are_listed_with_their_values() -> None:
    state = history(3)
    for host in range(3):
        address = f"10.0.0.{host + 1}"
        state.session(
            CheckFinished(host, "port", "ok", f"4000{host} is free"),
            CheckFinished(host, "address", "ok", address),
            CheckFinished(host, "interface", "ok", f"eth0 {address}"),
            CheckFinished(host, "disk", "ok", "80 GiB"),
        )
    found = state.closed()

    def draw(columns: Sequence[str]) -> list[str]:
        lines = host_table.make_passed_rows(found, columns, 120)
        return ["".join(text for _, text in line) for line in lines]

    texts = [" ".join(line.split()) for line in draw(("interface", "python", "torch", "clock"))]
    assert texts == ["disk 80 GiB", "port 40000 is free, 40001 is free and 40002 is free"]
    assert any("10.0.0.1" in line for line in draw(())), "not told elsewhere"


def test_the_command_line_is_said_anew_without_the_slow_host() -> None:
    words = ["doctor", "--local", "4", "--cpus", "0.4,0.4,0.1,0.4", "--", "train.py", "a b"]
    assert exclude_hosts(words, ["node2", "node3"]) == (
        "rankboard doctor --exclude node2,node3 --local 4 --cpus 0.4,0.4,0.1,0.4 -- train.py 'a b'"
    )
    assert exclude_hosts(["doctor", "--exclude", "node1"], ["node3"]) == ""


def test_advice_stands_above_the_command_that_leaves_a_host_out() -> None:
    state = history().session(TORCH).closed()
    (check,) = checks.list_problems(state)
    without, with_exclusion = (
        [text for _, text in checks.describe_problem(state, check, exclusion=command)]
        for command in ("", "rankboard doctor --exclude node2")
    )
    assert without[-1].strip() == "install the same everywhere"
    assert with_exclusion == [*without, "  ▶ rankboard doctor --exclude node2"]


def test_a_lack_of_torch_comes_before_other_warnings() -> None:
    state = history(2)
    for check in ("address", "torch", "disk"):
        state.session(CheckFinished(0, check, "warning", "it is so", same=(0, 1)))
    found = [check.check for check in checks.list_problems(state.closed())]
    assert found == ["torch", "address", "disk"]


def test_hosts_that_all_fail_a_check_cannot_be_left_out() -> None:
    state = history(3)
    for host in range(3):
        state.session(CheckFinished(host, "data", "failed", f"none in /home{host}", "copy it"))
        verdict = judge_checks(state.closed())
        assert verdict
        weak_hosts = tuple(f"node{number}" for number in range(1, host + 2))
        assert verdict.weak_hosts == (weak_hosts if host < 2 else ())


def test_a_command_is_broken_between_words_so_that_a_shell_takes_it_as_a_whole() -> None:
    cells = checks.describe_problem(history().closed(), WEAK, 40)
    lines = [line for kind, line in cells if kind == checks.COMMAND]
    assert max(map(len, lines)) <= 40
    assert all(line.endswith(" \\") for line in lines[:-1])
    typed = "\n".join(lines).replace("▶", "", 1).replace("\\\n", "")
    assert shlex.split(typed) == shlex.split(WEAK.command)


async def test_in_a_run_a_key_copies_its_command_without_the_slow_host() -> None:
    acted: list[ActedSession] = []

    def begin(of: Plan) -> ActedSession:
        acted.append(ActedSession(of))
        return acted[-1]

    app = RankboardApp(LaunchRequest(cluster(), cluster(), Job(), make_plan, begin, at_once=True))
    async with app.run_test(size=(80, 24)) as pilot:
        acted[0].say(SESSION, CheckFinished(0, "cores", "ok", "0.4"), WEAK)
        acted[0].say(0, Spawned(0, 1))
        await until(pilot, lambda: bool(acted[0].state.ranks[0].pid))
        await pilot.press("D")
        await until(pilot, lambda: "▶ y copy the command without node2" in screen_text(app))
        assert "start anyway" not in screen_text(app), "it is under way"
        await pilot.press("y")
        await until(pilot, lambda: app.clipboard.startswith("rankboard "))
        assert "--exclude node2" in app.clipboard
        assert "doctor" not in app.clipboard
        await pilot.press("escape")
        acted[0].say(SESSION, SessionClosed())
        acted[0].close()


@pytest.mark.parametrize("checked", [True, False])
async def test_a_run_shows_what_its_checks_have_found(checked: bool) -> None:
    acted: list[ActedSession] = []

    def begin(of: Plan) -> ActedSession:
        acted.append(ActedSession(of))
        return acted[-1]

    app = RankboardApp(LaunchRequest(cluster(), cluster(), Job(), make_plan, begin, at_once=True))
    async with app.run_test(size=(80, 24)) as pilot:
        if checked:
            found_all(acted[0])
        acted[0].say(0, Spawned(0, 1))
        await until(pilot, lambda: bool(acted[0].state.ranks[0].pid))
        await pilot.press("D")
        await until(pilot, lambda: isinstance(app.screen, DoctorScreen))
        drawn = screen_text(app)
        assert ("no checks: the run" in drawn) != checked
        assert ("✗ node2: torch 2.13.0" in drawn) == checked
        await pilot.press("escape")
        assert acted[0].stops == [], "leaving it leaves the run alone"
        acted[0].say(SESSION, SessionClosed())
        acted[0].close()


def test_the_hosts_are_checked_for_a_program(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    there = run(tmp_path, "doctor", "--local", "1", "--json", "--", "train.py", "--lr", "0.1")
    found = {one["check"]: one for one in map(json.loads, there.stdout.splitlines())}
    assert (there.returncode, found["program"]["outcome"]) == (0, "ok"), there.stderr
    gone = run(tmp_path, "doctor", "--local", "1", "--cwd", "/", "--", "train.py")
    assert gone.returncode == 2
    assert "program failed: there is no train.py in /" in gone.stdout
    both = run(tmp_path, "doctor", "--local", "1", "--lr", "0.1", "--", "train.py")
    assert (both.returncode, "--lr: options of rankboard's own" in both.stderr) == (2, True)

"""Which run a command means that may be recorded here, or known to hosts alone."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import Host
from remote.host_commands.run_on_hosts import HostAnswer
from remote.plan import serialize
from remote.plan.plan import Plan, Policy
from remote.record import marks
from remote.record.write import Recorder
from remote.transport import Transport
from tests.kit.commands import NOWHERE, Done, Watched, watching
from tests.kit.foreign_runs import BEGUN, ENDED, locked, records
from training.job import Job
from tui.commands.attach import attach
from tui.commands.events import events
from tui.commands.logs import logs
from tui.commands.stop import stop
from tui.flags import which_run
from tui.home.history import History

HOSTS = tuple(Host(f"node{number}", f"10.0.0.{number}") for number in (1, 2, 3))
FILE = "".join(f'[[host]]\nname = "{host.name}"\naddress = "{host.address}"\n' for host in HOSTS)
OLD, NEW = "20261119-a", "20261120-b"


def plan(run: str, *hosts: Host, label: str = "") -> Plan:
    return Plan(run, hosts or HOSTS, Job(), Policy(keep=True), label=label)


def told(of: Plan, *, live: bool = True) -> dict[str, Any]:
    """What a host says of a run."""
    return {
        "run": of.run,
        "plan": serialize.dump(of),
        "live": live,
        "begun": True,
        "now": 1000.0,
    }


def record(of: Plan, *, ended: bool = False) -> Path:
    """Record a run in ./runs."""
    recorder = Recorder(Path("runs"), of)
    recorder.release()
    (recorder.folder / "events.jsonl").write_text(records(ENDED if ended else BEGUN))
    if ended:
        (recorder.folder / "summary.json").write_text(json.dumps({"verdict": "lost"}))
    return recorder.folder


@pytest.fixture
def asked() -> list[str]:
    """The hosts that were asked for runs."""
    return []


@pytest.fixture
def tell(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    over: Callable[[Transport], None],
    asked: list[str],
) -> Callable[..., None]:
    """Have each host of the file answer so: with these objects, or with this error."""
    over(NOWHERE)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hosts.toml").write_text(FILE)

    def tell(*said: list[dict[str, Any]] | str) -> None:
        answers = [
            HostAnswer(host, error=one) if isinstance(one, str) else HostAnswer(host, tuple(one))
            for host, one in zip(HOSTS, said, strict=True)
        ]

        def ask(_: object, hosts: tuple[Host, ...], *__: object, **___: object) -> list[HostAnswer]:
            asked.extend(host.name for host in hosts)
            return answers

        monkeypatch.setattr("remote.host_commands.run_on_hosts.run_on_hosts", ask)

    return tell


@pytest.fixture
def opened(run: Callable[..., Done]) -> Callable[..., tuple[str, str, int]]:
    """Run a command: the run of the session that it shows, what it says, and its exit code."""

    def opened(command: Callable[..., None], **flags: object) -> tuple[str, str, int]:
        watched = Watched()
        done = run(watching(watched, command), **flags)
        for session in watched.sessions:
            session._recorder.release()
        name = watched.sessions[0].plan.run if watched.sessions else ""
        return name, done.stderr, done.returncode

    return opened


Opened = Callable[..., tuple[str, str, int]]

# The last run -------------------------------------------------------------------------------------


@pytest.mark.parametrize("flags", [{}, {"notify": "true"}])
def test_the_last_run_is_a_newer_one_on_the_hosts(
    flags: dict[str, object], tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(OLD), ended=True)
    tell(*[[told(plan(OLD), live=False), told(plan(NEW))]] * 3)
    name, said, _ = opened(attach, run="last", as_lines=True, **flags)
    assert name == NEW
    assert said.startswith(
        f"rankboard: last is {NEW}, not started here, live on node1, node2 and node3; the newest "
        f"run that is recorded here is {OLD}\n"
    )


def test_events_and_logs_and_the_dashboard_open_it_as_well(
    tell: Callable[..., None], opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(plan(OLD), ended=True)
    tell(*[[told(plan(NEW))]] * 3)
    assert opened(events, run="last")[0] == NEW
    printed: list[str] = []
    monkeypatch.setattr(
        "tui.commands.logs._print_rest", lambda _, kept, *__: printed.append(kept.plan.run) or []
    )
    Path("runs", NEW).rename(Path("aside"))
    opened(logs, run="last")
    assert printed == [NEW]
    session = History(Path("runs"), transports=NOWHERE).open("last")
    session._recorder.release()  # type: ignore[attr-defined]
    assert session.plan.run == NEW


def test_a_newer_run_that_is_recorded_here_is_the_last_one(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(NEW, label="mine"))
    tell(*[[told(plan(OLD), live=False)]] * 3)
    name, said, code = opened(stop, run="last")
    assert (name, code) == (NEW, 42)
    assert said.splitlines()[0] == (
        f"rankboard: last is {NEW}, named mine, started here, its end is not recorded here"
    )


def test_a_run_that_has_not_begun_is_not_the_last_one(
    tell: Callable[..., None], opened: Opened
) -> None:
    tell(*[[told(plan(OLD)), told(plan(NEW), live=False) | {"begun": False}]] * 3)
    assert opened(attach, run="last", as_lines=True)[0] == OLD


def test_stop_asks_where_the_last_run_is_not_the_one_that_is_recorded_here(
    tell: Callable[..., None], opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(plan(OLD), ended=True)
    tell(*[[told(plan(NEW, label="theirs"))]] * 3)
    name, said, code = opened(stop, run="last", hosts=Path("hosts.toml"))
    assert (name, code) == ("", 2)
    assert said.splitlines() == [
        "rankboard: last may mean one of 2 runs:",
        f"rankboard:   rankboard stop {NEW} --hosts hosts.toml  "
        "(named theirs, not started here, live on node1, node2 and node3)",
        f"rankboard:   rankboard stop {OLD} --hosts hosts.toml  (started here, recorded here as "
        "lost)",
        "rankboard: cannot ask for confirmation without a terminal; write one of these commands",
    ]
    for answer, stopped in ((False, ""), (True, NEW)):
        monkeypatch.setattr(which_run, "confirm", lambda *_, answer=answer, **__: answer)
        assert opened(stop, run="last")[0] == stopped


def test_stop_asks_where_the_last_run_has_ended_and_another_one_is_live(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(NEW), ended=True)
    tell(*[[told(plan(OLD))]] * 3)
    name, said, code = opened(stop, run="last")
    assert (name, code) == ("", 2)
    assert f"rankboard stop {OLD}  (not started here, live on node1, node2 and node3)" in said


def test_stop_asks_where_the_last_run_and_another_one_are_live(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(NEW))
    tell(*[[told(plan(OLD)), told(plan(NEW))]] * 3)
    name, said, code = opened(stop, run="last")
    assert (name, code) == ("", 2)
    assert said.startswith("rankboard: last may mean one of 2 runs:\n")
    tell(*[[told(plan(NEW))]] * 3)
    assert opened(stop, run="last")[0] == NEW


def test_stop_asks_where_a_launcher_records_another_run_here(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(NEW))
    tell("node1: no route", "node2: no route", "node3: no route")
    with locked(record(plan(OLD)), "7 elsewhere"):
        name, said, code = opened(stop, run="last")
    assert (name, code) == ("", 2)
    assert (
        f"rankboard stop {OLD}  (started here, live: its launcher is process 7 on elsewhere)"
        in said
    )


@pytest.mark.parametrize("are_hosts_silent", [False, True])
def test_stop_asks_where_the_last_run_is_recorded_here_only_as_somebody_has_read_it(
    are_hosts_silent: bool, tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(OLD, label="mine"))
    tell(*[[told(plan(OLD, label="mine")), told(plan(NEW, label="theirs"))]] * 3)
    assert opened(events, run="last")[0] == NEW
    Path("runs", NEW, "events.jsonl").write_text(records(BEGUN))
    if are_hosts_silent:
        tell("node1: no route", "node2: no route", "node3: no route")
    name, said, code = opened(stop, run="last")
    assert (name, code) == ("", 2)
    assert f"rankboard stop {NEW}  (named theirs, not started here, " in said
    assert f"rankboard stop {OLD}  (named mine, started here, " in said


def test_stop_asks_where_the_last_run_is_the_only_one_and_was_not_started_here(
    tell: Callable[..., None], opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(*[[told(plan(OLD), live=False), told(plan(NEW))]] * 3)
    name, said, code = opened(stop, run="last")
    assert (name, code) == ("", 2)
    assert said.splitlines() == [
        "rankboard: last is a run that was not started here:",
        f"rankboard:   rankboard stop {NEW}  (not started here, live on node1, node2 and node3)",
        "rankboard: cannot ask for confirmation without a terminal; write this command",
    ]
    monkeypatch.setattr(which_run, "confirm", lambda *_, **__: True)
    assert opened(stop, run="last")[0] == NEW


def test_hosts_that_do_not_answer_are_named_once_and_what_is_recorded_here_counts(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(OLD))
    tell("node1: no route", "node2: no route", "node3: no route")
    name, said, _ = opened(stop, run="last")
    assert name == OLD
    assert said.splitlines()[:2] == [
        "rankboard: node1: no route (and 2 more); runs that only such hosts know do not count",
        f"rankboard: last is {OLD}, started here, its end is not recorded here",
    ]


def test_hosts_that_never_answer_are_not_waited_for(
    over: Callable[[Transport], None],
    opened: Opened,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over(NOWHERE)
    release = threading.Event()

    class Deaf:
        def open(self, *_: object) -> None:
            release.wait(60)

    over(Deaf())  # type: ignore[arg-type]
    monkeypatch.setattr(which_run, "ASKED", 0.05)
    (tmp_path / "hosts.toml").write_text(FILE)
    record(plan(OLD))
    name, said, _ = opened(stop, run="last")
    release.set()
    assert name == OLD
    assert "no answer within 0.05 s" in said


def test_nobody_is_asked_for_a_run_of_a_whole_name_or_a_path(
    tell: Callable[..., None], opened: Opened, asked: list[str]
) -> None:
    record(plan(OLD))
    tell(*[[told(plan(NEW))]] * 3)
    for name in (OLD, f"runs/{OLD}", "runs/last"):
        assert opened(stop, run=name)[0] == OLD
    assert not asked


def test_without_a_hosts_file_the_hosts_of_the_last_recorded_run_are_asked(
    tell: Callable[..., None], opened: Opened, asked: list[str]
) -> None:
    record(plan(OLD, *HOSTS[:2]))
    tell(*[[told(plan(NEW, *HOSTS[:2]))]] * 3)
    Path("hosts.toml").unlink()
    assert opened(attach, run="last", as_lines=True)[0] == NEW
    assert asked == ["node1", "node2"]


def test_without_a_hosts_file_nobody_is_asked_because_of_a_run_on_this_machine(
    tell: Callable[..., None], opened: Opened, asked: list[str]
) -> None:
    (record(plan(OLD)) / "node").mkdir()
    tell(*[[told(plan(NEW))]] * 3)
    Path("hosts.toml").unlink()
    assert opened(attach, run="last", as_lines=True)[0] == OLD
    assert not asked


def test_after_a_run_on_this_machine_the_hosts_of_the_file_may_have_a_newer_one(
    tell: Callable[..., None], opened: Opened
) -> None:
    (record(plan(OLD)) / "node").mkdir()
    tell(*[[told(plan(NEW))]] * 3)
    assert opened(attach, run="last", as_lines=True)[0] == NEW


# A host that invents runs -------------------------------------------------------------------------

EVIL = "99999999-evil"


def test_a_run_that_one_host_invents_for_others_is_not_the_last_one(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(NEW))
    tell([told(plan(NEW)), told(plan(EVIL))], [told(plan(NEW))], [told(plan(NEW))])
    name, said, _ = opened(stop, run="last")
    assert name == NEW
    assert said.splitlines()[0] == (
        f"rankboard: {EVIL} is not taken for last: most of its hosts do not know it, only node1"
    )


@pytest.mark.parametrize("is_recorded", [True, False])
def test_a_run_that_one_host_invents_for_itself_is_not_stopped_in_place_of_a_real_one(
    is_recorded: bool, tell: Callable[..., None], opened: Opened
) -> None:
    if is_recorded:
        record(plan(NEW))
    evil = told(plan(EVIL, HOSTS[0]))
    tell([told(plan(NEW)), evil], [told(plan(NEW))], [told(plan(NEW))])
    name, said, code = opened(stop, run="last")
    assert (name, code) == ("", 2)
    assert f"rankboard stop {NEW}" in said


def test_a_plan_that_nobody_can_read_keeps_nobody_from_the_last_run(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(NEW))
    tell([told(plan(NEW)), {**told(plan(EVIL)), "plan": "["}], [told(plan(NEW))], [])
    assert opened(stop, run="last")[0] == NEW


# Names that persons give --------------------------------------------------------------------------


@pytest.mark.parametrize("command", [attach, stop])
def test_a_run_is_known_by_its_name_where_it_is_not_recorded(
    command: Callable[..., None], tell: Callable[..., None], opened: Opened
) -> None:
    tell(*[[told(plan(NEW, label="best one"))]] * 3)
    flags = {"as_lines": True} if command is attach else {}
    assert opened(command, run="best one", **flags)[0] == NEW
    assert marks.name(Path("runs", NEW)) == "best one", "and so it is where it is recorded now"


def test_a_name_that_a_run_here_and_one_on_the_hosts_have_is_refused(
    tell: Callable[..., None], opened: Opened
) -> None:
    record(plan(OLD, label="best"), ended=True)
    tell(*[[told(plan(NEW, label="best"))]] * 3)
    name, said, code = opened(stop, run="best")
    assert (name, code) == ("", 2)
    assert said == f"rankboard: best: 2 runs have this name:\n  {NEW}\n  {OLD}\n".replace(
        "\n  ", "\nrankboard:   "
    )


def test_a_name_that_was_given_here_later_counts_here(
    tell: Callable[..., None], opened: Opened
) -> None:
    folder = record(plan(OLD, label="best"), ended=True)
    marks.write_name(folder, "once best")
    tell(*[[told(plan(OLD, label="best"), live=False), told(plan(NEW, label="best"))]] * 3)
    assert opened(stop, run="best")[0] == NEW


@pytest.mark.parametrize(
    "label",
    ["last", "a/b", "../x", "a\nb", "\x1b[2J", "a\u202eb", "a\u200bb", " x", "x" * 61, 7, []],
)
def test_a_name_that_nobody_could_have_given_is_none(label: object) -> None:
    text = json.dumps(json.loads(serialize.dump(plan(NEW, label="best"))) | {"label": label})
    assert serialize.parse(text) == plan(NEW)


def test_a_plan_of_a_version_without_names_is_read() -> None:
    assert "label" not in json.loads(serialize.dump(plan(NEW)))
    assert serialize.parse(serialize.dump(plan(NEW))).label == ""
    assert serialize.parse(serialize.dump(plan(NEW, label="best"))).label == "best"

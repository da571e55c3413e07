"""A run of another format: every command that reads it names it as such."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remote.cluster.hosts import Cluster, Host
from remote.events import RemarkMade
from remote.host_commands import inventory, pruning
from remote.host_commands import listed_runs as found_runs
from remote.host_commands.run_on_hosts import HostAnswer
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError
from remote.plan.serialize import OtherFormat
from remote.record import events_file, resume
from remote.record.write import Recorder
from tests.kit.commands import Done, Watched, plan_on_hosts, watching
from tests.kit.histories import History
from training.agent.host.system import LINUX
from training.agent.host_commands import orphans, run_folders
from training.agent.host_commands.journal_summary import own_boot_id
from training.agent.journal import Journal
from training.job import Job
from training.wire import host_replies
from training.wire.enums import EndReason
from training.wire.events import SESSION, Record, encode
from training.wire.format import FORMAT, READABLE_TEXT
from training.wire.host_events import AgentEnded, Hello, Launched
from training.wire.jsonl import dumps, load
from tui.commands.attach import attach
from tui.commands.events import events
from tui.commands.logs import logs
from tui.commands.prune import prune
from tui.commands.ps import ps
from tui.commands.stop import stop

NAME = "20261119-a-run"
HOSTS = (Host("node1", "127.0.0.1"),)
NEWER = f"in format 3, but this version of rankboard reads format {READABLE_TEXT}"
OLDER = f"before formats had numbers, but this version of rankboard reads format {READABLE_TEXT}"
ADVICE = "use the version that recorded it"


def reformatted(text: str, number: int | None) -> str:
    """The JSON object, as if it had been recorded in the format of this number, or in none."""
    data = {**(load(text) or {}), "format": number}
    return dumps({key: value for key, value in data.items() if value is not None})


def rename_format(file: Path, number: int | None) -> None:
    """Have the first record of a file name this format."""
    first, *others = file.read_text().splitlines()
    file.write_text("\n".join([reformatted(first, number), *others, ""]))


@pytest.fixture(params=[3, None], ids=["newer", "older"])
def number(request: pytest.FixtureRequest) -> int | None:
    """The format of the run."""
    found: int | None = request.param
    return found


@pytest.fixture
def says(number: int | None) -> str:
    """What every command says of the run."""
    return f"{NAME}: recorded {NEWER if number else OLDER}; {ADVICE}"


@pytest.fixture
def recorded(tmp_path: Path, number: int | None) -> Path:
    """A run that has ended, and is recorded in the format."""
    plan = Plan(NAME, HOSTS, Job())
    recorder = Recorder(tmp_path / "runs", plan)
    recorder.close(History(plan).closed())
    folder = recorder.folder
    (folder / "plan.json").write_text(reformatted((folder / "plan.json").read_text(), number))
    return folder


@pytest.mark.parametrize(
    ("command", "flags"),
    [
        (watching(Watched(), attach), {"run": NAME}),
        (watching(Watched(), stop), {"run": "last"}),
        (logs, {"run": NAME[:4]}),
        (watching(Watched(), events), {"run": NAME}),
    ],
    ids=["attach", "stop", "logs", "events"],
)
def test_a_command_on_it_is_refused(
    command: Callable[..., None],
    flags: dict[str, object],
    recorded: Path,
    says: str,
    run: Callable[..., Done],
) -> None:
    done = run(command, **flags)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1] == f"rankboard: {says}"


def test_nothing_is_resumed_from_it(recorded: Path, says: str) -> None:
    with pytest.raises(PlanError) as refused:
        resume.job_of({"resume": NAME}, recorded.parent, is_local=False)
    assert str(refused.value) == says


@pytest.mark.usefixtures("recorded")
def test_ps_lists_it_as_unreadable_and_names_it(says: str, run: Callable[..., Done]) -> None:
    done = run(ps)
    assert done.stderr == f"rankboard: {says}\n"
    assert done.stdout.splitlines()[1].split()[:2] == [NAME, "unreadable"]
    (shown,) = map(json.loads, run(ps, json=True).stdout.splitlines())
    assert shown["state"] == "unreadable"


@pytest.mark.usefixtures("recorded")
def test_prune_removes_it_by_name_only(run: Callable[..., Done]) -> None:
    done = run(prune, older_than="0", yes=True)
    kept = f"{NAME} is kept: another version of rankboard recorded it"
    assert done.stderr.startswith(f"rankboard: {kept}; to remove the record anyway: ")
    run(prune, names=[NAME], yes=True)
    assert not (Path("runs") / NAME).exists()


def test_a_plan_that_hosts_keep_is_named(
    number: int | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = reformatted(serialize.dump(Plan(NAME, HOSTS, Job())), number)
    told = {"run": NAME, "plan": plan, "now": 1.0}
    answers = [HostAnswer(HOSTS[0], objects=(told,))]
    monkeypatch.setattr("remote.host_commands.run_on_hosts.run_on_hosts", lambda *_, **__: answers)
    nobody: object = None
    with pytest.raises(OtherFormat) as refused:
        plan_on_hosts(nobody, Cluster("test", HOSTS), NAME)  # type: ignore[arg-type]
    assert str(refused.value) == says


def test_records_of_another_format_are_not_read(
    tmp_path: Path, number: int | None, says: str
) -> None:
    folder = tmp_path / NAME
    folder.mkdir()
    lines = [encode(Record(SESSION, 0, seq, 2.0, RemarkMade(SESSION, "x"))) for seq in (1, 2)]
    (folder / "events.jsonl").write_text("".join(lines))
    assert len(list(events_file.read_records(folder))) == 2
    rename_format(folder / "events.jsonl", number)
    with pytest.raises(OtherFormat) as refused:
        list(events_file.read_records(folder))
    assert str(refused.value) == says


# On a host ----------------------------------------------------------------------------------------


@pytest.fixture
def kept(tmp_path: Path, number: int | None) -> Iterator[Path]:
    """The folder of a run on a host, with a journal in the format, and a process that is left."""
    folder = tmp_path / "runs" / NAME / "0"
    folder.mkdir(parents=True)
    hello = Hello("x", "ada", 1, "3", "python3", "Linux", own_boot_id(), 2.0, 1)
    with subprocess.Popen(["sleep", "60"]) as process:
        ended = AgentEnded(EndReason.CLOSED, left=(process.pid,))
        Journal(str(folder), 0).write(1, [hello, Launched((0,)), ended])
        (segment,) = folder.glob("*.journal")
        rename_format(segment, number)
        yield folder
        process.kill()


def test_a_host_does_not_read_the_journal(kept: Path, tmp_path: Path, number: int | None) -> None:
    (told,) = map(host_replies.codec.value, run_folders.runs(str(tmp_path)))
    assert (told.format, told.phase, told.live) == (number or 0, "unreadable", True)
    assert (told.ranks, told.exits, told.ended) == ((), (), None)
    assert time.time() - told.last < 60, "the age of its files"
    for path in (kept, *kept.iterdir()):
        os.utime(path, (time.time() - 7200,) * 2)
    later = run_folders.examine(str(tmp_path), NAME, 0)
    assert not later.live, "nobody can still be at work in it"
    known = found_runs.ListedRun(NAME, (found_runs.HostPart("node1", "~", later),))
    assert (known.state, known.format) == ("unreadable", number or 0)
    found = inventory.RunInventory((known,), (), frozenset({"node1"}))
    (reason,) = pruning.find_removable(found, 0, 0)[1]
    assert reason.by_name


@pytest.mark.skipif(not LINUX, reason="needs /proc")
@pytest.mark.usefixtures("kept")
def test_no_process_is_found_by_the_journal(tmp_path: Path) -> None:
    assert orphans.find_orphans([str(tmp_path)]) == []
    (segment,) = tmp_path.glob("runs/*/0/*.journal")
    rename_format(segment, FORMAT)
    assert len(orphans.find_orphans([str(tmp_path)])) == 1

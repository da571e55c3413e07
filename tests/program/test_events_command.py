"""`rankboard events`, and the stream that it shares with --run --json and attach --run --json."""

from __future__ import annotations

import io
import json
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from remote.cluster.hosts import Host
from remote.plan.plan import Plan
from remote.record import summary
from remote.record.write import Recorder
from remote.transport import Transport
from tests.kit.agents import ROOT
from tests.kit.commands import NOWHERE, OBEYING, Done, Watched, recording, watching
from tests.kit.printing import good, printed
from training.job import Job
from training.wire.events import EVENTS
from tui.commands.attach import attach
from tui.commands.events import events
from tui.run.json_printer import JsonPrinter
from tui.run.printer import run_printer


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_an_ended_run_tells_what_it_told_live(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    history = good()
    folder = tmp_path / "runs" / history.plan.run
    live, _ = printed(history, lambda out, err: JsonPrinter(out, err, folder=folder))
    into = Recorder(folder.parent, history.plan)
    for record in history.records:
        into.write(record)
    into.close(history.state())
    done = run(watching(Watched(), events), run="last")
    assert done.returncode == 0
    assert objects(done.stdout) == objects(live)
    first, *_, last = objects(done.stdout)
    assert (first["event"], first["run"], first["folder"]) == ("run", history.plan.run, str(folder))
    assert first["plan"]["job"]["model"] == "lenet5"
    assert last["event"] == "summary"
    recorded = json.loads((folder / "summary.json").read_text())
    assert {key: value for key, value in last.items() if key in recorded} == recorded


def test_only_the_kinds_that_are_asked_for_are_told(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    history = good()
    recorder = Recorder(tmp_path / "runs", history.plan)
    for record in history.records:
        recorder.write(record)
    recorder.close(history.state())
    everything = objects(run(watching(Watched(), events), run="last").stdout)
    for kinds in (("step",), ("run", "summary"), ("summary", "evaluated", "text"), ("alert",)):
        told = objects(run(watching(Watched(), events), run="last", event=kinds).stdout)
        assert told == [item for item in everything if item["event"] in kinds]
    assert {"step", "run", "summary"} <= {item["event"] for item in everything}


def test_a_live_run_is_told_so_far_without_following_it(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    with recording(tmp_path, OBEYING):
        done = run(watching(Watched(), events), run="a-run", follow=False)
    assert (done.returncode, objects(done.stdout)[-1]["verdict"]) == (0, None)


def test_nobody_attaches_to_a_run_that_was_left_without_following_it(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    history = good()
    recorder = Recorder(tmp_path / "runs", history.plan)
    for record in history.records[:-1]:
        recorder.write(record)
    recorder.flush()
    live = objects(run(watching(Watched(), events), run="last", follow=False).stdout)
    recorder.release()
    watched = Watched()
    done = run(watching(watched, events), run="last", follow=False)
    assert (done.returncode, watched.sessions) == (0, [])
    first, *_, last = objects(done.stdout)
    assert (live[0]["live"], first["live"]) == (True, False)
    assert (last["event"], last["verdict"]) == ("summary", None)


def test_a_live_run_is_followed_to_its_end(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    with recording(tmp_path, OBEYING) as pid:
        threading.Timer(0.3, os.kill, (pid, signal.SIGUSR1)).start()
        done = run(watching(Watched(), events), run="a-run")
    assert [one["event"] for one in objects(done.stdout)] == [
        "run",
        "stopping",
        "closed",
        "summary",
    ]
    assert objects(done.stdout)[-1]["verdict"] == "stopped"


def test_a_run_that_was_left_is_followed_on_its_hosts(
    run: Callable[..., Done], over: Callable[[Transport], None], tmp_path: Path
) -> None:
    over(NOWHERE)
    history = good()
    into = Recorder(tmp_path / "runs", history.plan)
    for record in history.records[:-1]:
        into.write(record)
    into.flush()
    into.release()
    watched = Watched()
    assert run(watching(watched, events), run="last").returncode == 42
    (session,) = watched.sessions
    assert session.state.step == 40
    session._recorder.release()


def test_what_was_recorded_before_comes_first(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    history = good()
    whole, _ = printed(history, lambda out, err: JsonPrinter(out, err, folder=tmp_path))
    before, state = history.records[:-1], history.state()
    with run_printer(state, True, tmp_path, before=before) as to:
        to.batch(history.records[-1:], state)
        to.end(state)
    assert objects(capsys.readouterr().out) == objects(whole)


def test_a_stream_has_neither_secrets_nor_ways_to_hosts(tmp_path: Path) -> None:
    host = Host(
        "node1",
        "10.9.8.7",
        port=2222,
        user="alice",
        identity_file="/k",
        proxy_command="nc me:hunter2",
        env=(("TOKEN", "s"),),
    )
    plan = Plan("a-run", (replace(host, slots=2),), Job())
    said = json.dumps(summary.describe_plan(plan))
    assert all(word not in said for word in ("10.9.8.7", "2222", "alice", "/k", "hunter2", "TOKEN"))
    assert json.loads(said)["ranks"] == [
        {"rank": rank, "local_rank": rank, "host": "node1"} for rank in range(2)
    ]
    assert json.loads(said)["policy"] == asdict(plan.policy)


def test_a_stream_without_records_has_both_ends(tmp_path: Path) -> None:
    out = io.StringIO()
    show = JsonPrinter(out, io.StringIO(), folder=tmp_path)
    show.summarize(show.replay((), good().plan))
    assert [one["event"] for one in objects(out.getvalue())] == ["run", "summary"]


def test_attach_refuses_json_without_run_as_the_launcher_does(run: Callable[..., Done]) -> None:
    watched = Watched()
    done = run(watching(watched, attach), run="last", json=True)
    assert (done.returncode, done.stderr) == (2, "rankboard: --json needs --run\n")
    assert not watched.sessions


def test_the_documentation_names_every_event() -> None:
    pages = [ROOT / "docs" / "reference" / name for name in ("events.md", "events-host.md")]
    text = "".join(page.read_text() for page in pages)
    missing = [kind.wire_name for kind in EVENTS if f"`{kind.wire_name}`" not in text]
    assert missing == []

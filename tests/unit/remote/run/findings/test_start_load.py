"""Hosts that others kept busy as a run began are named at its end, and are no flaw."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from textual.content import Content

from remote.events import CheckFinished, SessionClosed
from remote.run.findings.alerts import find_alerts
from remote.run.findings.flaws import find_flaws
from remote.run.findings.start_load import describe_start_load
from tests.kit.histories import History, plan
from tests.kit.printing import HELLO, printed
from tests.kit.recorded import recorded
from training.wire.host_events import Hello
from tui.kit.inks import MUTED
from tui.kit.widgets.verdict_strip import Severity
from tui.report.chapter import make_chapter
from tui.report.load import SubjectReader
from tui.run.end_verdict import judge_ended_run
from tui.run.plain_printer import PlainPrinter
from tui.run.run_verdict import VerdictKeys

BUSY = replace(HELLO, load=2.0, busiest=(("python3", 1.6),))
BUSY_TEXT = "node1 was busy with others at the start: python3 1.6 cores"


def load_check(host: int, outcome: str = "warning", same: tuple[int, ...] = ()) -> CheckFinished:
    text = "about 2 other processes on 2 cores slow every rank down"
    return CheckFinished(host, "load", outcome, text, "busy: …", same=same, value="2.0")


def ended_run(*checks: CheckFinished, hellos: tuple[Hello, ...] = (BUSY, HELLO)) -> History:
    history = History(plan(len(hellos)))
    for host, hello in enumerate(hellos):
        history.say(host, hello)
    history.session(*checks).training(steps=12)
    return history.done(*range(len(hellos)))


def test_a_busy_host_is_named_with_what_kept_it_busy() -> None:
    assert describe_start_load(ended_run(load_check(0)).closed()) == BUSY_TEXT


def test_nothing_is_said_of_calm_hosts() -> None:
    checks = (load_check(0, "ok"), CheckFinished(1, "disk", "warning", "3 GiB left"))
    assert describe_start_load(ended_run(*checks).closed()) == ""


@pytest.mark.parametrize(
    ("hello", "what"),
    [
        (replace(BUSY, runs=(("long-run", 4),)), "your run long-run"),
        (replace(BUSY, busiest=()), "load 2.0 on 2 cores"),
    ],
)
def test_what_is_known_of_the_load_is_told(hello: Hello, what: str) -> None:
    run = ended_run(load_check(0), hellos=(hello, HELLO)).closed()
    assert describe_start_load(run) == f"node1 was busy with others at the start: {what}"


def test_hosts_with_one_load_are_told_with_one() -> None:
    checks = (load_check(0, same=(0, 1)), load_check(1, same=(0, 1)))
    others = replace(BUSY, busiest=(("python3", 1.5),))
    assert describe_start_load(ended_run(*checks, hellos=(BUSY, others)).closed()) == (
        "node1 and node2 were busy with others at the start: python3 1.6 cores"
    )


def test_the_outcome_has_one_dim_line_and_stays_good() -> None:
    history = ended_run(load_check(0)).ended()
    run = history.state()
    assert not find_flaws(run)
    assert not find_alerts(run)
    for is_brief in (False, True):
        verdict = judge_ended_run(run, VerdictKeys(), is_brief=is_brief)
        assert verdict.severity is Severity.GOOD
        assert verdict.title.endswith("without problems")
        assert verdict.reasons.count(Content.styled(BUSY_TEXT, MUTED)) == 1
    out, _ = printed(history, PlainPrinter)
    assert out.splitlines().count(BUSY_TEXT) == 1


def test_the_report_says_it_and_has_no_alert(tmp_path: Path) -> None:
    busy, calm = ended_run(load_check(0)), ended_run()
    calm.plan = replace(calm.plan, run="calm")
    folders = [recorded(tmp_path, history.session(SessionClosed())) for history in (busy, calm)]
    reader = SubjectReader(tmp_path, 0.0, str)
    chapter = make_chapter(reader.read_runs(folders[:1]))
    assert f"{BUSY_TEXT}." in chapter.verdict
    assert not any("busy" in alert for alert in chapter.alerts)

    of_two = make_chapter(reader.read_runs(folders))
    assert (
        "1 of 2 runs began while others kept hosts busy: see How it was measured." in of_two.verdict
    )
    (procedure,) = (section for section in of_two.sections if section.name == "procedure")
    [table] = procedure.tables
    remarks = [row[table.head.index("remark")] for row in table.rows]
    assert sorted(BUSY_TEXT in remark for remark in remarks) == [False, True]

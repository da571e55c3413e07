"""The card of a run, on a large screen: what it is, where it runs, and how it was set up."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator, Sequence

from textual.content import Content
from textual.geometry import Size
from textual.widgets import Static

from remote.format import count, moment
from remote.record.step_notes import StepNote
from remote.run.findings.start_progress import is_starting
from remote.run.run_state import RunState
from remote.sanitise import plain
from tui.doctor.run_facts import describe_run
from tui.run.components.header_lines import DIM

LABEL_WIDTH = 10
NEXT = "charts of loss, step time and samples/s stand here from the first steps on"
"""What a run that starts comes to on this screen."""


class RunCard(Static):
    """Lines of a label and what it stands for."""

    DEFAULT_CSS = """
    RunCard { border: round $ink-rule; padding: 0 1; border-title-color: $text-muted; }
    """
    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self._shown: tuple[list[tuple[str, str]], Size] = ([], Size())

    def on_mount(self) -> None:
        self.border_title = "run"

    def show(
        self, run: RunState, command: str, baseline_name: str, notes: Sequence[StepNote]
    ) -> None:
        """Copy what is drawn from the run. `command` starts such a run."""
        facts = list(card_facts(run))
        if is_starting(run):
            facts += list_work_facts(run)
        if baseline_name:
            facts.append(("baseline", baseline_name))
        if notes:
            newest_note = notes[-1]
            others = f" ({count(len(notes) - 1, 'more note')})" if len(notes) > 1 else ""
            facts.append(("note", f"step {newest_note.step}: {newest_note.text}{others}"))
        if command:
            facts.append(("command", command))
        if is_starting(run):
            facts.append(("next", NEXT))
        size = self.content_size
        if (facts, size) == self._shown:
            return
        self._shown = facts, size
        lines: list[Content] = []
        for label, text in facts:
            # Only a command is worth several lines: half of it cannot be copied.
            room = max(size.width - LABEL_WIDTH, LABEL_WIDTH)
            texts = textwrap.wrap(plain(text), room) or [""]
            if label != "command":
                texts = [plain(text)[:room]]
            for number, line in enumerate(texts):
                head = label if number == 0 else ""
                lines.append(Content.assemble((head.ljust(LABEL_WIDTH), DIM), line))
        self.update(Content("\n").join(lines), layout=False)


def card_facts(run: RunState) -> Iterator[tuple[str, str]]:
    """Yield what is known of a run, each with its label."""
    plan = run.plan
    yield "run", plan.run
    yield "started", moment(run.started, exact=True) if run.started else "-"
    names = [plain(host.name) for host in plan.hosts]
    more = f" and {count(len(names) - 4, 'more host')}" if len(names) > 4 else ""
    yield "hosts", ", ".join(names[:4]) + more
    if plan.job:
        job = plan.job
        yield "job", f"batch {job.batch_size}  lr {job.lr:g}  seed {job.seed}"
    versions = Counter(
        f"Python {host.hello.python}, torch {host.hello.torch}"
        for host in run.hosts
        if host.hello and host.hello.torch
    )
    if versions:
        version, _ = versions.most_common(1)[0]
        yield "software", version if len(versions) == 1 else f"{version}, and others"
    machines = Counter(host.hello.platform for host in run.hosts if host.hello)
    if machines:
        yield "machine", machines.most_common(1)[0][0]


def list_work_facts(run: RunState) -> Iterator[tuple[str, str]]:
    """Yield what is known of the work before its first step."""
    label = "work"
    # The first fact says again how many ranks there are, and the last one is of a link.
    for fact in describe_run(run.plan)[1:4]:
        yield label, fact
        label = ""

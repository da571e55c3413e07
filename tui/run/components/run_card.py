"""The card of a run, on a large screen: what it is, where it runs, and how it was set up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from textual.content import Content
from textual.widgets import Static

from remote.format import count, moment
from remote.run.run_state import RunState
from remote.sanitise import plain
from tui.run.components.header_lines import DIM

LABEL_WIDTH = 10


class RunCard(Static):
    """Lines of a label and what it stands for."""

    DEFAULT_CSS = """
    RunCard { border: round $ink-rule; padding: 0 1; border-title-color: $text-muted; }
    """
    can_focus = False

    def __init__(self) -> None:
        super().__init__()
        self._shown: list[tuple[str, str]] = []

    def on_mount(self) -> None:
        self.border_title = "run"

    def show(self, run: RunState) -> None:
        """Copy what is drawn from the run."""
        facts = list(card_facts(run))
        if facts == self._shown:
            return
        self._shown = facts
        lines = [
            Content.assemble((label.ljust(LABEL_WIDTH), DIM), plain(text)) for label, text in facts
        ]
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
    else:
        yield "command", plan.what
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

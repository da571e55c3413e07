"""The dashboard of a study: its cells, over them a cell or the run under way."""

from __future__ import annotations

from remote.study.length import TrainingLength
from remote.study.runner import StudyRunner
from tui.app.dashboard import Dashboard
from tui.kit.dialogs import StudyDialog
from tui.kit.messages import RepeatStudy, RetryStudy, ShowCell, ShowRun
from tui.run.screen import RunScreen
from tui.study.cell_screen import CellScreen
from tui.study.study_runs import StudyRuns
from tui.study.study_screen import StudyScreen


class StudyApp(Dashboard[StudyRuns]):
    """Makes the runs of a study while it shows them."""

    def __init__(self, runner: StudyRunner) -> None:
        super().__init__(StudyRuns(runner))
        self.next_length: TrainingLength | None = None
        """How long the runs are to train next time, if the user wants the study made again."""

    def open(self) -> None:
        self.runs.start()
        self.push_screen(StudyScreen(self.runs.runner))

    def on_show_run(self, message: ShowRun) -> None:
        run = self.runs.runner.current
        if run and run.session.plan.run == message.name:
            self.push_screen(RunScreen(run.session, inside=True))

    def on_show_cell(self, message: ShowCell) -> None:
        self.push_screen(CellScreen(self.runs.runner, message.key))

    def on_retry_study(self, _: RetryStudy) -> None:
        self.runs.retry()

    def on_repeat_study(self, message: RepeatStudy) -> None:
        """Leave: only then is the study free to begin again."""
        if not self.runs.live:
            self.next_length = message.length
            self.exit()

    def make_quit_dialog(self) -> StudyDialog:
        return StudyDialog()

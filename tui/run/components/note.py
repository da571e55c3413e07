"""The line that says what is to be known of a record that is shown: who writes it, or nobody."""

from __future__ import annotations

from textual.widgets import Static

from remote.record.watch import WatchedRun
from remote.sanitise import plain


class RecordNote(Static):
    """What is to be known of the record of a watched or replayed run; hidden where that is
    nothing."""

    DEFAULT_CSS = """
    RecordNote { display: none; height: auto; max-height: 2; padding: 0 1; background: $boost; }
    """

    def __init__(self, run: WatchedRun) -> None:
        super().__init__(markup=False)
        self._run = run
        self._shown = ""

    def show(self) -> None:
        """Say what there is to say now."""
        news_text = self._run.news
        if news_text != self._shown:
            self._shown = news_text
            self.display = bool(news_text)
            self.update(plain(news_text))

"""A study of which all runs have ended, made again with longer runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from remote.format import approximate, count
from remote.study.folder import StudyCall, StudyFolder
from remote.study.length import TrainingLength, find_length, lengthen, suggest_longer
from remote.study.progress import StudyProgress
from remote.study.study import StudyError
from training.job import Job, JobError


@dataclass(frozen=True)
class LongerStudy:
    """How a study can be made again with longer runs."""

    name: str
    runs_dir: Path
    call: StudyCall
    """How it was called."""
    num_runs: int
    seconds: float
    """How long its runs took."""
    length: TrainingLength
    """How long they trained."""
    longer_length: TrainingLength
    """How long they should train."""

    @property
    def can_start(self) -> bool:
        """Return True if it may start here: nobody but this user has chosen other machines."""
        return self.call.is_trusted or self._is_local

    @property
    def _is_local(self) -> bool:
        """Return True if it runs on this machine alone, whoever has called it."""
        return (
            self.call.places.keys() <= {"local", "slots", "nodes"} and "local" in self.call.places
        )

    def describe_time(self) -> str:
        """Return about how long the longer runs take, by those that there are: "~4 min"."""
        return approximate(self.seconds * self.longer_length.value / self.length.value)

    def describe_choice(self) -> str:
        """Return what there is to know before a length is chosen."""
        runs_text = count(self.num_runs, "run")
        return (
            f"Each run trained for {self.length}; {runs_text} of {self.longer_length} take "
            f"{self.describe_time()}.\n"
            "Enter starts them; the results so far are kept under another name."
        )

    def read_choice(self, text: str) -> TrainingLength | None:
        """Return the length that was typed; None if it is no whole number from 1 on."""
        value = int(text) if text.isdecimal() else 0
        return TrainingLength(self.length.setting, value) if value else None

    def list_words(self, length: TrainingLength) -> list[str]:
        """Return the words of the command that makes it again."""
        given = lengthen(self.call, length).given
        flags = ["--new", *Job.of(given).flags(given)]
        # A study that this user has called finds its hosts by itself.
        if self._is_local and not self.call.is_trusted:
            for option_name, value in self.call.places.items():
                flag = "--num-hosts" if option_name == "nodes" else f"--{option_name}"
                flags += [flag, str(value)]
        return list_study_words(self.name, self.runs_dir, *flags)


def find_longer_study(progress: StudyProgress, runs_dir: Path) -> LongerStudy | None:
    """Return how the study can be made again with longer runs; None where its length is not set, or
    not by an option."""
    study = progress.study
    length = find_length(study)
    # What was recorded may be gone, or somebody may have changed it.
    with suppress(StudyError, JobError, TypeError):
        call = StudyFolder.of(runs_dir, study.name).call()
        longer_length = suggest_longer(study, call)
        if length and longer_length:
            num_runs = len(study.trials())
            seconds = progress.seconds
            longer_study = LongerStudy(
                study.name, runs_dir, call, num_runs, seconds, length, longer_length
            )
            longer_study.list_words(longer_length)
            return longer_study
    return None


def list_study_words(name: str, runs_dir: Path, *flags: str) -> list[str]:
    """Return the words of a command on a study that was started."""
    words = ["study", name, *flags]
    if runs_dir.absolute() != Path("runs").absolute():
        words += ["--runs-dir", str(runs_dir)]
    return words

"""What the ranks do after which step. The answers depend only on what all ranks know: the job, the
step, and results that are arguments. So they come to the same without asking each other."""

from __future__ import annotations

from dataclasses import dataclass

from training.job import Job


@dataclass(frozen=True)
class Schedule:
    """The schedule of a run of `steps` steps. `compare_every` and `save_every` are in steps; 0
    means never. Steps count from 1."""

    steps: int
    steps_per_epoch: int
    compare_every: int = 0
    save_every: int = 0

    @classmethod
    def of(cls, job: Job, steps_per_epoch: int, *, compares: bool) -> Schedule:
        """Make the schedule of a job. `compares`: its ranks ought to hold equal models."""
        steps = job.total_steps(steps_per_epoch)
        checkpoint_every = job.checkpoint_every or "0"
        save_every = steps_per_epoch if checkpoint_every == "epoch" else int(checkpoint_every)
        return cls(steps, steps_per_epoch, job.log_every if compares else 0, save_every)

    def epoch(self, step: int) -> int:
        """Return the epoch, from 1 on, to which a step belongs; the first if no step is made
        yet."""
        return max(0, step - 1) // self.steps_per_epoch + 1

    def epoch_end(self, step: int) -> int:
        """Return the last step of the epoch that goes on, or begins, after `step` steps."""
        return min((step // self.steps_per_epoch + 1) * self.steps_per_epoch, self.steps)

    def ends_epoch(self, step: int) -> bool:
        """Return True if a step is the last of its epoch, or of the run."""
        return step == self.steps or step % self.steps_per_epoch == 0

    def compares(self, step: int) -> bool:
        """Return True if the ranks compare their models after a step."""
        return bool(self.compare_every) and step % self.compare_every == 0

    def saves(self, step: int) -> bool:
        """Return True if a checkpoint is saved after a step. At the end of an epoch, the evaluation
        comes first."""
        return bool(self.save_every) and (step == self.steps or step % self.save_every == 0)

    def saves_within_epoch(self, step: int) -> bool:
        """Return True if a checkpoint is saved after a step that is not the last of its epoch."""
        return self.saves(step) and not self.ends_epoch(step)

    def meets(self, step: int) -> bool:
        """Return True if all ranks meet after a step, outside its time."""
        return self.compares(step) or self.saves_within_epoch(step)

    def next_stop(self, step: int) -> int:
        """Return the first step after `step` at which the ranks meet, or the epoch ends."""
        epoch_end = self.epoch_end(step)
        # One by one, as the ranks may meet for several reasons, each with an interval of its own.
        later_steps = range(step + 1, epoch_end + 1)
        return next(later for later in later_steps if later == epoch_end or self.meets(later))

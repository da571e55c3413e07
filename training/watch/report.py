"""Writes wire events to the pipe that the agent reads."""

from __future__ import annotations

import atexit
import math
import os
import select
import stat
import time
import traceback
from collections.abc import Sequence

from .exchange import Collectives
from .isolation import Isolation
from .steps import Step

_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
MOST = 1 << 16
"""Bytes that wait to be written; what comes while there are more is dropped."""
LAST_WRITE_SECONDS = 1.0
"""Seconds that the agent has to take the rest, when the process ends."""


class WatchReport:
    """The pipe. It never blocks: what does not fit waits for the next step, and is dropped where
    `MOST` bytes wait already. Ends for good at the first failure, and in forks of the process."""

    def __init__(self, pipe: int, rank: int) -> None:
        """Use the pipe from the agent. Raises: OSError, if it is none."""
        status = os.fstat(pipe)
        if not stat.S_ISFIFO(status.st_mode):
            raise OSError("its pipe is closed")
        os.set_blocking(pipe, False)
        self._pipe = pipe
        self._rank = rank
        self._identity = (status.st_dev, status.st_ino)
        self._waiting_bytes = b""
        self.on = True
        # A data loader's process would report as if it was the rank.
        os.register_at_fork(after_in_child=self._stop_reporting)
        atexit.register(self.close)

    def steps(self, steps: Sequence[Step]) -> None:
        """Report steps."""
        self._queue_text("".join(map(self._format_step, steps)))
        self._write_waiting()

    def collectives(self, collectives: Collectives) -> None:
        """Report what was exchanged since the report before."""
        self._queue_text(
            f'@rankboard {{"time":{time.time():.6f},"event":"collectives","rank":{self._rank},'
            f'"count":{collectives.count},"bytes":{collectives.bytes},'
            f'"seconds":{collectives.seconds:.6f},"span":{collectives.span:.6f},'
            f'"name":"{collectives.name}","inside":{"true" if collectives.inside else "false"}}}\n'
        )
        self._write_waiting()

    def isolation(self, isolation: Isolation) -> None:
        """Report that the rank trains alone, or no longer."""
        self._queue_text(
            f'@rankboard {{"time":{time.time():.6f},"event":"isolation","rank":{self._rank},'
            f'"steps":{isolation.steps},"has_group":{"true" if isolation.has_group else "false"},'
            f'"driver":"{isolation.driver}","over":{"true" if isolation.over else "false"}}}\n'
        )
        self._write_waiting()

    def _format_step(self, step: Step) -> str:
        loss = math.nan if step.loss is None else step.loss
        loss_text = loss if math.isfinite(loss) else _NOT_FINITE[str(loss)]
        is_known = "true" if step.loss is not None else "false"
        return (  # ten times as fast as `json.dumps`
            f'@rankboard {{"time":{step.time:.6f},"event":"step","rank":{self._rank},"epoch":0,'
            f'"step":{step.step},"loss":{loss_text},"seconds":{step.seconds:.6f},'
            f'"data":{step.data:.6f},"compute":{step.compute:.6f},"sync":{step.sync:.6f},'
            f'"ready":{step.ready:.6f},"cpu_seconds":{step.cpu_seconds:.6f},'
            f'"samples":{step.samples},"correct":0,"bytes_sent":0,"staleness":0,'
            f'"loss_known":{is_known}}}\n'
        )

    def failed(
        self, error: BaseException, problem: str = "the watch has failed", *, ends: bool = True
    ) -> None:
        """Say so. If it `ends` the watch, report nothing more."""
        if self.on:
            last_frames = traceback.extract_tb(error.__traceback__)[-1:]
            place_text = "".join(
                f" ({os.path.basename(frame.filename)}:{frame.lineno})" for frame in last_frames
            )
            error_text = " ".join(f"{type(error).__name__}: {error}".split())
            consequence = "the program continues without it"
            self._queue_text(f"rankboard: {problem}, {consequence}: {error_text}{place_text}\n")
            self._write_waiting()
        if ends:
            self._stop_reporting()

    def _queue_text(self, text: str) -> None:
        if self.on and len(self._waiting_bytes) < MOST:
            self._waiting_bytes += text.encode("utf-8", "replace")

    def _write_waiting(self) -> None:
        """Write what is waiting, unless the program has closed the pipe: another file may have got
        its number."""
        try:
            while self._waiting_bytes and self.on:
                status = os.fstat(self._pipe)
                if (status.st_dev, status.st_ino) != self._identity:
                    self._stop_reporting()
                    return
                written = os.write(self._pipe, self._waiting_bytes)
                self._waiting_bytes = self._waiting_bytes[written:]
        except BlockingIOError:
            pass
        except OSError:
            self._stop_reporting()

    def close(self) -> None:
        """Write the rest, if the agent takes it soon: the process ends."""
        self._write_waiting()
        if self._waiting_bytes:
            pipe_poll = select.poll()  # `select.select` knows no file from 1,024 on
            pipe_poll.register(self._pipe, select.POLLOUT)
            if pipe_poll.poll(1000 * LAST_WRITE_SECONDS):
                self._write_waiting()

    def _stop_reporting(self) -> None:
        self.on = False
        self._waiting_bytes = b""

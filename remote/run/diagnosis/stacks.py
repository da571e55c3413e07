"""Reads a rank's stack: the frames of its main thread, and whether it waits for other ranks. Pure.

The text of a `Stack` begins with a line `state: S (sleeping), in futex_wait`; then comes what
faulthandler or py-spy wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from remote.sanitise import shown
from training.wire.events import Stack

_STATE = re.compile(r"state: (?P<letter>\w)\b")
_HEAD = re.compile(r"(?:Current thread|Thread) \S+.*:|Thread \S+ \(.*\)(?:: .*)?")
_MAIN = re.compile(r'Current thread |.*"MainThread"')
_FAULTHANDLER = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+|\?+) in (?P<function>.*)')
_PY_SPY = re.compile(r"    (?P<function>\S.*) \((?P<file>.*):(?P<line>\d+)\)")

_STANDARD = re.compile(r"/lib(?:64)?/python[\d.]+/(?!(?:site|dist)-packages/)|^<frozen ")
_TORCH = re.compile(r"(?:^|/)torch/")
_INSTALLED = re.compile(r"/(?:site|dist)-packages/")
_COLLECTIVE = re.compile(
    r"(?:^|/)torch/distributed/(?:distributed_c10d|c10d_logger|_functional_collectives|collective_utils|rendezvous)\.py$"
)
_DDP = re.compile(r"(?:^|/)torch/nn/parallel/distributed\.py$")
_AUTOGRAD = re.compile(r"(?:^|/)torch/autograd/\w+\.py$")
_EXCHANGE = re.compile(r"(?:^|/)training/(?:sync/(?:common/|parts/)?\w+|rendezvous)\.py$")
_SYNC_METHOD = re.compile(r"(?:^|/)training/sync/(?P<name>(?!__)\w+)\.py$")
_METER = re.compile(r"(?:^|/)training/meter\.py$")
_OURS = re.compile(r"(?:^|/)(training/(?:\w+/)*\w+\.py)$")
_WAITING = re.compile(r"\.(?:wait|synchronize)\(|\bstore\.get\(")


ON_GPU = "a step on its GPU"
"""The place of a rank of which no more is known: its own kernels and the exchange with others are
one queue there."""


class Presence(Enum):
    """Whether a rank is where it waits for others."""

    INSIDE = "inside a collective"
    ELSEWHERE = "elsewhere"
    STOPPED = "stopped"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class StackFrame:
    """One call: `code` is the line's text, "" where it is not known."""

    file: str
    line: str
    function: str
    code: str = ""

    def text(self) -> str:
        """Return it in short: "train.py:41, load_batch"."""
        ours = _OURS.search(self.file)
        return f"{ours[1] if ours else self.file.rpartition('/')[2]}:{self.line}, {self.function}"


@dataclass(frozen=True, slots=True)
class Whereabouts:
    """What a stack says of its rank."""

    presence: Presence
    where: str
    """The collective that it is inside, else a place in its script."""


def split_threads(text: str) -> list[list[str]]:
    """Return the lines of the text: the state first, then each thread's in a list of its own.

    The main thread's come before the others'.
    """
    parts: list[list[str]] = [[]]
    for line in shown(text.rstrip()):
        if _HEAD.fullmatch(line):
            parts.append([])
        parts[-1].append(line)
    head, *bodies = parts
    named = [body for body in bodies if _MAIN.match(body[0])]
    main = named or bodies[-1:]  # faulthandler writes the newest thread first
    return [head, *main, *(body for body in bodies if body not in main)]


def frames(text: str) -> list[StackFrame]:
    """Return the main thread's frames, the newest call first; none if the stack has none."""
    return next((parse_frames(thread) for thread in split_threads(text)[1:]), [])


def parse_frames(thread: Iterable[str]) -> list[StackFrame]:
    """Return the frames in the lines of one thread, the newest call first."""
    parsed: list[StackFrame] = []
    for line in thread:
        match = _FAULTHANDLER.fullmatch(line) or _PY_SPY.fullmatch(line)
        if match:
            parsed.append(StackFrame(match["file"], match["line"], match["function"]))
        elif parsed and line.startswith("    "):
            last = parsed[-1]
            parsed[-1] = StackFrame(last.file, last.line, last.function, line.strip())
    return parsed


def state(text: str) -> str:
    """Return Linux's letter for the state of the process, such as S or T; "" if it is unknown."""
    match = _STATE.match(text)
    return match["letter"] if match else ""


def locate_rank(stack: Stack) -> Whereabouts:
    """Return whether the rank is inside a collective, and where it is."""
    calls = frames(stack.text)
    letter = state(stack.text)
    if letter in ("T", "t"):
        return Whereabouts(Presence.STOPPED, _find_script_place(calls))
    if not calls:
        return Whereabouts(Presence.UNKNOWN, next(iter(shown(stack.text)), ""))
    inside = _find_collective(calls, busy=letter == "R")
    if inside:
        return Whereabouts(Presence.INSIDE, inside)
    return Whereabouts(Presence.ELSEWHERE, _find_script_place(calls))


def _find_collective(calls: list[StackFrame], *, busy: bool) -> str:
    """Return the collective that the newest calls belong to, or "".

    One that waits in C++ is known by the Python line that called it.

    Frames further out prove nothing: a model's own code runs inside DDP's forward. `busy`: it
    computes, so it waits for nobody.
    """
    newest = calls[0]
    if not busy:
        is_backward = newest.function in ("_engine_run_backward", "backward")
        if is_backward and _AUTOGRAD.search(newest.file):
            return "backward"
        if _DDP.search(newest.file):
            return "DistributedDataParallel"
    ours = [frame for frame in calls if not _is_library_call(frame)]
    if not ours:
        return ""
    innermost = ours[0]
    if _COLLECTIVE.search(innermost.file):
        return _name_collective(ours)
    # There the host waits for the end of a step on its GPU.
    if _METER.search(innermost.file) and innermost.function == "phases":
        return ON_GPU
    if busy:
        return ""
    if _EXCHANGE.search(innermost.file):
        if innermost.file.endswith("/rendezvous.py"):
            return "rendezvous"
        return f"the exchange of {_name_sync_method(ours)}"
    if innermost is newest and _WAITING.search(newest.code):
        return f"wait at {newest.text()}"
    return ""


def _name_collective(calls: list[StackFrame]) -> str:
    """Return the function of torch.distributed that was called, by the newest frame there."""
    for frame in calls:
        # Many functions there are decorated, and a decorator's `wrapper` says nothing.
        if _COLLECTIVE.search(frame.file) and frame.function != "wrapper":
            return frame.function
    return "torch.distributed"


def _name_sync_method(calls: list[StackFrame]) -> str:
    """Return the name of the sync method: of its module, if that is among the newest frames."""
    for frame in calls:
        if not _EXCHANGE.search(frame.file):
            break
        match = _SYNC_METHOD.search(frame.file)
        if match:
            return match["name"]
    return "gradients"


def _is_library_call(frame: StackFrame) -> bool:
    """Return True if it is the standard library's or torch's, but no collective's.

    Then it is where its caller is.
    """
    inside_torch = _TORCH.search(frame.file) and not _COLLECTIVE.search(frame.file)
    return bool(_STANDARD.search(frame.file) or inside_torch)


def _find_script_place(calls: list[StackFrame]) -> str:
    """Return the newest place in the script itself, not in a package; "" if it is unknown."""
    for frame in calls:
        if not _is_library_call(frame) and not _INSTALLED.search(frame.file):
            return frame.text()
    return calls[0].text() if calls else ""

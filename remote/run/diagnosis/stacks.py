"""Reads a rank's stack: the frames of its main thread, and whether it waits for other ranks. Pure.

The text of a `Stack` begins with a line `state: S (sleeping), in futex_wait`; then comes what
faulthandler or py-spy wrote, or of another program `runs: bash -c …: sleep 600`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import Enum

from msgspec import Struct
from msgspec.structs import replace

from remote.sanitise import shown
from training.wire.host_events import Stack

_STATE = re.compile(r"state: (?P<letter>\w)\b")
_PROGRAM = re.compile(r"^runs: (?P<program>.{1,200})", re.MULTILINE)
_HEAD = re.compile(r"(?:Current thread|Thread) \S+.*:|Thread \S+ \(.*\)(?:: .*)?")
_MAIN = re.compile(r'Current thread |.*"MainThread"')
_FAULTHANDLER = re.compile(r'  File "(?P<file>.*)", line (?P<line>\d+|\?+) in (?P<function>.*)')
_PY_SPY = re.compile(r"    (?P<function>\S.*) \((?P<file>.*):(?P<line>\d+)\)")
_CODE = re.compile(r" {4}")
"""How a line of code begins, below its frame."""

_PLACES = {
    place: re.compile(pattern)
    for place, pattern in (
        (
            "collective",
            r"(?:^|/)torch/distributed/(?:distributed_c10d|c10d_logger|_functional_collectives"
            r"|collective_utils|rendezvous)\.py$",
        ),
        ("DistributedDataParallel", r"(?:^|/)torch/nn/parallel/distributed\.py$"),
        ("autograd", r"(?:^|/)torch/autograd/\w+\.py$"),
        ("torch", r"(?:^|/)torch/"),
        ("standard library", r"/lib(?:64)?/python[\d.]+/(?!(?:site|dist)-packages/)|^<frozen "),
        ("rendezvous", r"(?:^|/)training/rendezvous\.py$"),
        ("exchange", r"(?:^|/)training/sync/(?:common/|parts/)?\w+\.py$"),
        ("meter", r"(?:^|/)training/meter\.py$"),
        ("package", r"/(?:site|dist)-packages/"),
    )
}
"""What a file is; the first pattern counts that fits."""
_LIBRARIES = ("DistributedDataParallel", "autograd", "torch", "standard library")
"""Calls there are where their caller is."""
_SYNC_METHOD = re.compile(r"(?:^|/)training/sync/(?P<name>(?!__)\w+)\.py$")
_OURS = re.compile(r"(?:^|/)(training/(?:\w+/)*\w+\.py)$")
_STARTING = re.compile(r"(?:^|/)training/(?:preload|fork_server|__main__)\.py$")
"""Files of rankboard that start a rank: they say no more than those of Python."""
_PACKAGE = re.compile(r"/(?:site|dist)-packages/(?P<name>\w+)")
_WAITING = re.compile(r"\.(?:wait|synchronize)\(|\bstore\.get\(")


ON_GPU = "a step on its GPU"
"""The place of a rank of which no more is known: its own kernels and the exchange with others are
one queue there."""


class Presence(Enum):
    """Whether a rank is where it waits for others."""

    INSIDE = "inside a collective"
    ELSEWHERE = "elsewhere"
    STOPPED = "stopped"
    ENDED = "ended"
    UNKNOWN = "unknown"


class StackFrame(Struct, frozen=True):
    """One call: `code` is the line's text, "" where it is not known."""

    file: str
    line: str
    function: str
    code: str = ""

    @property
    def place(self) -> str:
        """Return what its file is, a key of `_PLACES`; "" for a script's own."""
        places = (place for place, pattern in _PLACES.items() if pattern.search(self.file))
        return next(places, "")

    @property
    def library(self) -> str:
        """Return to what the file belongs, such as "torch"; "" for a file of the script."""
        if _STARTING.search(self.file) or self.file.startswith("<"):
            return "Python"
        place = self.place
        if place in ("torch", "autograd", "collective", "DistributedDataParallel"):
            return "torch"
        if place == "standard library":
            return "Python"
        package = _PACKAGE.search(self.file)
        return package["name"] if package else ""

    def text(self) -> str:
        """Return it in short: "train.py:41, load_batch"."""
        ours = _OURS.search(self.file)
        return f"{ours[1] if ours else self.file.rpartition('/')[2]}:{self.line}, {self.function}"


class Whereabouts(Struct, frozen=True):
    """What a stack says of its rank."""

    presence: Presence
    where: str
    """The collective that it is inside, else a place in its script."""
    program: str = ""
    """What it runs, if that is no Python program: "bash -c …: sleep 600"."""


def split_threads(text: str) -> list[list[str]]:
    """Return the lines of the text: the state first, then each thread's in a list of its own.

    The main thread's come before the others'.
    """
    all_parts: list[list[str]] = [[]]
    for line in shown(text.rstrip()):
        if _HEAD.fullmatch(line):
            all_parts.append([])
        all_parts[-1].append(line)
    state_lines, *threads = all_parts
    main_threads = [thread for thread in threads if _MAIN.match(thread[0])]
    first_threads = main_threads or threads[-1:]  # faulthandler writes the newest thread first
    return [
        state_lines,
        *first_threads,
        *(thread for thread in threads if thread not in first_threads),
    ]


def frames(text: str) -> list[StackFrame]:
    """Return the main thread's frames, the newest call first; none if the stack has none."""
    return next((parse_frames(thread) for thread in split_threads(text)[1:]), [])


def parse_frames(thread: Iterable[str]) -> list[StackFrame]:
    """Return the frames in the lines of one thread, the newest call first."""
    parsed_frames: list[StackFrame] = []
    for line in thread:
        match = _FAULTHANDLER.fullmatch(line) or _PY_SPY.fullmatch(line)
        if match:
            parsed_frames.append(StackFrame(match["file"], match["line"], match["function"]))
        elif parsed_frames and _CODE.match(line):
            parsed_frames[-1] = replace(parsed_frames[-1], code=line.strip())
    return parsed_frames


def state(text: str) -> str:
    """Return Linux's letter for the state of the process, such as S or T; "" if it is unknown."""
    match = _STATE.match(text)
    return match["letter"] if match else ""


def is_stopped(stack: Stack) -> bool:
    """Return True if a signal or a debugger had stopped the process."""
    return state(stack.text) in ("T", "t")


def is_importing(stack: Stack) -> bool:
    """Return True if a thread imports a module."""
    return '"<frozen importlib' in stack.text


def locate_rank(stack: Stack) -> Whereabouts:
    """Return whether the rank is inside a collective, and where it is."""
    stack_frames = frames(stack.text)
    if is_stopped(stack):
        return Whereabouts(Presence.STOPPED, _find_script_place(stack_frames))
    if not stack_frames:
        program = _PROGRAM.search("\n".join(shown(stack.text)))
        return Whereabouts(
            Presence.UNKNOWN,
            next(iter(shown(stack.text)), ""),
            program["program"] if program else "",
        )
    collective = _find_collective(stack_frames, busy=state(stack.text) == "R")
    if collective:
        return Whereabouts(Presence.INSIDE, collective)
    return Whereabouts(Presence.ELSEWHERE, _find_script_place(stack_frames))


def _find_collective(calls: list[StackFrame], *, busy: bool) -> str:
    """Return the collective that the newest calls belong to, or "".

    One that waits in C++ is known by the Python line that called it.

    Frames further out prove nothing: a model's own code runs inside DDP's forward. `busy`: it
    computes, so it waits for nobody.
    """
    newest_call = calls[0]
    if not busy:
        is_backward = newest_call.function in ("_engine_run_backward", "backward")
        if is_backward and newest_call.place == "autograd":
            return "backward"
        if newest_call.place == "DistributedDataParallel":
            return newest_call.place
    relevant_frames = [frame for frame in calls if frame.place not in _LIBRARIES]
    if not relevant_frames:
        return ""
    innermost = relevant_frames[0]
    innermost_place = innermost.place
    if innermost_place == "collective":
        return _name_collective(relevant_frames)
    # There the host waits for the end of a step on its GPU.
    if innermost_place == "meter" and innermost.function == "phases":
        return ON_GPU
    if busy:
        return ""
    if innermost_place == "rendezvous":
        return innermost_place
    if innermost_place == "exchange":
        return f"the exchange of {_name_sync_method(relevant_frames)}"
    if innermost is newest_call and _WAITING.search(newest_call.code):
        return f"wait at {newest_call.text()}"
    return ""


def _name_collective(calls: list[StackFrame]) -> str:
    """Return the function of torch.distributed that was called, by the newest frame there."""
    # It calls many others, whose names say less.
    if any(
        frame.place == "collective" and frame.function == "init_process_group" for frame in calls
    ):
        return "init_process_group"
    for frame in calls:
        # Many functions there are decorated, and a decorator's `wrapper` says nothing.
        if frame.place == "collective" and frame.function != "wrapper":
            return frame.function
    return "torch.distributed"


def _name_sync_method(calls: list[StackFrame]) -> str:
    """Return the name of the sync method: of its module, if that is among the newest frames."""
    for frame in calls:
        if frame.place != "exchange":
            break
        method_match = _SYNC_METHOD.search(frame.file)
        if method_match:
            return method_match["name"]
    return "gradients"


def _find_script_place(calls: list[StackFrame]) -> str:
    """Return the newest place in the script itself, not in a package; "" if it is unknown."""
    for frame in calls:
        if frame.place not in (*_LIBRARIES, "collective", "package"):
            return frame.text()
    return calls[0].text() if calls else ""

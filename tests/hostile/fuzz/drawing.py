"""Draws the values of records: those that an honest host may send, those at the bounds of their
type, and those of another type."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, is_dataclass
from enum import Enum
from functools import cache
from random import Random
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from tests.hostile.values import ESCAPES
from training.wire.codec import wire_keys
from training.wire.events import PREFIX, to_object
from training.wire.host_events import FILE
from training.wire.rank_events import StepFinished
from training.wire.step_block import FLOATS as FLOAT_COLUMNS
from training.wire.step_block import INTEGERS as INTEGER_COLUMNS
from training.wire.step_block import StepBlock, StepColumns, pack_columns

Object = dict[str, Any]

INTS = (
    *(0, 1, -1, 2, 3, 7, 100, 4095, 4096, 65_535, 65_536, 10**6, 10**9),
    *(2**31 - 1, 2**31, 2**32, 2**53 - 1, 2**53, 2**53 + 1, 2**62, 2**63 - 1, -(2**63), -(2**31)),
)
FLOATS = (
    *(0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e-9, 0.1, 1.0, 99.9, 100.0, 1e6, 1e9, 1e15, 1e18),
    *(1e100, 1e150, 1.3e154, 1e200, 1e300, 1.7976931348623157e308, -1e300, -1.0, -1e9),
    *(math.nan, math.inf, -math.inf, 0, 1, -1, 2**53, 2**62, 2**63 - 1, -(2**63)),
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "train.py", line 7, in <module>\n    main()\n'
    "RuntimeError: [/gloo/transport/tcp/pair.cc:561] Connection closed by peer"
)
STACK = (
    "state: S (sleeping), in futex_wait\n"
    'Current thread 0x00007f (most recent call first):\n  File "/x/torch/distributed/'
    'distributed_c10d.py", line 12 in all_reduce\n    work.wait()\n'
    '  File "train.py", line 3 in main'
)
TEXTS = (
    *("", " ", "\n", "\n" * 300, "\r", "\r\n\t\v\f\0", "\0" * 50, ESCAPES, "\x1b[31m", "\x1b]0;"),
    *("\u200b\u200d\ufeff", "\u202e", "\ud83d", "\udfff x", "e\u0301" * 40, "🏖️", "漢字" * 50),
    *("x" * 9_000, "9" * 5_000, "1 " * 3_000, "a=1 " * 2_000, "(" * 500, "[" * 2_000, "%s %d {0}"),
    *("../../../etc/passwd", "/dev/stdin", "-", "nan", "inf", "1e999", "None", "[bold]", "[/]"),
    *(TRACEBACK, STACK, "rank 1 on node1 is ", "node1: node1: x", "KeyError: 'rank'", "state: "),
    *("cpu", "cuda:0", "SIGKILL", "SIGABRT", "closed", "training", "stderr", "stdout", "upload"),
    *("faulthandler", "py-spy", "kernel", "10.0.0.1", "::1", "node1", "cuda 13.0", "2.14.0+cpu"),
    *(f"{FILE}metrics.csv", f"{FILE}{ESCAPES}", f"{FILE}log.jsonl", f"{FILE}events.out.tfevents.1"),
    *(PREFIX, f"{PREFIX}{{", f'{PREFIX}{{"event":"step"}}', f"{PREFIX}[]\n{PREFIX}1"),
)
PRINTED = (
    "step {0} loss={1} acc={2}\n",
    "Epoch [{0}/{0}] Step [{0}] Loss: {1}\n",
    "{{'loss': {1}, 'epoch': {2}, 'step': {0}}}\n",
    '{{"step": {0}, "loss": {1}, "lr": {2}}}\n',
    "iteration {0}/ {0} | elapsed time per iteration (ms): {1} | lm loss: {2} |\n",
    "  3%|▎         | {0}/{0} [00:01<00:30, {1}it/s, loss={2}]\r",
    "step,loss,accuracy\n{0},{1},{2}\n",
    "val_loss {1} at {0}\n",
    "{0}\n",
)
"""What a user's own program prints, to be filled with numbers."""
PIECES = (
    *("a", " ", "\t", "\n", "\r", "1", "9", ".", ",", "=", ":", "|", "[", "(", "{", '"', "-", "%"),
    *("\x1b]", "\x1b[", "\x1b", "\x9b", "1 ", "a=1 ", "a: 1, ", "loss ", "loss=", "1e", "/", "\\"),
    *(
        "step ",
        "epoch",
        "it/s ",
        "Error: ",
        "Traceback (most recent call last):\n",
        "  File ",
        "\0",
    ),
    *("e\u0301", "漢", "\ud83d", "\u200b", "rank 1", "node1: ", "state: ", "Thread ", "'a': 1, "),
)
"""What long texts consist of: reading one must take time that is linear in its length."""
PACKED = 0.9
"""How often the columns of a block are packed numbers."""
LENGTHS = (10_000, 100_000)
"""How long they are. Printing, and checking, an object per line of longer ones takes too long."""
LONG = 0.005
"""How often a text is a long one."""
OTHERS: tuple[Any, ...] = (
    *(None, True, False, "1", "x", 1.5, math.nan, 10**30, -(10**400), [], [1], [[]], {}, {"a": 1}),
    *([None], ["\x1b"], [math.nan], [[1, 2, 3]], list(range(3_000)), {"reason": {}}, "x" * 70_000),
)
"""What may stand where another type belongs."""


@dataclass
class World:
    """What plausible values are drawn from: a run of so many hosts and ranks, and how far it is.
    `time` is that of the host's clock."""

    hosts: int
    ranks: int
    own: tuple[int, ...] = (0,)
    """The ranks of the host that speaks."""
    step: int = 0
    time: float = 1_000.0
    attempt: int = 0


class Drawer:
    """Draws objects of dataclasses. Of each value, `strange` is how likely it is one at the bounds
    of its type."""

    def __init__(self, random: Random, strange: float) -> None:
        self.random = random
        self.strange = strange

    def object(self, kind: type[Any], world: World) -> Object:
        """Draw all fields of a dataclass."""
        drawn = {name: draw(self, world) for name, draw in _fields(kind)}
        if kind is StepBlock and self.random.random() < PACKED:
            drawn |= self._packed_steps(world)
        return drawn

    def _packed_steps(self, world: World) -> Object:
        """Draw the steps of a block. Their numbers may be out of bounds, as a host may lie."""
        steps = [self.object(StepFinished, world) for _ in range(self.random.randrange(1, 7))]
        floats = {name: [float(step[name]) for step in steps] for name in FLOAT_COLUMNS}
        integers = {name: [int(step[name]) % 2**62 for step in steps] for name in INTEGER_COLUMNS}
        times = [world.time + self.random.uniform(-1.0, 1.0) for _ in steps]
        columns = StepColumns(self.rank(world), times, **floats, **integers)  # type: ignore[arg-type]
        return to_object(pack_columns(columns))

    def spoiled(self, data: Object) -> Object:
        """Draw the object with one value of another type, without one, or with one too many."""
        name = self.random.choice(list(data))
        how = self.random.randrange(6)
        if how == 0:
            return {key: value for key, value in data.items() if key != name}
        if how == 1:
            return data | {self.random.choice(("unknown", "", "\x1b", "event ")): self.other()}
        return data | {name: self.other()}

    def other(self) -> Any:
        """Draw a value that fits no field."""
        if self.random.random() < 0.05:
            return nested(self.random.choice((10, 100, 400)), self.random)
        return self.random.choice(OTHERS)

    def is_strange(self) -> bool:
        """Draw whether the next value is one at the bounds."""
        return self.random.random() < self.strange

    # Values of a type

    def int(self, world: World) -> int:
        """Draw a whole number."""
        return self.random.choice(INTS) if self.is_strange() else self.random.randrange(1_000)

    def float(self, world: World) -> float:
        """Draw a number."""
        if self.is_strange():
            return self.random.choice(FLOATS)
        return self.random.expovariate(1.0)

    def bool(self, world: World) -> bool:
        """Draw yes or no."""
        return self.random.random() < 0.5

    def str(self, world: World) -> str:
        """Draw a text."""
        if self.is_strange():
            return self.random.choice(TEXTS)
        return self.random.choice(("cpu", "gloo", "node1", "stderr", "stdout", "x", "10.0.0.1", ""))

    # Values of a field

    def rank(self, world: World) -> int:
        """Draw a rank, mostly one of the host's."""
        if self.is_strange():
            return self.random.choice((-1, 0, world.ranks - 1, world.ranks, *INTS))
        return self.random.choice(world.own)

    def step(self, world: World) -> int:
        """Draw a step, mostly the next one."""
        if self.is_strange():
            return self.random.choice(INTS)
        return max(0, world.step + self.random.choice((0, 1, 1, 1, 1, 2, -3, 50)))

    def epoch(self, world: World) -> int:
        """Draw an epoch."""
        return self.random.choice(INTS) if self.is_strange() else 1 + world.step // 10

    def seconds(self, world: World) -> float:
        """Draw the seconds of something."""
        if self.is_strange():
            return self.random.choice(FLOATS)
        return self.random.expovariate(5.0)

    def host(self, world: World) -> int:
        """Draw a host by number."""
        if self.is_strange():
            return self.random.choice((-1, -2, world.hosts, *INTS))
        return self.random.randrange(world.hosts)

    def hosts(self, world: World) -> Sequence[int]:
        """Draw several hosts."""
        return self._several(world.hosts)

    def ranks(self, world: World) -> Sequence[int]:
        """Draw several ranks."""
        return self._several(world.ranks)

    def _several(self, of: int) -> Sequence[int]:
        if self.is_strange():
            return [self.random.choice((0, -1, of, *INTS)) for _ in range(self.random.randrange(4))]
        return sorted(self.random.sample(range(of), self.random.randint(1, of)))

    def percent(self, world: World) -> float:
        """Draw a share of 100."""
        return self.random.choice(FLOATS) if self.is_strange() else self.random.uniform(0.0, 100.0)

    def text(self, world: World) -> str:
        """Draw what a rank prints."""
        if self.random.random() < LONG:
            return self.long_text()
        if self.random.random() < 0.5:
            return self.str(world)
        numbers = [str(self.float(world)) for _ in range(2)]
        return self.random.choice(PRINTED).format(self.step(world), *numbers)

    def long_text(self) -> str:
        """Draw a long text of few pieces, again and again."""
        piece = "".join(self.random.choices(PIECES, k=self.random.choice((1, 1, 2, 3))))
        length = self.random.choice(LENGTHS)
        text = piece * (length // len(piece))
        return self.random.choice((text, "x" + text, text + self.str(World(1, 1))))

    def stream(self, world: World) -> str:
        """Draw where it prints that."""
        if self.is_strange():
            return self.random.choice(TEXTS)
        return self.random.choice(("stdout", "stderr", "stderr", f"{FILE}metrics.csv"))

    def cores(self, world: World) -> float:
        """Draw a number of cores that a host may have, mostly."""
        return self.random.choice((0.01, 0.5, 1.0, 4.0, 64.0, 65_536.0, self.float(world)))

    def confusion(self, world: World) -> list[list[int]]:
        """Draw a confusion matrix, mostly a square one."""
        size = self.random.choice((0, 0, 1, 2, 10, 100 if self.is_strange() else 3))
        rows = [[self.int(world) for _ in range(size)] for _ in range(size)]
        return rows[:-1] if self.is_strange() else rows

    def interfaces(self, world: World) -> list[Any]:
        """Draw the interfaces of a host."""
        address = self.str(world) if self.is_strange() else "10.0.0.1"
        length = self.int(world) if self.is_strange() else 24
        return [[self.str(world), address, length]] * self.random.randrange(3)

    def size(self, world: World) -> int:
        """Draw a size in bytes."""
        return self.random.choice((0, 1, 10**9, 2**40, 2**63 - 1, self.int(world)))


Draw = Callable[[Drawer, World], Any]
DRAWERS_BY_FIELD: dict[str, Draw] = {
    **dict.fromkeys(("step", "saved_step", "resumed"), Drawer.step),
    **dict.fromkeys(("seconds", "data", "compute", "sync", "ready", "cpu_seconds"), Drawer.seconds),
    **dict.fromkeys(("memory", "memory_free", "memory_used", "memory_total"), Drawer.size),
    **dict.fromkeys(("disk_free", "size", "clock", "clock_most"), Drawer.size),
    **dict.fromkeys(("use", "load"), Drawer.percent),
    "rank": Drawer.rank,
    "host": Drawer.host,
    "hosts": Drawer.hosts,
    "same": Drawer.hosts,
    "ranks": Drawer.ranks,
    "text": Drawer.text,
    "stream": Drawer.stream,
    "cores": Drawer.cores,
    "confusion": Drawer.confusion,
    "interfaces": Drawer.interfaces,
}
"""How the fields of this name are drawn, in all events: a name that has another type in another one
cannot be here."""
TYPED: dict[Any, Draw] = {
    int: Drawer.int,
    float: Drawer.float,
    bool: Drawer.bool,
    str: Drawer.str,
}


@cache
def _fields(kind: type[Any]) -> list[tuple[str, Draw]]:
    """Return the JSON key of each field of a dataclass, and how its value is drawn."""
    hints = get_type_hints(kind)
    return [(key, _of_field(name, hints[name])) for name, key in wire_keys(kind).items()]


def _of_field(name: str, hint: Any) -> Draw:
    if name == "epoch" and hint is int:
        return Drawer.epoch
    return DRAWERS_BY_FIELD.get(name) or _of_type(hint)


def _of_type(hint: Any) -> Draw:
    if hint in TYPED:
        return TYPED[hint]
    if is_dataclass(hint):
        return lambda drawer, world: drawer.object(hint, world)  # type: ignore[arg-type]
    if get_origin(hint) is tuple:
        return _of_tuple(get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        (inner,) = (_of_type(one) for one in get_args(hint) if one is not NoneType)
        return lambda drawer, world: None if drawer.is_strange() else inner(drawer, world)
    if issubclass(hint, Enum):
        words = [one.value for one in hint]
        return lambda drawer, _: drawer.random.choice(words)
    raise TypeError(hint)


def _of_tuple(hints: tuple[Any, ...]) -> Draw:
    parts = [_of_type(hint) for hint in hints if hint is not Ellipsis]
    if Ellipsis not in hints:
        return lambda drawer, world: [part(drawer, world) for part in parts]

    def draw(drawer: Drawer, world: World) -> list[Any]:
        most = drawer.random.choice((0, 1, 2, 4, 200 if drawer.is_strange() else 4))
        return [parts[0](drawer, world) for _ in range(most)]

    return draw


def nested(depth: int, random: Random) -> Any:
    """Lists and objects in each other, so deep."""
    found: Any = 1
    for _ in range(depth):
        found = [found] if random.random() < 0.5 else {"a": found}
    return found

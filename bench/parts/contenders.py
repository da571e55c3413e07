"""The jobs that are compared with the plain DDP program, in time and in loss: VGG-11 on CIFAR-10,
four ranks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from training.agent.host.system import cpu_flags, lacks_bf16

RANKS = 4
REFERENCE = "reference"
"""The name of the plain program in orders and results."""
COMMON = (
    "--model",
    "vgg11",
    "--batch-size",
    "256",
    "--lr",
    "0.1",
    "--momentum",
    "0.9",
    "--weight-decay",
    "0.0001",
)
GIGABIT, SLOW = "1gbit", "100mbit"


@dataclass(frozen=True)
class Contender:
    """A job by its flags. `bounds`: the links at which it is timed, and what its median ratio to
    the plain program may be there at most, with its whole interval (0: whatever it is)."""

    name: str
    flags: tuple[str, ...]
    bounds: Mapping[str, float] = field(default_factory=dict)

    def words(self) -> tuple[str, ...]:
        """The arguments of `python -m training`, without those of the data."""
        return (*COMMON, *self.flags)


def _contender(
    name: str, flags: str, bounds: Mapping[str, float] = MappingProxyType({})
) -> Contender:
    return Contender(name, tuple(flags.split()), bounds)


POWER_SGD = (
    "--sync ddp --sync-option compression=powersgd --sync-option rank=4 --sync-option start=2"
)
CONTENDERS = (
    _contender("ddp", "--sync ddp", {GIGABIT: 1.02, SLOW: 0}),
    _contender("all_reduce", "--sync all_reduce", {GIGABIT: 0.93}),
    _contender("ring", "--sync ring", {GIGABIT: 0.93}),
    _contender("bf16-ddp", "--sync ddp --precision bf16", {GIGABIT: 0.6}),
    _contender("bf16-all_reduce", "--sync all_reduce --precision bf16", {GIGABIT: 0.6}),
    _contender("bf16-ring", "--sync ring --precision bf16", {GIGABIT: 0.6}),
    _contender("none", "--sync none", {GIGABIT: 0}),
    _contender(
        "ddp-bf16",
        "--sync ddp --sync-option compression=bf16 --sync-option bucket_mb=10",
        {SLOW: 0.6},
    ),
    _contender("ddp-powersgd", POWER_SGD, {SLOW: 0.4}),
    _contender("local_sgd", "--sync local_sgd --sync-option every=8", {SLOW: 0.4}),
)


def cpu() -> str:
    """This machine's CPU, and which of the instructions that matter it has."""
    cpuinfo = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in cpuinfo.splitlines()
            if line.startswith("model name")
        ),
        "unknown",
    )
    return f"CPU: {model}; instructions: {', '.join(cpu_flags()) or 'not known'}"


def able(contenders: Sequence[Contender]) -> list[Contender]:
    """Those whose figures mean something on this CPU, which is printed: not bf16 where the CPU has
    no instructions for it."""
    print(cpu(), flush=True)
    slow = [
        contender
        for contender in contenders
        if lacks_bf16(cpu_flags()) and "--precision bf16" in " ".join(contender.flags)
    ]
    if slow:
        names = ", ".join(contender.name for contender in slow)
        print(f"left out, as this CPU has no bf16 instructions: {names}", flush=True)
    return [contender for contender in contenders if contender not in slow]


def chosen(names: Sequence[str], added: Sequence[str] = (), link: str = "") -> list[Contender]:
    """Those of these names (without any: all of the link), and those of `added`, each as "NAME
    FLAGS". Ends the program where there is no such name."""
    known = {contender.name: contender for contender in CONTENDERS}
    if unknown := [name for name in names if name not in known]:
        raise SystemExit(
            f"no contender {unknown[0]!r} (known: {', '.join(known)}); --add 'NAME --sync …' "
            "makes one"
        )
    default = [contender for contender in CONTENDERS if link in contender.bounds]
    listed = [known[name] for name in names] if names or added else default
    return [
        *listed,
        *(_contender(name, flags) for name, _, flags in (text.partition(" ") for text in added)),
    ]

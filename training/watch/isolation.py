"""Finds out whether a rank exchanges anything with others while it trains, or trains alone."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .exchange import Exchange

PATIENCE = 20
"""Steps without an exchange after which a rank trains alone."""
SHARED_MODEL = 0.5
"""A rank that has exchanged this share of its model's bytes before its first step shares the model
with others, however seldom it exchanges later."""
OTHER_LIBRARIES = ("mpi4py.MPI", "horovod.torch")
"""Modules by which a program may exchange what this watch does not see."""
WEB_PORTS = {80, 443}
"""Ports of connections that only fetch files."""
ESTABLISHED = "01"
"""The state of a connection in the tables of Linux."""
DRIVERS = (
    ("lightning", ("lightning.pytorch", "pytorch_lightning")),
    ("fabric", ("lightning.fabric", "lightning_fabric")),
    ("accelerate", ("accelerate", "transformers.trainer")),
)
"""Frameworks that call an optimiser, with their modules. A Trainer of Lightning uses Fabric, too,
so it comes first."""


@dataclass
class Isolation:
    """What a rank's event `Isolation` reports; the names are its fields."""

    steps: int
    has_group: bool
    driver: str
    over: bool = False


class IsolationWatch:
    """Finds out whether the rank trains alone: `PATIENCE` steps, and nothing exchanged. What is
    exchanged in an evaluation, such as the sum of correct answers, does not count."""

    def __init__(self, exchange: Exchange, report: Callable[[Isolation], None]) -> None:
        self._exchange = exchange
        self._report = report
        self.restart()

    def restart(self) -> None:
        """Forget all steps: this is another process."""
        self._reported: Isolation | None = None
        self._is_settled = False
        self._steps = 0
        self._calls_at_step = 0
        self._sequence: object = None

    def connect(self) -> None:
        """Note that the rank exchanges parts of its model, or may do so unseen."""
        self._is_settled = True
        if self._reported:
            self._reported.over = True
            self._report(self._reported)
            self._reported = None

    def step(self, optimizer: Any, *, has_evaluated: bool) -> None:
        """Note that a step ends. `has_evaluated`: an evaluation was in it."""
        if self._is_settled:
            self._exchange.is_counting = False
            return
        calls = self._exchange.calls_with_data
        has_called = calls != self._calls_at_step
        self._calls_at_step = calls
        is_first = self._steps == 0
        self._steps += 1
        if is_first:
            # What came before is no exchange of gradients, but may have been the model.
            shares_model = self._exchange.bytes >= SHARED_MODEL * model_bytes(optimizer)
        else:
            shares_model = has_called and not has_evaluated
        if shares_model:
            self.connect()
        elif self._steps <= PATIENCE:
            self._look(is_first=is_first, has_evaluated=has_evaluated)

    def _look(self, *, is_first: bool, has_evaluated: bool) -> None:
        """Look for what no hook sees, as collectives that C++ calls. At last, judge."""
        sequence = sequence_numbers()
        has_moved = sequence != self._sequence
        self._sequence = sequence
        if sequence is None or (has_moved and not is_first and not has_evaluated):
            self.connect()
        elif self._steps == PATIENCE:
            if world_size() < 2 or (not sequence and has_other_ways()):
                self.connect()
                return
            self._reported = Isolation(PATIENCE, bool(sequence), find_driver())
            self._report(self._reported)


def model_bytes(optimizer: Any) -> int:
    """Return the bytes of the parameters of an optimiser."""
    model_parameters = [
        parameter for group in optimizer.param_groups for parameter in group["params"]
    ]
    sizes: list[int] = [
        parameter.numel() * parameter.element_size() for parameter in model_parameters
    ]
    return sum(sizes)


def _groups() -> Any:
    """Return the process groups of this process."""
    module = sys.modules.get("torch.distributed.distributed_c10d")
    return [] if module is None else list(module._world.pg_map)


def sequence_numbers() -> tuple[int, ...] | None:
    """Return how many collectives each process group has begun: also those that C++ code calls, as
    DDP does. Empty without a group; None if they are not known."""
    try:
        # A rank that is no member of a group has a placeholder for it.
        members = [group for group in _groups() if hasattr(group, "size")]
        return tuple(group._get_sequence_number_for_group() for group in members)
    except Exception:  # noqa: BLE001 - a backend may have none, and torch may change
        return None


def world_size() -> int:
    """Return how many ranks there are, by the environment or by a process group."""
    number = os.environ.get("WORLD_SIZE", "")
    sizes: list[int] = [group.size() for group in _groups() if hasattr(group, "size")]
    return max([int(number) if number.isdigit() else 1, *sizes])


def find_driver() -> str:
    """Return the framework that calls the optimiser; "" for a loop of the program's own."""
    modules = set[str]()
    frame = sys._getframe()
    while frame.f_back:
        frame = frame.f_back
        modules.add(f"{frame.f_globals.get('__name__', '')}.")
    for driver, names in DRIVERS:
        if any(module.startswith(f"{name}.") for module in modules for name in names):
            return driver
    return ""


def has_other_ways() -> bool:
    """Return True if the process may exchange something by other means than torch.distributed: by
    MPI, or a connection of its own. It says True where it cannot tell."""
    if any(name in sys.modules for name in OTHER_LIBRARIES):
        return True
    try:
        return bool(_peer_ports() - WEB_PORTS)
    except (OSError, ValueError, IndexError):
        return True


def _peer_ports() -> set[int]:
    """Return the ports of the peers with which this process has TCP connections. Raises: OSError,
    and ValueError or IndexError for a table that is not as on Linux."""
    inodes = set[str]()
    for file in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # it was closed meanwhile, as that of the list itself
            inodes.add(os.readlink(f"/proc/self/fd/{file}").replace("socket:", "").strip("[]"))
    ports = set[int]()
    for table in ("/proc/self/net/tcp", "/proc/self/net/tcp6"):
        with open(table) as lines:
            for fields in map(str.split, list(lines)[1:]):
                peer, state, inode = fields[2], fields[3], fields[9]
                if state == ESTABLISHED and inode in inodes:
                    ports.add(int(peer.rpartition(":")[2], 16))
    return ports

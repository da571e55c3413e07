"""A table of cases of synchronised training: real ranks that run them, and one plain process that
they have to equal.

`main` is a process that reads the cases from a file. It forks the ranks of a world, which run the
world's cases one after another with the real `Trainer`, each case in process groups of its own;
each rank writes what came out of a case to a file as soon as it has it. When a rank fails, its
world's ranks are killed and new ones forked, which go on with the next case.
"""

from __future__ import annotations

import copyreg
import ctypes
import gc
import math
import os
import pickle
import signal
import socket
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any, ClassVar
from unittest.mock import patch

import psutil
import torch
from torch import distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from training import loop, models, registry, reports
from training.agent.host.processes import die_with
from training.datasets import Images
from training.job import Job
from training.loop import Trainer
from training.models import lenet5
from training.place import Place
from training.shard import Shard, take_share
from training.wire.events import Event
from training.wire.rank_events import Drifted, StepFinished

SEED = 5
SAMPLES, BATCH = 34, 10
"""Four steps an epoch, of 10, 10, 10 and 4 samples: they divide neither by 3 nor by 4."""
CLASSES, SIZE = 3, 5
CASES, ENDED = "cases", "ended"
"""The file of the cases, and the file that says that no more outcomes come."""


@dataclass(frozen=True)
class Case:
    """A few steps of a method with its options, on `world` ranks; `hosts`: how many of them each
    host has (default: one host).

    `net` is one of NETS. `wire`: the type of gradients that travel, where it is not the
    parameters'. `fault`: one of FAULTS.
    """

    sync: str
    options: tuple[str, ...] = ()
    world: int = 1
    hosts: tuple[int, ...] = ()
    net: str = "odd"
    steps: int = 5
    accumulate: int = 1
    batch_norm: str = "broadcast"
    wire: str = ""
    fault: str = ""

    def __str__(self) -> str:
        words = [
            self.sync,
            *self.options,
            "+".join(map(str, self.hosts)),
            self.net,
            self.wire,
            self.fault,
        ]
        words += [f"accumulate={self.accumulate}"] * (self.accumulate > 1) + [self.batch_norm] * (
            self.net == "norm"
        )
        return ",".join([*filter(None, words), f"world={self.world}"])

    def job(self) -> Job:
        """What is trained; the model and the data set are not the job's."""
        return Job(
            sync=self.sync,
            sync_option=self.options,
            steps=self.steps,
            batch_size=BATCH,
            accumulate=self.accumulate,
            lr=0.05,
            momentum=0.9,
            weight_decay=0.1 if NETS[self.net].dtype == torch.float64 else 1e-4,
            batch_norm=self.batch_norm,
            seed=SEED,
            log_every=2,
        )

    def places(self) -> list[Place]:
        """Where the ranks are."""
        hosts = self.hosts or (self.world,)
        where = [(host, local) for host, ranks in enumerate(hosts) for local in range(ranks)]
        return [
            Place(rank, local, self.world, hosts[host], host)
            for rank, (host, local) in enumerate(where)
        ]


class Net(nn.Module):
    """A net of odd sizes with parameters of all sorts. `dead` is used by nobody, `frozen` needs no
    gradient, `empty` has no element, `first` is used for the samples of training rank 0 only, and
    of those in some steps only unless it is `always`.

    `rows`: which of its samples training rank 0 takes; none on the others.
    """

    def __init__(
        self, norm: bool = False, dead: bool = True, first: bool = True, always: bool = False
    ) -> None:
        super().__init__()
        self.always = always
        self.rows: slice | None = None
        self.conv = nn.Conv2d(2, 5, 3)
        self.norm = nn.BatchNorm2d(5) if norm else nn.Identity()
        self.hidden = nn.Linear(5 * 9, 7)
        self.out = nn.Linear(7, CLASSES)
        self.scale = nn.Parameter(torch.tensor(1.5))
        self.frozen = nn.Parameter(torch.randn(CLASSES), requires_grad=False)
        self.empty = nn.Parameter(torch.empty(0, CLASSES))
        self.dead = nn.Parameter(torch.ones(4, CLASSES)) if dead else None
        self.first = nn.Linear(7, CLASSES, bias=False) if first else None

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        hidden = self.hidden(self.norm(self.conv(pixels)).tanh().flatten(1)).tanh()
        logits: torch.Tensor = self.out(hidden) * self.scale + self.frozen + self.empty.sum(0)
        if (
            self.first is not None
            and self.rows is not None
            and (self.always or pixels[0, 0, 0, 0] > 0)
        ):
            more = torch.zeros_like(logits)
            more[self.rows] = self.first(hidden[self.rows])
            logits = logits + more
        return logits


@dataclass(frozen=True)
class Recipe:
    """How to make a net, in which precision, and the shape of its images."""

    make: Callable[[], nn.Module]
    dtype: torch.dtype = torch.float64
    shape: tuple[int, int, int] = (2, SIZE, SIZE)

    def net(self) -> nn.Module:
        """A net, with weights in the order that is fast for convolutions."""
        return self.make().to(self.dtype).to(memory_format=torch.channels_last)  # type: ignore[call-overload,no-any-return]

    def images(self) -> Images:
        """Samples for it, always the same."""
        pixels = torch.randint(
            256,
            (SAMPLES, *self.shape),
            generator=torch.Generator().manual_seed(1),
            dtype=torch.uint8,
        )
        if self.dtype == torch.float32:  # something that can be learnt
            pixels[torch.arange(SAMPLES) % CLASSES == 0, :, ::2] //= 4
        ones = (0.5,) * self.shape[0]
        kind = Fine if self.dtype == torch.float64 else Images
        return kind(pixels, torch.arange(SAMPLES) % CLASSES, CLASSES, ones, ones)


class Fine(Images):
    """Images in double precision."""

    def batch(
        self, indices: torch.Tensor, device: torch.device
    ) -> tuple[torch.Tensor, torch.Tensor]:
        pixels, labels = super().batch(indices, device)
        return pixels.double(), labels


NETS = {
    "odd": Recipe(Net),
    "uneven": Recipe(lambda: Net(dead=False, always=True)),
    "common": Recipe(lambda: Net(first=False)),
    "norm": Recipe(lambda: Net(norm=True, first=False)),
    "wide": Recipe(
        lambda: nn.Sequential(
            nn.Flatten(), nn.Linear(50, 1000), nn.Tanh(), nn.Linear(1000, 1000), nn.Linear(1000, 3)
        ),
        torch.float32,
    ),
    "lenet": Recipe(lambda: lenet5.build(1, CLASSES), torch.float32, (1, 32, 32)),
}
"""`common`: all ranks use the same parameters. `uneven`: training rank 0 uses all parameters, the
others do not."""


@dataclass
class Outcome:
    """What came out of a case, on one rank or in one process.

    `gradients`: as the first step found them where this rank stepped, else None; `last`: as the
    last step did. `losses` (steps,): mean over `samples`, the own ones of each step. `payload`:
    bytes sent in all steps, by the method's own account; `sent`: those that left the host
    meanwhile. `waited`: seconds in which it waited for others. `drift`: the ranks' own comparisons
    that found a difference. `calls`: how often each function of `torch.distributed` was called,
    and how DDP was made; `largest`: the most bytes that each got at once. `error`: the traceback
    of a failure.
    """

    parameters: dict[str, torch.Tensor] = field(default_factory=dict)
    buffers: dict[str, torch.Tensor] = field(default_factory=dict)
    gradients: dict[str, torch.Tensor | None] | None = None
    last: dict[str, torch.Tensor | None] | None = None
    losses: list[float] = field(default_factory=list)
    samples: list[int] = field(default_factory=list)
    payload: int = 0
    sent: int = 0
    waited: float = 0.0
    drift: list[Drifted] = field(default_factory=list)
    trainers: int = 1
    calls: Counter[str] = field(default_factory=Counter)
    largest: dict[str, int] = field(default_factory=dict)
    error: str = ""

    def keep(self, net: nn.Module) -> None:
        """The net's parameters, as they are now."""
        self.parameters = {name: p.detach().clone().cpu() for name, p in net.named_parameters()}

    def watch(self, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Have each step tell the gradients that it finds."""

        def found(*_: Any) -> None:
            grads = {name: p.grad for name, p in net.named_parameters()}
            self.last = {
                name: None if g is None else g.detach().clone().cpu() for name, g in grads.items()
            }
            self.gradients = self.gradients or self.last

        optimizer.register_step_pre_hook(found)


# One process --------------------------------------------------------------------------------------


def alone(case: Case, trainers: int, joined: bool) -> list[Outcome]:
    """What one process comes to with torch alone: on whole batches (`joined`), or on the ranks'
    shares one after the other, each with the same weights and its own buffers. One outcome for each
    rank that trains; they differ in their buffers only.
    """
    job, recipe = case.job(), NETS[case.net]
    images, sizes = recipe.images(), Shard(SAMPLES, BATCH, case.accumulate, SEED, 0, 1)
    torch.manual_seed(SEED)
    net = recipe.net()
    if case.net == "norm" and case.batch_norm == "untracked":
        net.norm = nn.BatchNorm2d(5, track_running_stats=False, dtype=recipe.dtype)
    optimizer = torch.optim.SGD(
        net.parameters(), job.lr, job.momentum, weight_decay=job.weight_decay
    )
    outcomes = [Outcome() for _ in range(1 if joined else trainers)]
    outcomes[0].watch(net, optimizer)
    for outcome in outcomes:
        outcome.buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}
    for number in range(case.steps):
        group = next(sizes.groups(number // sizes.steps + 1, number % sizes.steps))
        optimizer.zero_grad()
        for index, outcome in enumerate(outcomes):
            shares = (
                group.shares
                if joined
                else [take_share(batch, index, trainers) for batch in group.shares]
            )
            net.rows = slice(0, None, trainers) if joined else slice(None) if index == 0 else None  # type: ignore[assignment]
            add_gradients(net, images, shares, group.size, outcome)
        optimizer.step()
    for outcome in outcomes:
        outcome.keep(net)
    return outcomes


def add_gradients(
    net: nn.Module, images: Images, shares: Iterable[torch.Tensor], size: int, outcome: Outcome
) -> None:
    """The part of these samples in the gradient of a group of `size`, with the outcome's own
    buffers."""
    for name, buffer in net.named_buffers():
        buffer.copy_(outcome.buffers[name])
    total, samples = 0.0, 0
    for indices in shares:
        pixels, labels = images.batch(indices, torch.device("cpu"))
        loss = cross_entropy(net(pixels), labels, reduction="sum")
        (loss / size).backward()  # type: ignore[no-untyped-call]
        total, samples = total + loss.item(), samples + len(indices)
    outcome.losses.append(total / samples)
    outcome.samples.append(samples)
    outcome.buffers = {name: buffer.clone() for name, buffer in net.named_buffers()}


# Faults -------------------------------------------------------------------------------------------


def wrong_mean(trainer: Any, world: int) -> AbstractContextManager[None]:
    """The sum over N ranks is divided by N - 1."""
    reduce = trainer.method.reduce

    def wrong() -> None:
        reduce()
        for parameter in trainer.net.parameters():
            if parameter.grad is not None:
                parameter.grad *= world / (world - 1)

    trainer.method.reduce = wrong
    return nullcontext()


def zero_filled(trainer: Any, world: int) -> AbstractContextManager[None]:
    """A parameter that nobody used gets a gradient of zeros."""
    reduce = trainer.method.reduce

    def wrong() -> None:
        reduce()
        for parameter in trainer.net.parameters():
            if parameter.requires_grad and parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)

    trainer.method.reduce = wrong
    return nullcontext()


def skipped(name: str, number: int) -> Callable[[Any, int], AbstractContextManager[None]]:
    """What the `number`-th call of a function of torch.distributed received is thrown away, on
    every rank."""

    def lose(trainer: Any, world: int) -> AbstractContextManager[None]:
        real, given = getattr(distributed, name), list[torch.Tensor]()

        def wrong(tensor: torch.Tensor, *words: Any, **more: Any) -> Any:
            given.append(tensor.clone() if len(given) == number else tensor)
            return real(given[-1], *words, **more)

        return patch.object(distributed, name, wrong)  # type: ignore[return-value]

    return lose


def nudged(trainer: Any, world: int) -> AbstractContextManager[None]:
    """A parameter of the last rank is changed a little after each step."""
    step = trainer.method.step

    def wrong(optimizer: torch.optim.Optimizer) -> None:
        step(optimizer)
        if distributed.get_rank() == world - 1:
            with torch.no_grad():
                optimizer.param_groups[0]["params"][0] += 1e-3

    trainer.method.step = wrong
    return nullcontext()


def not_a_number(trainer: Any, world: int) -> AbstractContextManager[None]:
    """After the second step, those of the last rank are no numbers; its next gradients make those
    of all ranks so."""
    step, number = trainer.method.step, count(1)

    def wrong(optimizer: torch.optim.Optimizer) -> None:
        step(optimizer)
        if next(number) == 2 and distributed.get_rank() == world - 1:
            with torch.no_grad():
                optimizer.param_groups[0]["params"][0] *= math.nan

    trainer.method.step = wrong
    return nullcontext()


FAULTS: dict[str, Callable[[Any, int], AbstractContextManager[None]]] = {
    "": lambda *_: nullcontext(),
    "divided by N-1": wrong_mean,
    "zero-filled": zero_filled,
    "all_reduce skipped": skipped("all_reduce", 2),
    "segment skipped": skipped("irecv", 2),
    "nudged": nudged,
    "not a number": not_a_number,
}
"""What is made wrong with the method of a trainer of `world` ranks, once it is prepared."""


# Ranks --------------------------------------------------------------------------------------------

COUNTED = (
    *("all_reduce", "reduce", "broadcast", "all_gather_into_tensor", "reduce_scatter_tensor"),
    *("isend", "irecv", "send", "recv", "batch_isend_irecv"),
)
"""The functions of `torch.distributed` whose calls are counted."""


@contextmanager
def counted(outcome: Outcome) -> Iterator[None]:
    """Count what the method calls, with the size of what it passes."""

    def count_calls(name: str) -> Callable[..., Any]:
        real = getattr(distributed, name)

        def counting(*words: Any, **more: Any) -> Any:
            outcome.calls[name] += 1
            outcome.calls[f"{name}, async"] += bool(more.get("async_op"))
            tensors = [word for word in words if isinstance(word, torch.Tensor)]
            sizes = [tensor.nbytes for tensor in tensors]
            outcome.largest[name] = max([outcome.largest.get(name, 0), *sizes])
            return real(*words, **more)

        return counting

    make_ddp = DistributedDataParallel.__init__

    def making_ddp(ddp: DistributedDataParallel, module: nn.Module, **options: Any) -> None:
        for name, value in options.items():
            outcome.calls[f"DDP({name}={value})"] += 1
        make_ddp(ddp, module, **options)

    with ExitStack() as patches:
        for name in COUNTED:
            patches.enter_context(patch.object(distributed, name, count_calls(name)))
        patches.enter_context(patch.object(DistributedDataParallel, "__init__", making_ddp))
        yield


@contextmanager
def substitutes(case: Case, rank: int, said: list[Event]) -> Iterator[None]:
    """The case's net in place of the job's model, other weights on each rank to begin with, and
    nothing on stdout."""
    load = registry.load_module
    on_cpu = not torch.cuda.is_initialized()
    seed = torch.default_generator.manual_seed if on_cpu else torch.manual_seed

    def build(name: str, shape: tuple[int, int, int], classes: int) -> nn.Module:
        net = NETS[case.net].net()
        with torch.no_grad():
            for parameter in net.parameters():
                parameter += rank
        return net

    def found(folder: str, name: str) -> Any:
        module = load(folder, name)
        if folder == "sync" and case.wire:
            return SimpleNamespace(
                Method=lambda options, _: module.Method(options, getattr(torch, case.wire))
            )
        return module

    with (
        patch.object(models, "build", build),
        # torch's own keeps a traceback of each call, for each kind of device that is not in use
        patch.object(torch, "manual_seed", seed),
        patch.object(registry, "load_module", found),
        patch.object(loop, "emit", said.append),
        patch.object(reports, "emit", said.append),
        patch.object(loop, "print_line", lambda _: None),
        patch.object(reports, "print_line", lambda _: None),
    ):
        yield


class OutcomePickler(pickle.Pickler):
    """Writes tensors as arrays of numpy: `torch.save` calls Python for every object in between."""

    dispatch_table: ClassVar[dict[type, Any]] = {
        **copyreg.dispatch_table,
        torch.Tensor: lambda tensor: (torch.from_numpy, (tensor.numpy(),)),
    }


def play(case: Case, place: Place, device: torch.device) -> Outcome:
    """The case, as this rank. The process group exists."""
    outcome, said = Outcome(), list[Event]()
    images = NETS[case.net].images()
    with substitutes(case, place.rank, said), counted(outcome), ExitStack() as faults:
        trainer = Trainer(case.job(), place, device, images, images)
        outcome.trainers = trainer.shard.world_size
        outcome.watch(trainer.net, trainer.optimizer)
        faults.enter_context(FAULTS[case.fault](trainer, place.world_size))
        first = trainer.trains and trainer.shard.rank == 0
        trainer.net.rows = slice(None) if first else None  # type: ignore[assignment]
        distributed.barrier()
        before = bytes_out()
        while trainer.step < trainer.schedule.steps:
            if trainer.trains:
                trainer.train_epoch()
            else:
                trainer.serve_epoch()
        distributed.barrier()
        outcome.sent = bytes_out() - before
        outcome.keep(trainer.net)
        trainer.settle()
        if not trainer.traits.exact:
            outcome.keep(trainer.net)
    outcome.buffers = {name: buffer.clone().cpu() for name, buffer in trainer.net.named_buffers()}
    steps = [event for event in said if isinstance(event, StepFinished)]
    outcome.losses, outcome.samples = (
        [step.loss for step in steps],
        [step.samples for step in steps],
    )
    outcome.payload, outcome.waited = (
        sum(step.bytes_sent for step in steps),
        sum(step.sync for step in steps),
    )
    outcome.drift = [event for event in said if isinstance(event, Drifted)]
    return outcome


def bytes_out() -> int:
    """What has left this host by the interface that Gloo uses, headers and all."""
    counters = psutil.net_io_counters(pernic=True).get(os.environ.get("GLOO_SOCKET_IFNAME", ""))
    return counters.bytes_sent if counters else 0


@dataclass(frozen=True)
class World:
    """The ranks of one size, and where they leave what came out; `address` is rank 0's."""

    size: int
    cases: tuple[Case, ...]
    folder: Path
    backend: str
    patience: timedelta
    address: str = "127.0.0.1"

    def run(self) -> None:
        """All cases, with new ranks after each that fails."""
        todo = self.cases
        while todo:
            self._run(todo)
            failed = [
                case
                for case in todo
                if any(found is None or found.error for found in outcomes(self.folder, case))
            ]
            todo = todo[todo.index(failed[0]) + 1 :] if failed else ()

    def _run(self, cases: tuple[Case, ...]) -> None:
        """Ranks that run the cases, until all have ended or one has failed."""
        with listening() as (descriptor, port):
            pids = {
                fork(lambda rank=rank: self.rank(rank, cases, descriptor, port))
                for rank in range(self.size)
            }  # type: ignore[misc]
        while pids:
            pid, status = os.wait()
            pids.remove(pid)
            if status:
                for other in pids:
                    os.kill(other, signal.SIGKILL)

    def rank(self, rank: int, cases: Iterable[Case], descriptor: int | None, port: int) -> None:
        """The cases, as this rank, up to one that fails. `descriptor`: of a socket that listens for
        rank 0's store."""
        torch.set_num_threads(1)
        store = distributed.TCPStore(  # type: ignore[attr-defined]
            self.address,
            port,
            self.size,
            is_master=rank == 0,
            wait_for_workers=False,
            master_listen_fd=descriptor if rank == 0 else None,
        )
        for case in cases:
            outcome = self.attempt(case, case.places()[rank], store)
            path = files(self.folder, case)[rank]
            new = path.with_name(f"{path.name}.new")
            with new.open("wb") as file:
                OutcomePickler(file).dump(outcome)
            new.rename(path)
            if outcome.error:
                return sys.exit(1)
        store.add("ended", 1)
        while rank == 0 and store.add("ended", 0) < self.size:  # the store is rank 0's
            time.sleep(0.005)
        return None

    def attempt(self, case: Case, place: Place, store: Any) -> Outcome:
        """What comes out of a case, be it an error."""
        device = torch.device("cuda", place.rank) if self.backend == "nccl" else torch.device("cpu")
        store = distributed.PrefixStore(str(case), store)  # type: ignore[attr-defined]
        try:
            if self.backend == "nccl":
                torch.cuda.set_device(device)
            distributed.init_process_group(
                self.backend,
                store=store,
                rank=place.rank,
                world_size=place.world_size,
                timeout=self.patience,
            )
            outcome = play(case, place, device)
            distributed.destroy_process_group()
        except Exception:  # noqa: BLE001 - the test shows it
            return Outcome(error=traceback.format_exc())
        gc.collect()
        return outcome


@contextmanager
def listening() -> Iterator[tuple[int, int]]:
    """A listening socket for a world's store: its descriptor and port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.fileno(), listener.getsockname()[1]


def fork(what: Callable[[], object]) -> int:
    """Does something in a process of its own: its id."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        die_with(parent)
        what()
    except BaseException as error:  # noqa: BLE001 - printed, as the interpreter would
        if not isinstance(error, SystemExit):
            traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def files(folder: Path, case: Case) -> list[Path]:
    """Where each rank leaves what came out of a case."""
    return [folder / f"{case}.{rank}" for rank in range(case.world)]


def outcomes(folder: Path, case: Case) -> list[Outcome | None]:
    """What each rank has left; None where it has not, or not yet."""
    return [
        pickle.loads(path.read_bytes()) if path.exists() else None for path in files(folder, case)
    ]


def main(folder: Path, backend: str, patience: timedelta) -> None:
    """Runs the cases that are in the folder, the small worlds first."""
    with (folder / CASES).open("rb") as file:
        cases = given(file)
    try:
        for size in sorted({case.world for case in cases}):
            World(
                size, tuple(case for case in cases if case.world == size), folder, backend, patience
            ).run()
    finally:
        (folder / ENDED).touch()


def given(file: IO[bytes]) -> tuple[Case, ...]:
    """The cases that stand in a file; all is loaded that they need."""
    import torch._dynamo  # noqa: F401 - before any fork: DistributedDataParallel and the optimisers import it

    cases: list[Case] = pickle.load(file)
    gc.collect()
    gc.freeze()  # so that ranks need not look through all of torch for garbage
    return tuple(cases)


def on_hosts(networks: Sequence[int], address: str, folder: Path, patience: timedelta) -> None:
    """Runs the cases that stand on stdin, all of one world, with one rank in each network, which
    are descriptors of namespaces."""
    cases = given(sys.stdin.buffer)
    world = World(len(networks), cases, folder, "gloo", patience, address)

    def run(rank: int) -> None:
        if ctypes.CDLL(None).setns(networks[rank], 0):
            raise OSError(f"rank {rank} cannot enter its network")
        world.rank(rank, cases, None, PORT)

    pids = [fork(lambda rank=rank: run(rank)) for rank in range(len(networks))]  # type: ignore[misc]
    for pid in pids:
        os.waitpid(pid, 0)


def command_on_hosts(
    cases: Iterable[Case], folder: Path, patience: float, networks: Sequence[int], address: str
) -> tuple[list[str], bytes]:
    """The arguments and the stdin of a process that runs the cases, with one rank on each host of a
    lab. Rank 0's is at `address`."""
    call = (
        f"on_hosts({list(networks)!r}, {address!r}, Path({str(folder)!r}), "
        f"timedelta(seconds={patience}))"
    )
    return [sys.executable, "-c", CALL.format(call)], pickle.dumps(list(cases))


PORT = 29_500
CALL = (
    f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); "
    f"from tests.kit.sync_ranks import *; "
    f"{{}}"
)
"""What is pickled is of this module, which is therefore imported and not run."""

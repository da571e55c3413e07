"""What is hooked in torch: each of its modules, once it has been imported."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from threading import get_ident
from types import ModuleType
from typing import Any

from .exchange import Exchange
from .gradients import GradientWatch
from .inject import inject
from .isolation import IsolationWatch
from .losses import LossWatch
from .meetings import POINT_TO_POINT, Meetings, read_address, read_place
from .report import WatchReport
from .spans import Spans
from .steps import Steps
from .waits import COLLECTIVES, REMOTE_CALLS, TRANSFERS, WaitingMethod, WaitWatch

Locals = dict[str, Any]
REQUIRED_MODULES = ("torch.autograd", "torch.optim.optimizer")
"""If one of these cannot be hooked, the watch ends; without another one, it sees less."""
FUNCTIONS = {
    "torch.autograd": (
        ("backward", "_backward", "_backward_ended"),
        ("grad", "_losses.forget_scaling", ""),
    ),
    "torch.utils.data.dataloader": (("_BaseDataLoaderIter.__next__", "_load", "_loaded"),),
    "torch.nn.parallel.distributed": (
        ("DistributedDataParallel.__init__", "_meet_in_ddp", "_watch_gradients"),
        ("DistributedDataParallel._distributed_broadcast_coalesced", "_waits.begin", "_waits.end"),
    ),
    "torch.cuda.streams": (
        ("Stream.wait_event", "_waits.begin_for_stream", "_waits.end"),
        ("Stream.wait_stream", "_waits.begin_for_stream", "_waits.end"),
    ),
}
"""Functions by their module, with the methods of `Hooks` to call before and after each."""
PROCESSES = "multiprocessing.process"
GROUPS = "torch.distributed.distributed_c10d"
REMOTE = "torch.distributed.rpc"
LEADER_PATIENCE = 16
"""Steps of another optimiser, after which it leads."""


class LeadingOptimizer:
    """Finds out which optimiser makes the steps of the run. In a GAN each optimiser makes one per
    iteration, so only the first one counts."""

    def __init__(self) -> None:
        self._leader: weakref.ref[Any] | None = None
        self._steps_of_others = 0

    def is_leading(self, optimizer: Any) -> bool:
        """Return True if a step of this optimiser, which ends now, is one of the run."""
        leader = self._leader and self._leader()
        if leader is not optimizer:
            self._steps_of_others += 1
            if leader is not None and self._steps_of_others < LEADER_PATIENCE:
                return False
            self._leader = weakref.ref(optimizer)
        self._steps_of_others = 0
        return True


class Hooks:
    """Tells `steps` what happens in torch. The first failure while torch runs ends the watch."""

    def __init__(self, steps: Steps, report: WatchReport) -> None:
        self._steps = steps
        self._report = report
        self._losses = LossWatch(steps)
        self._gradients = GradientWatch(self._make_safe(steps.gradient))
        self._spans = Spans(steps.clock, self._is_training)
        self._waits = WaitWatch(steps, self._spans)
        self._exchange = Exchange(report.collectives)
        self._isolation = IsolationWatch(self._exchange, report.isolation)
        self._meetings = Meetings(report.entered)
        self._thread = get_ident()
        self._open_passes = 0
        self._backward_count = self._backwards_at_step = 0
        self._leading_optimizer = LeadingOptimizer()
        self._joining_hook_by_module: dict[str, Callable[[ModuleType], None]] = {
            PROCESSES: self._hook_processes,
            GROUPS: self._hook_groups,
            REMOTE: self._hook_remote_groups,
        }
        self._hook_by_module: dict[str, Callable[[ModuleType], None]] = {
            "torch.autograd": self._hook_functions,
            "torch.optim.optimizer": self._hook_steps,
            "torch.utils.data.dataloader": self._hook_functions,
            "torch.nn.modules.module": self._hook_modes,
            GROUPS: self._hook_collectives,
            f"{REMOTE}.api": self._hook_remote_calls,
            "torch.nn.parallel.distributed": self._hook_functions,
            "torch.amp.grad_scaler": self._hook_scaling,
            "torch.cuda.amp.grad_scaler": self._hook_scaling,
            "torch.distributed.fsdp.sharded_grad_scaler": self._hook_scaling,
            "torch.cuda.streams": self._hook_functions,
        }

    def look(self) -> None:
        """Hook what has been imported since. As long as this process is silent, that is only what
        may make it a worker."""
        self._hook_imported(self._joining_hook_by_module)
        if self._report.on:
            self._hook_imported(self._hook_by_module)

    def _hook_imported(self, hook_by_module: dict[str, Callable[[ModuleType], None]]) -> None:
        """Hook the modules that have been imported, and take them out."""
        for name in [*hook_by_module]:
            module = sys.modules.get(name)
            if not module or not has_been_imported(module):
                continue
            hook_module = hook_by_module.pop(name, None)
            if not hook_module:
                continue
            try:
                hook_module(module)
            except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
                self._report.failed(error, f"cannot watch {name}", ends=name in REQUIRED_MODULES)

    def end(self) -> None:
        """Report the last steps and collectives, as the program ends."""
        self._make_safe(self._steps.report)()
        self._make_safe(self._exchange.report)()

    # Processes

    def _hook_processes(self, module: ModuleType) -> None:
        """See what a process of multiprocessing raises. From Python 3.13 on, `_end_process` is
        called when that is forgotten."""
        note_error = self._make_safe(lambda _: self._report.note_error(), also_silent=True)
        inject(vars(module)["BaseProcess"].run, None, note_error)

    # Process groups

    def _hook_groups(self, module: ModuleType) -> None:
        hooks = (self._make_safe(hook, also_silent=True) for hook in (self._joining, self._joined))
        inject(vars(module)["init_process_group"], *hooks)

    def _joining(self, variables: Locals) -> None:
        """Take in that this process begins to join a process group, and so may be a worker."""
        place = read_place(variables, os.environ)
        if place:
            self._join(*place)
        if self._report.on:
            address = read_address(variables, os.environ)
            self._meet("init_process_group", address=address)

    def _joined(self, _: Locals) -> None:
        """Take in that this process may have joined a process group."""
        self._meetings.end()
        groups = vars(sys.modules[GROUPS])
        if groups["is_initialized"]():  # otherwise, it has failed to
            self._join(groups["get_rank"](), groups["get_world_size"]())

    def _hook_remote_groups(self, module: ModuleType) -> None:
        if "init_rpc" in vars(module):  # not in each build of torch
            begin_joining = self._make_safe(lambda _: self._meet("init_rpc"))
            end_joining = self._make_safe(self._joined_remote, also_silent=True)
            inject(vars(module)["init_rpc"], begin_joining, end_joining)

    def _joined_remote(self, variables: Locals) -> None:
        """Take in that this process may have joined a group of torch.distributed.rpc. If it is in a
        process group as well, its rank there counts."""
        self._meetings.end()
        has_joined = vars(sys.modules[REMOTE])["_is_current_rpc_agent_set"]()
        is_in_group = vars(sys.modules[GROUPS])["is_initialized"]()
        rank, world_size = variables["rank"], variables["world_size"]
        # A group without a fixed size has no ranks.
        if has_joined and not is_in_group and rank >= 0 and world_size:
            self._join(rank, world_size)

    def _join(self, rank: int, world_size: int) -> None:
        """Begin to watch this process if it was silent until now: it may be a fork of one that has
        made steps, or exchanged something."""
        if not self._report.join(rank, world_size):
            return
        self._thread = get_ident()
        self._open_passes = 0
        self._steps.restart()
        self._exchange.restart()
        self._isolation.restart()
        self._meetings.restart()
        self.look()
        # Processes of multiprocessing call no function of atexit.
        multiprocessing_util = sys.modules.get("multiprocessing.util")
        if multiprocessing_util:
            vars(multiprocessing_util)["Finalize"](None, self._end_process, exitpriority=-100)

    def _end_process(self) -> None:
        self.end()
        self._report.close()

    def _make_safe(
        self, hook: Callable[..., None], *, also_silent: bool = False
    ) -> Callable[..., None]:
        """Return the hook in a form that raises nothing, and ends the watch if it fails. It does
        nothing in code that is compiled instead of executed, nor in a process that is silent,
        unless it is for that as well."""

        def safe(*arguments: Any) -> None:
            if not is_compiling() and (self._report.on or also_silent):
                try:
                    hook(*arguments)
                except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
                    self._report.failed(error)

        return safe

    def _is_training(self) -> bool:
        """Return True if this is the thread that trains, or one that does its backward pass."""
        return self._open_passes > 0 or get_ident() == self._thread

    def _hook_functions(self, module: ModuleType) -> None:
        """Hook the functions of a module that `FUNCTIONS` names."""
        for path, before, after in FUNCTIONS[module.__name__]:
            function = attrgetter(path)(module)
            safe_hooks = (
                self._make_safe(attrgetter(hook)(self)) if hook else None
                for hook in (before, after)
            )
            inject(function, *safe_hooks)

    # Backward passes

    def _backward(self, variables: Locals) -> None:
        steps = self._steps
        steps.flush()
        self._open_passes += 1
        if self._open_passes > 1:  # within another one, as by a checkpoint
            return
        self._backward_count += 1
        steps.begin()
        steps.resume()
        steps.backward()
        self._losses.begin_backward(variables)

    def _backward_ended(self, _: Locals) -> None:
        self._open_passes -= 1
        if not self._open_passes:
            self._gradients.passed(told=self._steps.backward_ended())

    # Steps

    def _hook_steps(self, module: ModuleType) -> None:
        vars(module)["register_optimizer_step_post_hook"](self._make_safe(self._stepped))

    def _stepped(self, optimizer: Any, *_: Any) -> None:
        """Count a step of the run when the leading optimiser makes one. Without a backward pass
        since the last step, it is a further part of that step."""
        self.look()
        if not self._leading_optimizer.is_leading(optimizer):
            return
        backward_count = self._backward_count
        if backward_count == self._backwards_at_step != 0:
            return
        self._backwards_at_step = backward_count
        self._thread = get_ident()
        self._isolation.step(optimizer, has_evaluated=bool(self._steps.lap.pauses))
        self._steps.end()

    # Batches and evaluations

    def _load(self, _: Locals) -> None:
        steps = self._steps
        steps.begin()
        steps.flush()
        if sys.modules["torch"].is_grad_enabled():
            steps.may_resume()
        else:
            steps.pause()
        self._spans.begin()

    def _loaded(self, variables: Locals) -> None:
        load_begin = self._spans.end()
        if load_begin is not None:
            self._steps.loaded(load_begin, samples_of(variables.get("data")))
        if "data" not in variables:
            self._steps.loads_ended()

    def _hook_modes(self, module: ModuleType) -> None:
        """Take as an evaluation the time from `eval()` of a module until its `train()`, or until
        the load of the next batch that is trained on."""
        cls = vars(module)["Module"]
        inject(cls.eval, self._make_safe(lambda variables: self._steps.pause(variables["self"])))
        inject(cls.train, self._make_safe(self._train), condition=self._steps.pauses)

    def _train(self, variables: Locals) -> None:
        if variables["mode"]:
            self._steps.trains(variables["self"])

    # Waits for other ranks

    def _hook_collectives(self, module: ModuleType) -> None:
        end_wait = self._make_safe(self._collective_ended)
        end_meeting = self._make_safe(self._meeting_ended)
        module_members = vars(module)
        for name in COLLECTIVES:
            if name in module_members:
                begin_call = self._make_safe(partial(self._collective, name))
                end_call = end_wait if name in POINT_TO_POINT else end_meeting
                inject(module_members[name], begin_call, end_call)
        for name in TRANSFERS:
            inject(module_members[name], self._make_safe(partial(self._exchange.add, name)))
        work_class = module_members.get("Work")
        if work_class:
            begin_wait = self._make_safe(partial(self._collective, "", {}))
            work_class.wait = WaitingMethod(work_class.wait, begin_wait, end_wait)

    def _meeting_ended(self, _: Locals) -> None:
        self._waits.end()
        if self._exchange.is_counting:
            self._exchange.end()
            self._meetings.end()

    def _meet_in_ddp(self, variables: Locals) -> None:
        group = variables.get("process_group") or variables.get("device_mesh")
        self._meet("DistributedDataParallel", group)

    def _meet(self, name: str, group: Any = None, address: str = "") -> None:
        if not self._steps.step_count:
            self._meetings.begin(name, group, address)

    def _hook_remote_calls(self, module: ModuleType) -> None:
        end_call = self._make_safe(self._exchange.end)
        for name in REMOTE_CALLS:
            begin_call = self._make_safe(partial(self._exchange.begin, name))
            inject(vars(module)[name], begin_call, end_call)

    def _collective(self, name: str, variables: Locals) -> None:
        """Note that a collective begins; without a name, a wait for one."""
        # A step may have hundreds: once they are not counted any more, each costs the least.
        if self._exchange.is_counting:
            if name and name not in POINT_TO_POINT:
                self._meet(name, variables.get("group"))
            self._exchange.begin(name, variables)
        self._waits.begin()

    def _collective_ended(self, _: Locals | None = None) -> None:
        self._waits.end()
        if self._exchange.is_counting:
            self._exchange.end()

    def _watch_gradients(self, variables: Locals) -> None:
        self._meetings.end()
        self._gradients.watch(variables["self"])
        self._isolation.connect()

    def _hook_scaling(self, module: ModuleType) -> None:
        for module_class in [*vars(module).values()]:
            is_scaler = (
                isinstance(module_class, type) and module_class.__module__ == module.__name__
            )
            if is_scaler and "scale" in vars(module_class):
                inject(module_class.scale, self._make_safe(self._losses.note_scaling))


def has_been_imported(module: ModuleType) -> bool:
    """Return True if the body of a module has run: it is in `sys.modules` before."""
    return not getattr(module.__spec__, "_initializing", False)


def is_compiling() -> bool:
    """Return True if the code that runs is compiled, by `torch.compile`, instead of executed."""
    torch = sys.modules.get("torch")
    ask_torch = getattr(getattr(torch, "compiler", None), "is_compiling", None)  # not in torch 2.0
    return ask_torch is not None and ask_torch()


def samples_of(batch: Any) -> int:
    """Return the samples of a batch: the length of the first tensor in it, or of the tuple of
    tensors that comes first, as of images of different sizes. 0 if there is none, or it does not
    tell."""
    try:
        tensor = sys.modules["torch"].Tensor
        for depth in range(4):
            if isinstance(batch, tensor):
                return int(batch.shape[0]) if batch.dim() else 0
            if isinstance(batch, Mapping):
                batch = next(iter(batch.values()), None)
            elif isinstance(batch, (list, tuple)) and batch:
                if (
                    depth
                    and type(batch) is tuple
                    and all(isinstance(part, tensor) for part in batch)
                ):
                    return len(batch)
                batch = batch[0]
            else:
                break
    except Exception:  # noqa: BLE001 - a class of the program's own may raise whatever it likes
        pass
    return 0

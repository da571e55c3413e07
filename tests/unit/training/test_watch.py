"""The parts of the watch, without torch: steps, the pipe, functions whose code is changed."""

from __future__ import annotations

import ast
import fcntl
import inspect
import os
import resource
import select
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.kit.rank_reports import read_report
from training.place import EVENTS_FD, PROCESS
from training.watch import gloo
from training.watch import report as reports
from training.watch.clock import Clock
from training.watch.gradients import MOST_LEARNT, GradientWatch
from training.watch.hooks import Hooks
from training.watch.inject import CannotInject, inject
from training.watch.losses import LossWatch
from training.watch.meetings import MOST_MEETINGS, Meetings, read_address, read_place
from training.watch.report import MOST, Program, WatchReport
from training.watch.spans import Spans
from training.watch.steps import MOST as MOST_ENTRIES
from training.watch.steps import Step, Steps
from training.watch.waits import WaitingMethod
from training.wire.enums import Phase
from training.wire.events import PREFIX, WORKER
from training.wire.rank_events import Entered
from training.wire.rank_events import StepFinished as Told
from training.wire.records import Record

FOLDER = Path(reports.__file__).parent


class Seconds(Clock):
    """A clock that is set by hand."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 100.0

    def now(self) -> float:
        return self.time

    def wait(self, seconds: float) -> float:
        """When that began."""
        begun, self.time = self.time, self.time + seconds
        return begun


class Later:
    """A point in time as a GPU has them: it can be read once it has passed."""

    def __init__(self, seconds: float, passed: bool) -> None:
        self.seconds, self.passed = seconds, passed

    def query(self) -> bool:
        return self.passed

    def elapsed_time(self, other: Later) -> float:
        return 1000 * (other.seconds - self.seconds)


@pytest.fixture
def clock() -> Seconds:
    return Seconds()


@pytest.fixture
def told() -> list[Step]:
    return []


@pytest.fixture
def steps(clock: Seconds, told: list[Step]) -> Steps:
    made = Steps(told.extend, clock, gather=0)
    made.begin()
    return made


# Steps


def test_a_step_of_ddp(steps: Steps, clock: Seconds, told: list[Step]) -> None:
    steps.loaded(clock.wait(1), 8)
    steps.waited(clock.wait(0.5))  # rank 0's buffers
    clock.wait(2)
    steps.backward()
    steps.lost(4.0)
    clock.wait(3)
    steps.gradient()
    clock.wait(0.25)
    steps.gradient()
    steps.waited(clock.wait(1))  # by a communication hook, within the wait of the pass
    clock.wait(4)
    assert steps.backward_ended()
    clock.wait(0.5)
    steps.end()
    (step,) = told
    assert (step.seconds, step.data, step.sync, step.compute) == (12.25, 1, 5.5, 5.75)
    assert step.ready == 1 + 2 + 3.25
    assert (step.step, step.loss, step.samples) == (1, 4.0, 8)


def test_collectives_after_the_backward_pass(
    steps: Steps, clock: Seconds, told: list[Step]
) -> None:
    clock.wait(2)
    steps.backward()
    clock.wait(1)
    assert not steps.backward_ended()
    steps.waited(clock.wait(5))
    steps.end()
    assert (told[0].ready, told[0].sync, told[0].seconds) == (3, 5, 8)


def test_ready_is_all_that_is_no_wait_where_nothing_tells_of_gradients(
    steps: Steps, clock: Seconds, told: list[Step]
) -> None:
    clock.wait(2)
    steps.waited(clock.wait(5))
    steps.end()
    clock.wait(1)
    steps.end()
    assert [step.ready for step in told] == [2, 1]
    assert [step.loss for step in told] == [None, None]


def test_what_was_before_the_first_step_is_no_part_of_it(clock: Seconds, told: list[Step]) -> None:
    steps = Steps(told.extend, clock, gather=0)
    steps.waited(clock.wait(60))
    steps.begin()
    clock.wait(1)
    steps.begin()
    steps.end()
    assert (told[0].seconds, told[0].sync) == (1, 0)


def test_an_evaluation_from_before_the_first_step_begins_with_it(
    clock: Seconds, told: list[Step]
) -> None:
    steps = Steps(told.extend, clock, gather=0)
    model = Model()
    steps.waited(clock.wait(60))
    steps.pause(model)
    clock.wait(30)
    steps.begin()
    clock.wait(1)
    steps.trains(model)
    steps.waited(clock.wait(2))
    steps.end()
    assert (told[0].seconds, told[0].sync) == (2, 2)


def test_an_evaluation_is_taken_out_with_all_that_was_in_it(
    steps: Steps, clock: Seconds, told: list[Step]
) -> None:
    steps.pause()
    steps.loaded(clock.wait(10), 100)
    steps.waited(clock.wait(10))
    steps.may_resume()
    steps.loaded(clock.wait(1), 8)
    clock.wait(2)
    steps.resume()
    steps.backward()
    steps.backward_ended()
    steps.end()
    (step,) = told
    assert (step.seconds, step.data, step.sync, step.ready, step.samples) == (3, 1, 0, 3, 8)


def test_what_does_not_end_before_the_backward_pass_was_no_evaluation(
    steps: Steps, clock: Seconds, told: list[Step]
) -> None:
    steps.pause()
    clock.wait(3)
    steps.resume()
    steps.end()
    assert told[0].seconds == 3


def test_an_evaluation_of_a_loader_may_end_with_it(
    steps: Steps, clock: Seconds, told: list[Step]
) -> None:
    """Unless an `eval()` began it: that ends with a `train()`."""
    for model in (None, Model()):
        steps.pause(model)
        steps.loaded(clock.wait(10), 100)
        steps.loads_ended()
        clock.wait(2)
        steps.resume()
        steps.end()
    assert [step.seconds for step in told] == [2, 12]


def test_an_evaluation_ends_with_the_training_of_its_model_only(
    steps: Steps, clock: Seconds, told: list[Step]
) -> None:
    model = Model()
    steps.pause(model)
    clock.wait(1)
    steps.trains(Model())
    clock.wait(2)
    steps.trains(model)
    clock.wait(4)
    steps.end()
    assert told[0].seconds == 4


def test_pauses_do_not_pile_up(steps: Steps) -> None:
    """A change of a model's mode costs next to nothing where there is none."""
    pauses = steps.pauses
    for _ in range(3):
        steps.pause(Model())
        steps.pause()
        assert len(pauses) == 1
        steps.end()
        assert pauses == []


@pytest.mark.parametrize("entry", ["load", "wait", "loss"])
def test_a_program_without_steps_takes_no_more_and_more_memory(
    entry: str, steps: Steps, clock: Seconds, told: list[Step]
) -> None:
    steps.pause()
    steps.backward()
    steps.gradient()
    for _ in range(MOST_ENTRIES + 1):
        begin = clock.wait(1)
        if entry == "load":
            steps.loaded(begin, 1)
        elif entry == "wait":
            steps.waited(begin)
        else:
            steps.lost(3.0)
    lap = steps.lap
    assert (lap.loads, lap.waits, lap.losses, steps.pauses) == ([], [], [], [])
    assert not steps.backward_ended()
    clock.wait(5)
    steps.end()
    assert told[0].seconds == 5


def test_a_long_step_is_told_whole(steps: Steps, clock: Seconds, told: list[Step]) -> None:
    steps.end()
    for _ in range(MOST_ENTRIES + 1):
        steps.loaded(clock.wait(1), 1)
    steps.end()
    assert (told[-1].samples, told[-1].data) == (MOST_ENTRIES + 1, MOST_ENTRIES + 1)


def test_quick_steps_are_told_together(
    clock: Seconds, told: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [1.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    steps = Steps(told.extend, clock, gather=0.5)
    for numbers in ([1], [1], [1], [1, 2, 3, 4]):
        steps.end()
        assert [step.step for step in told] == numbers
        now[0] += 0.2
    steps.end()
    steps.report()
    assert [step.step for step in told] == [1, 2, 3, 4, 5]


def test_on_a_gpu_a_step_is_told_once_it_has_passed(told: list[Step]) -> None:
    class Gpu(Clock):
        def __init__(self) -> None:
            super().__init__()
            self.points: list[Later] = []

        def now(self) -> Later:
            self.points.append(Later(len(self.points), passed=False))
            return self.points[-1]

    clock = Gpu()
    steps = Steps(told.extend, clock, gather=0)
    steps.begin()
    steps.end()
    steps.end()
    assert told == []
    clock.points[1].passed = True
    steps.flush()
    assert [(step.step, step.seconds) for step in told] == [(1, 1)]
    for _ in range(100):
        steps.end()
    for point in clock.points:
        point.passed = True
    steps.flush()
    assert 60 < len(told) < 70
    assert told[-1].step == 102


def test_no_event_is_asked_for_while_a_graph_is_captured(
    told: list[Step], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Event:
        def __init__(self, **_: bool) -> None:
            pass

        def record(self) -> None:
            assert not capturing

        def query(self) -> bool:
            assert not capturing
            return True

        def elapsed_time(self, _: Event) -> float:
            return 1000.0

    capturing: list[bool] = []
    cuda = SimpleNamespace(
        Event=Event,
        current_stream=int,
        is_current_stream_capturing=lambda: bool(capturing),
    )
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))  # type: ignore[arg-type]
    steps = Steps(told.extend, gather=3600)
    steps.clock.use_gpu()
    steps.begin()
    for _ in range(3):
        steps.end()
    capturing.append(True)
    steps.report()
    assert len(told) < 3
    capturing.clear()
    steps.report()
    assert [step.step for step in told] == [1, 2, 3]


def test_the_copy_of_a_loss_is_on_the_host_whatever_the_default_device(
    steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Loss:
        is_cpu, is_cuda, dtype = False, True, "float32"

        def numel(self) -> int:
            return 1

        def is_complex(self) -> bool:
            return False

        def detach(self) -> Loss:
            return self

        def reshape(self, _: tuple[int, ...]) -> Loss:
            return self

        def copy_(self, _: Loss, non_blocking: bool) -> None:
            assert non_blocking

    asked: list[dict[str, Any]] = []
    cuda = SimpleNamespace(is_current_stream_capturing=lambda: False)
    torch = SimpleNamespace(
        cuda=cuda, Tensor=Loss, empty=lambda _, **options: asked.append(options) or Loss()
    )
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    LossWatch(steps).begin_backward({"tensors": Loss()})
    assert asked == [{"dtype": "float32", "device": "cpu", "pin_memory": True}]


# Spans


def test_of_nested_spans_only_the_outermost_counts(clock: Seconds) -> None:
    spans = Spans(clock, lambda: True)
    spans.begin()
    clock.wait(1)
    spans.begin()
    assert spans.end() is None
    assert spans.end() == 100
    assert spans.end() is None  # of one that was begun before all this


def test_spans_of_other_threads_are_their_own(clock: Seconds) -> None:
    spans = Spans(clock, lambda: threading.current_thread() is threading.main_thread())
    found: list[Any] = []
    spans.begin()
    other = threading.Thread(target=lambda: found.append((spans.begin(), spans.end())))
    other.start()
    other.join()
    assert found == [(None, None)]
    assert spans.end() == 100


# The pipe


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def make_report(pipe: int, rank: int, count: int = 4) -> WatchReport:
    """The report of the process that has this pipe."""
    channel = f"{pipe}:{os.getpid()}:{os.fstat(pipe).st_ino}"
    return WatchReport(channel, Program(rank, count))


def a_step(number: int, loss: float | None = 0.5) -> Step:
    return Step(number, 1e9, loss, 8, 4.0, 1.0, 2.0, 1.0, 2.5, 3.0)


def read(pipe: int) -> list[str]:
    return os.read(pipe, 1 << 20).decode().splitlines()


def test_a_step_is_written_as_the_wire_has_it(pipe: tuple[int, int]) -> None:
    from training.wire.events import expand
    from training.wire.host_events import OutputText

    report = make_report(pipe[1], 3)
    report.steps([a_step(7)])
    for loss in (*map(float, ("nan", "inf", "-inf")), None):
        report.steps([a_step(8, loss)])
    report.close()
    text = OutputText(3, "stdout", "\n".join(read(pipe[0])))
    first, second, *more, unknown = (one.event for one in expand(Record(0, 0, 1, 2e9, text)))
    assert first == Told(3, 0, 7, 0.5, 4.0, 1.0, 2.0, 1.0, 2.5, 3.0, 8)
    assert isinstance(second, Told)
    assert second.loss != second.loss
    assert second.loss_known
    assert isinstance(unknown, Told)
    assert unknown.loss != unknown.loss
    assert not unknown.loss_known
    assert [getattr(one, "loss", 0) for one in more] == [float("inf"), float("-inf")]


def test_an_agent_that_does_not_read_holds_nobody_up(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reports, "LAST_WRITE_SECONDS", 0.0)
    report = make_report(pipe[1], 0)
    for number in range(2000):
        report.steps([a_step(number)])
    text = ""
    while block := os.read(pipe[0], 1 << 16).decode() if report._waiting_bytes else "":
        text += block
        report.close()
    text += os.read(pipe[0], 1 << 20).decode()
    numbers = [read_report(line)["step"] for line in text.splitlines()]
    assert numbers == [*range(len(numbers))]
    assert MOST < len(text) < 1 << 20


def test_the_rest_is_written_to_a_pipe_of_any_number(monkeypatch: pytest.MonkeyPatch) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    pipe, end = os.pipe()
    high = fcntl.fcntl(end, fcntl.F_DUPFD, 1024)
    os.close(end)
    report = make_report(high, 0)
    for number in range(2000):
        report.steps([a_step(number)])
    assert report._waiting_bytes
    monkeypatch.setattr(reports, "LAST_WRITE_SECONDS", 0.0)
    report.close()
    os.close(high)
    os.close(pipe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    report.on = False


def test_each_write_is_of_whole_lines_and_none_of_another_process_comes_in_between(
    pipe: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[bytes] = []

    def write(number: int, data: bytes, real: Callable[[int, bytes], int] = os.write) -> int:
        written.append(data)
        return real(number, data)

    monkeypatch.setattr(os, "write", write)
    make_report(pipe[1], 0).steps([a_step(number) for number in range(100)])
    assert len(written) > 1
    assert all(len(data) <= select.PIPE_BUF and data.endswith(b"\n") for data in written)
    assert [read_report(line)["step"] for line in read(pipe[0])] == [*range(100)]


# Workers


def of_worker(line: str) -> Any:
    assert line.startswith(PREFIX + WORKER)
    return read_report(line)


def test_a_process_of_a_larger_group_is_a_worker(pipe: tuple[int, int]) -> None:
    report = make_report(pipe[1], 1, count=2)
    report.join(5, 8)
    report.steps([a_step(1)])
    report.close()
    report.close()
    joined, step, left = map(of_worker, read(pipe[0]))
    assert joined == {"joined": 5, "world_size": 8, "pid": os.getpid()}
    assert (step["event"], step["rank"], step["step"]) == ("step", 5, 1)
    assert left == {"left": 5, "pid": os.getpid(), "error": ""}


def test_a_worker_says_once_where_it_joins_unless_that_changes(pipe: tuple[int, int]) -> None:
    report = make_report(pipe[1], 0, count=1)
    for place in ((1, 4), (1, 4), (2, 4)):  # before and after it waits; then in another group
        assert not report.join(*place)
    assert [of_worker(line)["joined"] for line in read(pipe[0])] == [1, 2]
    report._be_silent()  # as in a fork, which has joined nothing
    assert report.join(2, 4)
    assert of_worker(read(pipe[0])[0])["joined"] == 2
    report.close()
    os.close(report._pipe)


@pytest.mark.parametrize(
    ("arguments", "env", "place"),
    [
        ({"rank": 1, "world_size": 4}, {}, (1, 4)),
        ({"rank": 1, "world_size": 4, "init_method": "tcp://h:1"}, {"RANK": "0"}, (1, 4)),
        (
            {"rank": -1, "world_size": -1, "init_method": None},
            {"RANK": "2", "WORLD_SIZE": "4"},
            (2, 4),
        ),
        ({"rank": 3, "init_method": "env://"}, {"RANK": "2", "WORLD_SIZE": "4"}, (3, 4)),
        ({"init_method": "tcp://h:1?rank=1&world_size=2"}, {}, (1, 2)),
        ({"init_method": "file:///tmp/f?rank=0", "world_size": 2}, {}, (0, 2)),
        ({"init_method": "tcp://h:1"}, {"RANK": "2", "WORLD_SIZE": "4"}, None),
        ({}, {}, None),  # as with MPI
        ({"rank": 4, "world_size": 4}, {}, None),
        ({"rank": "1", "world_size": object()}, {}, None),
    ],
)
def test_the_place_in_a_group_is_known_before_the_others_have_come(
    arguments: dict[str, Any], env: dict[str, str], place: tuple[int, int] | None
) -> None:
    assert read_place(arguments, env) == place


@pytest.mark.parametrize(
    ("arguments", "address"),
    [
        ({"init_method": "tcp://10.10.1.1:9955"}, "10.10.1.1:9955"),
        ({}, "h:1"),
        ({"init_method": "env://"}, "h:1"),
        ({"init_method": "file:///tmp/f"}, ""),
        ({"store": object()}, ""),
    ],
)
def test_it_is_known_where_ranks_meet(arguments: dict[str, Any], address: str) -> None:
    assert read_address(arguments, {"MASTER_ADDR": "h", "MASTER_PORT": "1"}) == address
    assert read_address(arguments, {}) == ("" if address == "h:1" else address)


def test_a_process_of_a_group_as_large_as_the_run_stands_for_the_program(
    pipe: tuple[int, int],
) -> None:
    report = make_report(pipe[1], 1, count=2)
    assert not report.join(0, 2)  # whatever its rank is there
    report.steps([a_step(1)])
    report.close()
    (line,) = read(pipe[0])
    assert read_report(line)["rank"] == 1


def test_a_fork_is_silent_until_it_has_joined_a_group(pipe: tuple[int, int]) -> None:
    report = make_report(pipe[1], 1, count=2)
    report._be_silent()  # as in a fork
    report.steps([a_step(1)])
    assert not report.join(0, 2)  # another one has this rank
    assert not report.on
    assert report.join(1, 2)
    report.steps([a_step(2)])
    report.close()
    stands_in, step = map(read_report, read(pipe[0]))
    assert stands_in == {"stands_in": 1, "pid": os.getpid()}
    assert step["step"] == 2
    os.close(report._pipe)


def test_a_watch_that_has_failed_joins_no_group(pipe: tuple[int, int]) -> None:
    report = make_report(pipe[1], 0)
    report.failed(ValueError())
    assert not report.join(5, 8)
    assert not report.on


def test_a_worker_says_what_it_has_raised_in_one_write(pipe: tuple[int, int]) -> None:
    report = make_report(pipe[1], 0)
    report.join(5, 8)
    try:
        raise ValueError("é" * 10_000 + " at the end")
    except ValueError:
        report.close()
    line = read(pipe[0])[-1]
    assert len(line) < select.PIPE_BUF
    assert of_worker(line)["error"].endswith(" at the end\n")


def test_the_program_is_named_by_the_agent_not_by_a_launcher_within() -> None:
    env = {"RANK": "7", "WORLD_SIZE": "9"}
    assert Program.read(env) == Program(7, 9)
    assert Program.read({**env, PROCESS: "1/2"}) == Program(1, 2)
    assert Program.read({}) == Program(0, 1)


def test_a_failure_is_said_once(pipe: tuple[int, int]) -> None:
    report = make_report(pipe[1], 0)
    for _ in range(2):
        try:
            raise ValueError("two\nlines")
        except ValueError as error:
            report.failed(error)
    report.steps([a_step(1)])
    (line,) = read(pipe[0])
    assert line.startswith("rankboard: the watch has failed, the program continues without it: ")
    assert "ValueError: two lines (test_watch.py:" in line
    assert not report.on


def test_a_torch_without_a_part_that_is_not_needed_is_watched_without(
    pipe: tuple[int, int], steps: Steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    report = make_report(pipe[1], 0)
    hooks = Hooks(steps, report)
    for name, on in (("torch.cuda.streams", True), ("torch.optim.optimizer", False)):
        hook = hooks._hook_by_module[name] if on else hooks._hook_steps
        hooks._hook_by_module = {name: hook}
        other = ModuleType(name)
        other.__spec__ = ModuleSpec(name, None)
        monkeypatch.setitem(sys.modules, name, other)
        hooks.look()
        hooks.look()
        (line,) = read(pipe[0])
        assert line.startswith(
            f"rankboard: cannot watch {name}, the program continues without it: "
        )
        assert report.on == on


def test_another_file_with_the_number_of_the_pipe_is_left_alone(tmp_path: Path) -> None:
    pipe, end = os.pipe()
    report = make_report(end, 0)
    with (tmp_path / "file").open("w") as file:
        os.dup2(file.fileno(), end)
    report.steps([a_step(1)])
    assert not report.on
    assert (tmp_path / "file").read_text() == ""
    with pytest.raises(OSError, match="its pipe is closed"):
        make_report(end, 0)
    os.close(pipe)
    os.close(end)


# Changed functions


class Base:
    def method(self, value: int) -> list[int]:
        return [value]


class Sample(Base):
    """Its methods are changed by the tests."""

    def method(self, value: int, more: int = 1) -> list[int]:
        """Its words."""
        if value < 0:
            raise ValueError("negative")
        found = super().method(value)
        return [*found, more]


def plain(value: int) -> int:
    result = 10 // value
    result += 0
    return result


if plain(1):

    def in_some_builds(value: int) -> int:
        return value + 1


def told_by(function: Any) -> list[tuple[str, dict[str, Any]]]:
    told: list[tuple[str, dict[str, Any]]] = []
    inject(
        function,
        lambda found: told.append(("before", dict(found))),
        lambda found: told.append(("after", dict(found))),
    )
    return told


def test_a_changed_function_does_what_it_did_and_tells_of_it() -> None:
    function, source, words = plain, inspect.getsource(plain), Sample.method.__doc__
    told = told_by(plain)
    assert plain is function
    assert plain(5) == 2
    assert told == [("before", {"value": 5}), ("after", {"value": 5, "result": 2})]
    assert inspect.getsource(plain) == source
    told = told_by(in_some_builds)
    assert in_some_builds(5) == 6
    assert [when for when, _ in told] == ["before", "after"]
    told = told_by(Sample.method)
    sample = Sample()
    assert sample.method(3) == [3, 1]
    assert [found.get("found") for _, found in told] == [None, [3]]
    assert Sample.method.__doc__ == words
    assert Sample.method.__qualname__ == "Sample.method"


def test_a_function_that_is_changed_twice_tells_both() -> None:
    first, second = told_by(plain), told_by(plain)
    first.clear()
    plain(5)
    assert [when for when, _ in first] == [when for when, _ in second] == ["before", "after"]


def test_a_traceback_is_as_it_was() -> None:
    def raised(call: Callable[[], object]) -> str:
        try:
            call()
        except Exception:  # noqa: BLE001
            return traceback.format_exc()
        return ""

    for function, call in (
        (plain, lambda: plain(0)),
        (plain, lambda: plain("x")),  # type: ignore[arg-type]
        (plain, lambda: plain()),  # type: ignore[call-arg]
        (in_some_builds, lambda: in_some_builds("x")),  # type: ignore[arg-type]
        (Sample.method, lambda: Sample().method(-1)),
    ):
        before = raised(call)
        told_by(function)
        assert raised(call) == before != ""


def test_a_condition_keeps_it_quiet() -> None:
    told: list[str] = []
    condition: list[int] = []
    inject(plain, lambda _: told.append("before"), condition=condition)
    plain(1)
    condition.append(1)
    plain(1)
    assert told == ["before"]


def test_what_cannot_be_changed_is_refused() -> None:
    captured = 3

    def closure() -> int:
        return captured

    for function in (closure, len, 3):
        with pytest.raises(CannotInject):
            inject(function, lambda _: None)
    assert closure() == 3


def test_a_method_in_c_tells_when_it_runs_and_is_in_no_traceback() -> None:
    told: list[str] = []

    class Words(list):  # type: ignore[type-arg]
        pop = WaitingMethod(list.pop, lambda: told.append("begin"), lambda: told.append("end"))

    assert Words("ab").pop() == "b"
    assert told == ["begin", "end"]
    with pytest.raises(IndexError) as raised:
        Words().pop()
    assert len(raised.traceback) == 1
    assert told == ["begin", "end"] * 2
    assert Words.pop is list.pop


# The end of a program


def test_threads_of_gloo_get_time_to_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    named, done = threading.Event(), threading.Event()

    def be_gloo() -> None:
        Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(gloo.THREAD)
        named.set()
        done.wait()

    gloo.let_gloo_finish()
    assert slept == []
    thread = threading.Thread(target=be_gloo)
    thread.start()
    named.wait()
    gloo.let_gloo_finish()
    done.set()
    thread.join()
    assert slept == [gloo.LOCK_SECONDS]


# GradientWatch


class Parameter:
    """Of a model without torch."""

    requires_grad = True

    def __init__(self) -> None:
        self.hooks: list[Callable[[Any], None]] = []

    def register_hook(self, hook: Callable[[Any], None]) -> Parameter:
        self.hooks.append(hook)
        return self

    def remove(self) -> None:
        self.hooks.clear()

    def arrive(self) -> None:
        for hook in self.hooks:
            hook(self)


class Model:
    def __init__(self) -> None:
        self.made = [Parameter() for _ in range(4)]

    def parameters(self) -> list[Parameter]:
        return self.made


def test_only_the_gradient_that_came_last_is_heard_from_the_second_pass_on() -> None:
    told: list[int] = []
    gradients, model = GradientWatch(lambda: told.append(1)), Model()
    gradients.watch(model)
    for number in (3, 2, 0, 1):
        model.made[number].arrive()
    gradients.passed(told=True)
    assert len(told) == 4
    assert [len(one.hooks) for one in model.made] == [0, 1, 0, 0]


def test_it_is_learnt_anew_where_the_one_does_not_come() -> None:
    gradients, model = GradientWatch(lambda: None), Model()
    gradients.watch(model)
    for _ in range(MOST_LEARNT + 2):
        for one in model.made:
            one.arrive()
        gradients.passed(told=True)
        gradients.passed(told=False)
    assert [len(one.hooks) for one in model.made] == [0, 0, 0, 1]


def test_a_model_that_the_program_drops_is_forgotten() -> None:
    gradients = GradientWatch(lambda: None)
    gradients.watch(Model())
    gradients.passed(told=True)
    assert gradients._models == []


# What it needs


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_it_is_written_for_python_3_9_and_imports_nothing_of_ours(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))
    imported = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    for node in imported:
        level = getattr(node, "level", 0)
        names = [getattr(node, "module", None)] if isinstance(node, ast.ImportFrom) else []
        names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        for name in filter(None, names):
            assert level or name.split(".")[0] in sys.stdlib_module_names


def test_the_environment_is_that_of_the_agent() -> None:
    text = (FOLDER.parent / "agent" / "ranks" / "site" / "sitecustomize.py").read_text()
    assert text.count(f'"{EVENTS_FD}"') == 2


# Meetings -----------------------------------------------------------------------------------------


def test_of_nested_meetings_the_outermost_is_reported() -> None:
    told: list[tuple[str, str]] = []
    meetings = Meetings(lambda phase, name, _: told.append((phase, name)))
    meetings.end()  # it began before the watch, or was none of all ranks
    meetings.begin("init_process_group")
    meetings.begin("barrier")
    meetings.end()
    assert told == [("joining", "init_process_group")]
    meetings.end()
    meetings.begin("barrier")
    meetings.end()
    assert told[1:] == [("training", ""), ("joining", "barrier"), ("training", "")]


def test_a_program_without_steps_reports_so_many_meetings() -> None:
    told: list[tuple[str, str]] = []
    meetings = Meetings(lambda phase, name, _: told.append((phase, name)))
    for _ in range(2 * MOST_MEETINGS):
        meetings.begin("all_reduce")
        meetings.end()
    assert len(told) == 2 * MOST_MEETINGS
    assert told[-1] == ("training", "")


def test_meetings_of_two_threads_are_apart() -> None:
    told: list[tuple[str, str]] = []
    meetings = Meetings(lambda phase, name, _: told.append((phase, name)))
    meetings.begin("barrier")
    other = threading.Thread(target=meetings.end)
    other.start()
    other.join()
    assert told == [("joining", "barrier")]
    meetings.end()
    assert told[-1] == ("training", "")


def test_a_meeting_is_a_wire_event(pipe: tuple[int, int]) -> None:
    from training.wire.events import expand
    from training.wire.host_events import OutputText

    report = make_report(pipe[1], 3)
    report.entered("joining", "barrier")
    report.entered("training", "")
    report.close()
    text = OutputText(3, "stdout", "\n".join(read(pipe[0])))
    events = [one.event for one in expand(Record(0, 0, 1, 2e9, text))]
    assert events == [Entered(3, Phase.JOINING, "barrier"), Entered(3, Phase.TRAINING)]

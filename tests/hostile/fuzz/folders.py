"""Run directories as somebody may have left them: real ones, with a few things changed."""

from __future__ import annotations

import json
import lzma
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from remote.events import LAUNCHER_EVENTS, Restarted, SessionClosed, Stalled, expand
from remote.plan.plan import Script
from remote.record import layout, marks
from remote.record.snapshots import RunMoment, write_snapshot
from remote.record.step_notes import write_step_note
from tests.hostile.fuzz.drawing import FLOATS, INTS, OTHERS, TEXTS, Drawer, World, nested
from tests.kit.histories import History, block_of, plan, said, stepped
from tests.kit.launches import QUICK, RANKBOARD
from tests.kit.recorded import recorded
from tests.kit.replayed import FOLDER as FIXTURES
from tests.kit.studies import study
from training.agent.layout import CHECKPOINTS, MANIFEST, STEP
from training.wire import events, host_events, rank_events
from training.wire.jsonl import dumps
from training.wire.step_block import StepBlock

RUN, OTHER = "20261120-093000-a-run-3f9a", "20261119-080000-another-run-77aa"
"""The run whose directory is changed, and the one beside it."""
STUDIED = "small.study"
STUDY = """
title = "Two methods"
question = "Which one is faster?"
repetitions = 2
[job]
model = "lenet5"
dataset = "digits"
steps = 12
nodes = 2
[axes]
sync = ["ddp", "ring"]
[compare]
reference = "ddp"
"""
LARGE = 1 << 40
"""Bytes of a file of which readers take a bounded part."""
LONG = 24 << 20
"""Bytes of one that they read to its end."""
NUMBER = re.compile(rb"-?\d+(\.\d+)?")
FIXTURE_LINES = 400
Change = Callable[["Mutation"], None]


# What is changed ----------------------------------------------------------------------------------


def make_templates(into: Path) -> None:
    """Make the folders that are copied and changed, each with a run beside it."""
    for name, make in TEMPLATES.items():
        runs = into / name
        runs.mkdir(parents=True)
        make(runs)
        if not (runs / OTHER).exists():
            _job(runs, OTHER)


def _job(runs: Path, name: str = RUN) -> None:
    """A job that has finished, with tests, checkpoints and samples."""
    of = History(replace(plan(2), run=name))
    for host in range(2):
        of.say(host, _hello(host))
    of.training(24, data=0.01, compute=0.05, sync=0.02, ready=0.06)
    for rank in range(2):
        of.rank(rank, block_of([stepped(rank, step) for step in range(25, 31)], of.now))
    of.rank(0, rank_events.Epoch(0, 1, 10, 1.0, 0.5, 160, 1.0))
    of.rank(0, rank_events.Saved(0, 1, 10, 0.1, 1 << 20))
    of.rank(
        0, rank_events.Evaluated(0, 1, 20, 0.5, 0.75, 4, 0.1, ((2, 0), (1, 1)), classes=("a", "b"))
    )
    for host in range(2):
        of.say(host, host_events.HostSample((50.0, 60.0), 1 << 30, 1 << 33))
        of.rank(host, host_events.RankSample(host, 90.0, 1 << 28), said(host, "a line\nanother"))
    of.done(0, 1).session(SessionClosed())
    folder = recorded(runs, of)
    size = (folder / layout.EVENTS).stat().st_size
    write_snapshot(folder, of.plan, RunMoment(of.state(), expand, size))
    marks.star(folder, True)
    marks.write_note(folder, "a note")
    marks.pin(folder, True)
    write_step_note(folder, 3, "a note at a step")
    marks.write_name(folder, f"called {name[-4:]}")


def _failed(runs: Path) -> None:
    """A job that was restarted, stalled and failed."""
    of = History(replace(plan(3, slots=2), run=RUN))
    of.training(12)
    of.rank(1, said(1, "Traceback (most recent call last):\n  File x\nValueError: no"))
    of.rank(1, host_events.Exited(1, 1))
    of.attempt = 1
    of.session(Restarted((0, 1, 2), "node1, rank 1: ValueError: no"))
    of.training(6)
    of.session(Stalled((0, 1), 31.0))
    of.rank(0, host_events.Stack(0, "faulthandler", "state: S (sleeping)\nThread 0x1:\n"))
    of.rank(2, host_events.Exited(2, -9, "SIGKILL")).session(SessionClosed())
    recorded(runs, of)


def _script(runs: Path) -> None:
    """A program of the user's own, which was left while it ran."""
    work = Script(("train.py", "--lr", "0.1"))
    of = History(replace(plan(2), run=RUN, work=work))
    for rank in range(2):
        of.rank(rank, of.launched(rank), host_events.Spawned(rank, 100 + rank))
    for step in range(1, 30):
        of.rank(0, said(0, f"step {step}/100 loss={2 / step:.3f} lr=0.1", "stdout"))
        of.rank(1, stepped(1, step))
    of.rank(0, host_events.OutputText(0, "file:metrics.csv", "step,acc\n1,0.5\n2,0.6"))
    recorded(runs, of)


def _fixture(runs: Path) -> None:
    """The beginning of a real run, which was left."""
    path = sorted(FIXTURES.glob("slow-hierarchical-*"))[0]
    with lzma.open(path) as file:
        head = json.loads(file.readline())
        lines = [file.readline() for _ in range(FIXTURE_LINES)]
    hosts = len(head["hosts"])
    folder = recorded(runs, History(replace(plan(hosts), run=RUN)))
    (folder / layout.EVENTS).write_bytes(b"".join(lines))


def _study(runs: Path) -> None:
    """A study, and its runs."""
    study(runs, STUDY, lambda trial: 0.1 if trial.work.sync == "ddp" else 0.2)


REAL: dict[str, tuple[str, ...]] = {
    "real-job": (*QUICK, "--steps", "20", "--checkpoint-every", "10"),
    "real-script": ("--", "train.py", "--lr", "0.1"),
}
"""The words of the commands that make real runs, with the files that agents and ranks leave."""
PROGRAM = (
    "for step in range(1, 40):\n    print(f'step {step}/40 loss={2 / step:.3f}', flush=True)\n"
)


def make_real(into: Path) -> None:
    """Make real runs on this machine, beside the templates; this takes some ten seconds."""
    for name, words in REAL.items():
        place = into / name
        place.mkdir(parents=True)
        (place / "train.py").write_text(PROGRAM)
        command = [RANKBOARD, "--local", "2", "--run", *words]
        subprocess.run(command, cwd=place, check=True, capture_output=True, timeout=300)
        runs = place / "runs"
        for path in list(runs.iterdir()):
            path.rename(place / path.name)
        runs.rmdir()
        (place / "train.py").unlink()
        for path in place.rglob("*"):
            if path.is_socket():  # which cannot be copied
                path.unlink()
        _job(place, OTHER)


TEMPLATES: dict[str, Callable[[Path], None]] = {
    "job": _job,
    "failed": _failed,
    "script": _script,
    "fixture": _fixture,
    "study": _study,
}


def _hello(host: int) -> host_events.Hello:
    return host_events.Hello(
        f"node{host + 1}", "me", 7, "3.11.9", "python3", "Linux", f"boot{host}", 4.0, 1 << 33
    )


# How it is changed --------------------------------------------------------------------------------


@dataclass
class Mutation:
    """A copy of a template in `runs`, of which `folder` is changed. `told` says how, change by
    change."""

    runs: Path
    folder: Path
    random: Random
    told: list[str]

    def path(self, *, whole: bool = False) -> Path:
        """Draw a file of the directory; with `whole`, or a folder, or one that is not there."""
        folder = self.folder
        found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
        usual = [path for path in found if path.name in USUAL]
        if whole and self.random.random() < 0.3:
            return folder / self.random.choice(NAMES)
        if not found:
            return folder / self.random.choice(NAMES)
        return self.random.choice(usual if usual and self.random.random() < 0.8 else found)

    def rewrite(self, change: Callable[[bytes], bytes]) -> None:
        """Change the contents of a file."""
        path = self.path()
        with suppress(OSError):
            if path.is_file() and path.stat().st_size < LONG:
                path.write_bytes(change(path.read_bytes()))
        self.told.append(f"{change.__name__} {path.relative_to(self.runs)}")


USUAL = (
    *(layout.PLAN, layout.EVENTS, layout.EVENTS, layout.SUMMARY, "journal.jsonl", "place.json"),
    layout.STEP_CHUNKS,
    *("study.toml", "rank-0.log"),
)
NAMES = (
    *(layout.PLAN, layout.EVENTS, layout.SUMMARY, layout.SIGNATURE, layout.LOCK, layout.LOGS),
    layout.STEP_CHUNKS,
    *(layout.STAR, layout.NOTE, layout.NAME, layout.REPORT, "node", "hosts", "logs/rank-0.log"),
    *(layout.SNAPSHOTS, f"{layout.SNAPSHOTS}/9000"),
    *("plan.part", "study.toml", "journal.jsonl", "place.json", "place.mac", "hosts/node1"),
)


def draw(templates: Path, runs: Path, seed: int) -> Mutation:
    """Make the runs directory of a seed."""
    random = Random(seed)
    made = sorted(path.name for path in templates.iterdir())
    template = random.choice(made)
    shutil.rmtree(runs, ignore_errors=True)
    shutil.copytree(templates / template, runs, symlinks=True)
    folder = runs / RUN
    if template in REAL:
        folder = sorted(path for path in runs.glob("2*") if path.name != OTHER)[0]
    if template == "study":
        folder = random.choice([runs / STUDIED, *sorted(runs.glob("20261123*"))])
    mutation = Mutation(runs, folder, random, [template])
    for _ in range(random.choice((1, 1, 2, 4))):
        random.choice(CHANGES)(mutation)
    return mutation


def _in_bytes(mutation: Mutation) -> None:
    random = mutation.random

    def flipped(data: bytes) -> bytes:
        found = bytearray(data)
        for _ in range(random.choice((1, 3, 30)) if found else 0):
            found[random.randrange(len(found))] = random.randrange(256)
        return bytes(found)

    def cut(data: bytes) -> bytes:
        return data[: random.randrange(len(data) + 1)]

    def garbage(_: bytes) -> bytes:
        return random.choice(
            (b"", b"\0" * 999, b"[" * 100_000, b"9" * 9_999, b"\xff\xfe\xff", random.randbytes(500))
        )

    def joined(data: bytes) -> bytes:
        return data + data[random.randrange(len(data) + 1) :]

    mutation.rewrite(random.choice((flipped, flipped, cut, garbage, joined)))


def _in_lines(mutation: Mutation) -> None:
    random = mutation.random

    def lines_moved(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        for _ in range(random.choice((1, 3, 20)) if lines else 0):
            at, other = random.randrange(len(lines)), random.randrange(len(lines))
            match random.randrange(4):
                case 0:
                    lines[at], lines[other] = lines[other], lines[at]
                case 1:
                    lines.insert(at, lines[other])
                case 2 if len(lines) > 1:
                    del lines[at]
                case _:
                    lines[at] = lines[at][: len(lines[at]) // 2] + lines[other]
        return b"".join(lines)

    mutation.rewrite(lines_moved)


def _in_numbers(mutation: Mutation) -> None:
    random = mutation.random
    words = [str(number).encode() for number in (*INTS, *FLOATS)]
    words += [b"NaN", b"1e999", b"true", b'"x"', b"null", b"[]", b"9" * 30, b"9" * 5_000, b"-0"]

    def numbers(data: bytes) -> bytes:
        found = list(NUMBER.finditer(data))
        for one in sorted(
            random.sample(found, min(len(found), random.choice((1, 3, 20)))),
            key=lambda one: -one.start(),
        ):
            data = data[: one.start()] + random.choice(words) + data[one.end() :]
        return data

    mutation.rewrite(numbers)


def _in_objects(mutation: Mutation) -> None:
    """A value of the JSON of a file, or of a line of it, becomes another one."""
    random = mutation.random

    def values(data: bytes) -> bytes:
        lines = data.split(b"\n") if b"}\n{" in data else [data]
        for _ in range(random.choice((1, 3))):
            at = random.randrange(len(lines))
            with suppress(ValueError, RecursionError):
                whole = json.loads(lines[at])
                lines[at] = dumps(_changed(whole, random)).encode("utf-8", "backslashreplace")
        return b"\n".join(lines)

    mutation.rewrite(values)


def _changed(whole: Any, random: Random) -> Any:
    """The value with one value inside of it replaced, removed or repeated."""
    places = list(_places(whole))
    if not places:
        return random.choice(OTHERS)
    holder, key = random.choice(places)
    match random.randrange(5):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, list):
            holder[key:key] = [holder[key]] * random.choice((1, 5_000))
        case 2:
            holder[key] = random.choice((*INTS, *FLOATS))
        case 3:
            holder[key] = random.choice((*TEXTS, nested(random.choice((5, 300)), random)))
        case _:
            holder[key] = random.choice(OTHERS)
    return whole


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """All places in a value: what holds it, and its key there."""
    keys = value.keys() if isinstance(value, dict) else ()
    for key in keys or (range(len(value)) if isinstance(value, list) else ()):
        yield value, key
        yield from _places(value[key])


def _with_records(mutation: Mutation) -> None:
    """Lines of records that anybody may have written come between."""
    random = mutation.random
    drawer = Drawer(random, random.choice((0.02, 0.2)))

    def records(data: bytes) -> bytes:
        lines = data.splitlines(keepends=True)
        for _ in range(random.choice((1, 5, 40))):
            kinds = LAUNCHER_EVENTS if random.random() < 0.3 else events.EVENTS
            kind = random.choice(kinds)
            world = World(2, 2, (0, 1), random.randrange(30), 1_000.0 + random.uniform(0, 5))
            host = -1 if kinds is LAUNCHER_EVENTS else random.randrange(2)
            seq = random.choice((2, 50, 1_000, drawer.int(world)))
            head = {"host": host, "attempt": 0, "seq": seq, "time": world.time}
            body = head | {"event": kind.wire_name} | drawer.object(kind, world)
            if kind is StepBlock and random.random() < 0.7:
                places = (0, 1, 200, drawer.int(world)), (0, 1, 200, 2_000, drawer.int(world))
                body["columns"] = "@{}+{}".format(*map(random.choice, places))
            if random.random() < 0.1:
                body = drawer.spoiled(body)
            line = dumps(body).encode("utf-8", "backslashreplace") + b"\n"
            lines.insert(random.randrange(len(lines) + 1), line)
        return b"".join(lines)

    path = mutation.folder / layout.EVENTS
    if path.is_file():
        path.write_bytes(records(path.read_bytes()))
        mutation.told.append("records between")


def _from_another(mutation: Mutation) -> None:
    """A file of another run stands in its place."""
    path = mutation.path()
    other = mutation.runs / OTHER / path.name
    with suppress(OSError):
        if other.is_file():
            shutil.copy(other, path)
    mutation.told.append(f"another run's {path.name}")


def _of_another_kind(mutation: Mutation) -> None:
    """Something else than a file, or nothing, stands in the place of a file or folder."""
    random, path = mutation.random, mutation.path(whole=True)
    how = random.choice(
        ("gone", "folder", "fifo", "link", "loop", "dangling", "device", "empty", "large", "mode")
    )
    with suppress(OSError):
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        match how:
            case "folder":
                path.mkdir()
            case "fifo":
                os.mkfifo(path)
            case "link":
                path.symlink_to(mutation.runs / OTHER / path.name)
            case "loop":
                path.symlink_to(path.name)
            case "dangling":
                path.symlink_to("nowhere")
            case "device":
                path.symlink_to("/dev/zero")
            case "empty":
                path.write_bytes(b"")
            case "large":
                is_read_whole = path.suffix in (".jsonl", ".log")
                with path.open("wb") as file:
                    file.truncate(LONG if is_read_whole else LARGE)
            case "mode":
                path.write_bytes(b"x")
                path.chmod(random.choice((0o000, 0o777, 0o200)))
    mutation.told.append(f"{how} {path.relative_to(mutation.runs)}")


def _with_lock(mutation: Mutation) -> None:
    """A launcher's file, as nobody writes it."""
    text = mutation.random.choice(("-1", "", "1", "x" * 900, "\x1b[2J", "7 host", "9" * 5_000))
    path = mutation.folder / layout.LOCK
    with suppress(OSError):
        if path.is_file() or not path.exists():
            path.write_text(text)
    mutation.told.append(f"launcher {text[:20]!r}")


def _with_checkpoints(mutation: Mutation) -> None:
    """Manifests of checkpoints that are none."""
    random, folder = mutation.random, mutation.folder
    number = random.choice(("10", "x", "-1", "9" * 90, "1e9", "\u0663", ""))
    place = random.choice((folder / "hosts/node1", folder / "node/runs" / RUN / "0"))
    manifest = place / CHECKPOINTS / f"{STEP}{number}" / MANIFEST
    with suppress(OSError):
        manifest.parent.mkdir(parents=True, exist_ok=True)
        manifest.write_text(random.choice(("", "{", "[]", "1")))
    mutation.told.append(f"checkpoint {number[:20]!r}")


def _in_index(mutation: Mutation) -> None:
    """What is kept of all runs is changed."""
    from remote.record import index  # as it is made of the template

    index.YOUNG, young = 0, index.YOUNG
    try:
        index.entries(mutation.runs)
    finally:
        index.YOUNG = young
    path = mutation.runs / layout.INDEX
    with suppress(OSError, ValueError):
        data = json.loads(path.read_bytes())
        path.write_bytes(dumps(_changed(data, mutation.random)).encode("utf-8", "replace"))
    mutation.told.append("index")


CHANGES: Sequence[Change] = (
    *(_in_bytes, _in_lines, _in_numbers, _in_numbers, _in_objects, _in_objects, _in_objects),
    *(_with_records, _with_records, _from_another, _of_another_kind, _of_another_kind),
    *(_with_lock, _with_checkpoints, _in_index),
)

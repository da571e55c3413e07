"""Every scene is drawn in two sizes and three themes, and says what matters in it.

One scene of each kind of screen is recorded in `tests/fixtures/looks`, so that changes of its
layout are seen. After a change that is meant, write the files anew, and look at what git finds
changed:

    RANKBOARD_LOOKS=renew .venv/bin/pytest -q tests/unit/tui/test_looks.py
"""

from __future__ import annotations

import difflib
import os
import re
from pathlib import Path

import pytest
from rich.cells import cell_len
from textual.pilot import Pilot

from tests.kit.looks import read_screen, to_ascii, to_styles, to_text
from tests.kit.scenes import SCENES, Scene, still
from tui.kit import palette
from tui.kit.themes import CONTRAST, LIGHT

assert still  # the fixture
SMALL, LARGE = (80, 24), (200, 60)
FOLDER = Path(__file__).parents[2] / "fixtures" / "looks"
RENEW = "RANKBOARD_LOOKS"
DISK_USAGE = re.compile(r"\b\d+ KiB \(here\)")
"""What differs from machine to machine: how much a recorded run takes on this disk."""

RECORDED = (
    *("live", "failed", "rank_page", "stacks", "doctor", "help_page", "quit_dialog"),
    *("home", "form_fresh", "presets", "compare", "study"),
)
"""The scenes of which all characters are recorded: one of each kind of screen."""

WORDS: dict[str, tuple[str, ...]] = {
    "starting": ("starting", "waiting for node3", "copy code", "does not answer"),
    "live": ("training", "step 240/400", "0.5809", "80.6%", "[3] epoch 3 step 240"),
    "slow": ("all ranks wait for rank 2 on node3", "it has 0.5 cores"),
    "ranks_32": ("32 ranks on 4 hosts", "wait for rank 13 on node2"),
    "ranks_128": ("128 ranks on 16 hosts", "72-79", "node10", "SLOW 4.0x"),
    "failed": ("failed", "node2, rank 1: killed by SIGKILL", "last output of the agent"),
    "finished": (
        "finished in 1:41 without problems: test accuracy 94.7%",
        "75%",
        "compute",
        "▶ n new run",
    ),
    "restarted": ("attempt 2 of 3", "restart 1 of 2"),
    "rank_page": ("rank 2 of 4, on node3", "[2] epoch 3 step 240", "esc Back"),
    "chart_zoomed": ("loss", "0┤", "step", "esc Back"),
    "chart_of_ranks": ("●0 ●1 ●2 ●3", "step", "esc Back"),
    "chart_log": ("epoch", "0.5┤", "esc Back"),
    "hosts": ("of 0.500", "of 4.00", "CPU of cores"),
    "log_all": ("agent on node4", "loading shard", "[2] reached step 14"),
    "log_filtered": ("[0-3] loading shard", "x4"),
    "stacks": ("rank 2 on node3 is not inside a collective", "load_batch", "all_reduce"),
    "stalled": ("stalled for 31 s: rank 2 on node3", "load_batch", "wait for it in all_reduce"),
    "doctor": ("torch is not installed", "pip install torch on node4", "1 more finding"),
    "help_page": ("keys", "search with a regular expression"),
    "quit_dialog": ("rankboard attach 20261122-093000-ddp-vgg11-3f9a", "Detach (d)"),
    "alerts_list": ("alerts", "wait for rank 2", "has been silent", "NaN at step 241 (rank 1)"),
    "palette": ("Search for commands", "show all lines, or only news", "log"),
    "home": ("4 runs", "baseline", "finished", "failed", "0.4300", "76.7%"),
    "home_empty": ("No runs in ./runs yet", "--local 4"),
    "home_marked": ("A", "B", "baseline"),
    "home_filtered": ("1 of 4 runs", "sync=ring", "killed by SIGKILL at step 40"),
    "home_note": ("note", "to compare with the baseline"),
    "home_name": ("name", "an empty one removes it"),
    "home_delete": ("Delete 20261122-033000-gather_scatter-lenet5-0003", "Keep (esc)"),
    "replay": ("ring", "REPLAY paused at steps 27-28 of 60", "space play"),
    "compare": ("A baseline was", "1.6x faster per step", "250 ms, B 401 ms", "90.0%"),
    "compare_many": ("the fastest per step", "gather_scatter", "outcome"),
    "watch": ("watching beside its launcher", "step 40/60"),
    "form_fresh": ("ready", "train vgg11 on cifar10", "4 of 4 hosts", "f5 start"),
    "form_errors": ("batch size is -3", "must be at least 1", "write a number"),
    "form_pick": ("how ranks synchronise", "parameter_server", "ring"),
    "presets": ("presets and recent jobs", "--sync gather_scatter", "11-21 10:30"),
    "study": ("Three ways", "run 5 of 12", "a ring of two", "0.198", "ddp is fastest"),
    "study_cell": ("runs of all_reduce, nodes 1 ", "waiting", "no remarks"),
}
"""What each scene says in any size, apart from where it stands."""


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("name", SCENES)
async def test_a_scene_says_what_matters_in_each_size_and_theme(name: str, tmp_path: Path) -> None:
    scene = SCENES[name](tmp_path)
    async with scene.app.run_test(size=SMALL, notifications=True) as pilot:
        await scene.play(pilot)
        screen = await read_screen(pilot)
        lines = to_text(screen)
        check_lines(name, lines, SMALL)
        if name in RECORDED:
            styles = to_styles(screen)
            check_recorded(name, ["## dark", *lines, "## dark, styles", *styles])
        pilot.app.theme = LIGHT.name
        assert to_text(await read_screen(pilot)) == lines
        pilot.app.theme = CONTRAST.name
        await pilot.resize_terminal(*LARGE)
        check_lines(name, to_text(await read_screen(pilot)), LARGE)
        await end_scene(scene, pilot)


@pytest.mark.usefixtures("still")
@pytest.mark.parametrize("name", RECORDED)
async def test_a_screen_looks_in_ascii_as_it_did(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(palette, "has_utf8", lambda: False)
    scene = SCENES[name](tmp_path)
    async with scene.app.run_test(size=SMALL, notifications=True) as pilot:
        await scene.play(pilot)
        check_recorded(f"{name}_ascii", to_ascii(await read_screen(pilot)))
        await end_scene(scene, pilot)


async def end_scene(scene: Scene, pilot: Pilot[None]) -> None:
    scene.end()
    scene.app.exit()


def check_lines(name: str, lines: list[str], size: tuple[int, int]) -> None:
    """Check that the lines fit into the terminal and have the words of the scene."""
    width, height = size
    assert len(lines) <= height
    assert max(map(cell_len, lines)) <= width
    text = unwrap(lines)
    for words in WORDS[name]:
        assert words in text, f"{name} at {width}x{height}:\n" + "\n".join(lines)


def unwrap(lines: list[str]) -> str:
    """Return the text without frames and line breaks, which differ from size to size."""
    return " ".join(" ".join(lines).replace("▌", " ").replace("│", " ").split())


def check_recorded(name: str, lines: list[str]) -> None:
    """Check that these lines are those of the file of that name."""
    text = DISK_USAGE.sub("99 KiB (here)", "\n".join(lines) + "\n")
    path = FOLDER / f"{name}.txt"
    if os.environ.get(RENEW) == "renew":
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    expected = path.read_text() if path.exists() else ""
    if text != expected:
        before, after = expected.split("\n"), text.split("\n")
        diff = difflib.unified_diff(before, after, "expected", "now", n=0, lineterm="")
        pytest.fail(f"{name} looks otherwise than in {path}:\n" + "\n".join(diff))


def test_each_scene_says_something_and_each_recorded_file_has_a_scene() -> None:
    assert set(WORDS) == set(SCENES)
    files = {path.stem for path in FOLDER.iterdir()}
    assert files == {*RECORDED, *(f"{name}_ascii" for name in RECORDED)}

"""The environment of a program's ranks, against that of a real torchrun: 1 x 4 ranks and 2 x 2."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.launches import RANKBOARD
from tests.kit.slow import slow

TORCHRUN = (sys.executable, "-m", "torch.distributed.run")
DUMP = 'env -0 > "$DUMPS/$RANK"'
OURS = {
    "GLOO_SOCKET_IFNAME",
    "NCCL_SOCKET_IFNAME",
    "PYTHONPATH",
    "PYTHONUNBUFFERED",
    "RANKBOARD_EVENTS_FD",
    "RANKBOARD_FOLDER",
    "RANKBOARD_PROCESS",
    "RANKBOARD_RUN",
    "RANKBOARD_WATCH",
}
"""Variables that docs/reference/environment.md names as those of rankboard alone."""
FRAMEWORKS = {"ACCELERATE_USE_CPU", "COLUMNS", "TTY_COMPATIBLE"}
"""Those that it sets where certain packages are installed."""
OTHERWISE = {
    "MASTER_ADDR",
    "MASTER_PORT",
    "OMP_NUM_THREADS",
    "PATH",
    "TORCHELASTIC_ERROR_FILE",
    "TORCHELASTIC_RUN_ID",
    "TORCHELASTIC_USE_AGENT_STORE",
}
"""Those that it names as of other values."""
INCIDENTAL = {"_", "OLDPWD", "PWD", "SHLVL"}
"""Variables of the shell that prints."""
NOT_ALWAYS = {"MASTER_ADDR", "OMP_NUM_THREADS", "PATH"}
"""Of one value on some machines."""


def environ(folder: Path) -> dict[str, str]:
    """The environment of both launchers, in which the ranks write theirs below this folder."""
    folder.mkdir()
    fixed = {"HOME": str(folder), "LANG": "C.UTF-8", "PATH": os.environ["PATH"]}
    return fixed | {"DUMPS": str(folder)}


def dumped(folder: Path) -> list[dict[str, str]]:
    """The environments of the ranks, in their order."""
    files = sorted(path for path in folder.iterdir() if path.name.isdecimal())
    return [
        dict(entry.split("=", 1) for entry in path.read_text().split("\0") if entry)
        for path in files
    ]


def by_torchrun(folder: Path, nodes: int, slots: int) -> list[dict[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = ["--nnodes", str(nodes), "--nproc-per-node", str(slots), "--no-python"]
    words += ["--master-addr", "127.0.0.1", "--master-port", str(port)]
    env = environ(folder)
    started = [
        subprocess.Popen(
            [*TORCHRUN, *words, "--node-rank", str(node), "sh", "-c", DUMP],
            env=env,
            stderr=subprocess.PIPE,
            text=True,
        )
        for node in range(nodes)
    ]
    for process in started:
        _, errors = process.communicate()
        assert process.returncode == 0, errors
    return dumped(folder)


def by_rankboard(folder: Path, nodes: int, slots: int) -> list[dict[str, str]]:
    words = ["--run", "--local", str(nodes * slots), "--slots", str(slots), "--no-doctor"]
    done = subprocess.run(
        [RANKBOARD, *words, "--runs-dir", str(folder / "runs"), "--", "sh", "-c", DUMP],
        env=environ(folder),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dumped(folder)


@pytest.mark.parametrize(("nodes", "slots"), [pytest.param(1, 4, marks=slow), (2, 2)])
def test_the_environment_is_that_of_torchrun(nodes: int, slots: int, tmp_path: Path) -> None:
    """But for the documented differences, which it prints (pytest -s)."""
    pairs = zip(
        by_torchrun(tmp_path / "theirs", nodes, slots),
        by_rankboard(tmp_path / "ours", nodes, slots),
        strict=True,
    )
    for rank, (theirs, ours) in enumerate(pairs):
        for env in (theirs, ours):
            for name in {"DUMPS", "HOME"} | INCIDENTAL:
                env.pop(name, None)
        both = theirs.keys() & ours.keys()
        otherwise = {name for name in both if theirs[name] != ours[name]}
        for name in sorted(otherwise | (theirs.keys() ^ ours.keys())):
            sys.stdout.write(
                f"{nodes} x {slots}, rank {rank}: {name}: torchrun {theirs.get(name)!r}, "
                f"rankboard {ours.get(name)!r}\n"
            )
        assert ours.keys() - theirs.keys() - FRAMEWORKS == OURS
        assert theirs.keys() - ours.keys() == set()
        assert otherwise | NOT_ALWAYS == OTHERWISE

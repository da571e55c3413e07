"""What `--upload` of an unchanged project of 5,000 files adds to a start: two hosts over SSH, on
addresses of one sshd of this machine.

Whole commands whose program ends at once, with and without the upload, take turns. Prints each
pair, and the median of the differences last.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parts.loopback import loopback

HOSTS, FILES, FOLDERS = 2, 5_000, 250
LARGEST = 16_000
"""Bytes of the largest file of the project."""
BOUND = 0.5
RANKBOARD = str(Path(sys.executable).with_name("rankboard"))


def project(folder: Path) -> Path:
    """A folder of that many files, as sources are: most are small."""
    choose = random.Random(1)
    for number in range(FILES):
        below = number % FOLDERS
        path = folder / f"package{below % 10}" / f"module{below}" / f"file{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(choose.randbytes(int(LARGEST * choose.random() ** 3)))
    (folder / ".gitignore").write_text("runs/\n__pycache__/\n*.pt\n")
    return folder


def hosts_file(path: Path, hosts: tuple[object, ...]) -> Path:
    """A hosts.toml of these."""
    names = ("name", "address", "user", "port", "identity_file", "known_hosts", "python", "workdir")
    tables = []
    for host in hosts:
        known = dataclasses.asdict(host)  # type: ignore[call-overload]
        tables.append("\n".join(["[[host]]", *(f"{name} = {known[name]!r}" for name in names)]))
    path.write_text("\n\n".join(tables) + "\n")
    return path


def taken(hosts: Path, folder: Path, *more: str) -> tuple[float, float]:
    """Seconds of a whole run, and CPU seconds of the command itself."""
    command = [RANKBOARD, "--run", "--hosts", str(hosts), *more, "--", "true"]
    before, began = os.times(), time.perf_counter()
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, os.times()
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    cpu = after.children_user - before.children_user
    return seconds, cpu + after.children_system - before.children_system


def main() -> None:
    """Run the pairs."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    pairs = parser.parse_args().pairs
    added, worked = [], []
    with tempfile.TemporaryDirectory() as name, loopback(Path(name), HOSTS) as server:
        folder = project(Path(name, "project"))
        hosts = hosts_file(Path(name, "hosts.toml"), server.hosts())
        kinds = {"without": ("--cwd", name), "with": ("--upload", ".")}
        first, _ = taken(hosts, folder, *kinds["with"])
        print(f"first upload of {FILES:,} files to {HOSTS} hosts: {first:.2f} s", flush=True)
        for pair in range(pairs):
            order = [*kinds] if pair % 2 else [*reversed(kinds)]
            found = {kind: taken(hosts, folder, *kinds[kind]) for kind in order}
            seconds, cpu = (found["with"][n] - found["without"][n] for n in (0, 1))
            added.append(seconds)
            worked.append(cpu)
            one, other = found["with"][0], found["without"][0]
            print(f"pair {pair + 1:2}: with {one:.2f} s, without {other:.2f} s", flush=True)
    print(
        f"an unchanged upload adds {statistics.median(added):.2f} s (bound {BOUND:g} s), "
        f"{statistics.median(worked):.2f} s of them CPU time of the command"
    )


if __name__ == "__main__":
    main()

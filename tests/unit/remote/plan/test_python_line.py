"""Command lines of Python are read as Python reads them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from remote.plan.plan import Script
from remote.plan.python_line import FILE, MODULE, python_line


@pytest.mark.parametrize(
    ("words", "interpreter", "options", "kind", "name", "rest"),
    [
        ("train.py -u -m x", "", "", FILE, "train.py", "-u -m x"),
        ("-m pkg.train -x", "", "", MODULE, "pkg.train", "-x"),
        ("python -u t.py", "python", "-u", FILE, "t.py", ""),
        ("/v/bin/python3.11 -uI t", "/v/bin/python3.11", "-u -I", FILE, "t", ""),
        (
            "python3.13t -X dev -Wignore -W error t.py",
            *("python3.13t", "-Xdev -Wignore -Werror"),
            FILE,
            "t.py",
            "",
        ),
        ("python -uXdev -m pkg -I", "python", "-u -Xdev", MODULE, "pkg", "-I"),
        ("python -Ompkg -m", "python", "-O", MODULE, "pkg", "-m"),
        ("python -c pass t.py", "python", "", FILE, "", "t.py"),
        ("python -uc pass t.py", "python", "-u", FILE, "", "t.py"),
        ("python - t.py", "python", "", FILE, "", "t.py"),
        ("python -- -t.py x", "python", "", FILE, "-t.py", "x"),
        (
            "python --check-hash-based-pycs never t.py",
            "python",
            "--check-hash-based-pycs",
            FILE,
            "t.py",
            "",
        ),
        ("python", "python", "", FILE, "", ""),
        ("python -X", "python", "-X", FILE, "", ""),
        ("python -m", "python", "", MODULE, "", ""),
    ],
)
def test_lines(words: str, interpreter: str, options: str, kind: str, name: str, rest: str) -> None:
    line = python_line(words.split())
    assert line
    assert (line.interpreter, " ".join(line.options)) == (interpreter, options)
    assert (line.kind, line.name, " ".join(line.rest)) == (kind, name, rest)


@pytest.mark.parametrize(
    "words", ["", "./run.sh t.py", "--no-python t.py", "pythonic t.py", "-u t.py"]
)
def test_lines_of_other_programs(words: str) -> None:
    assert python_line(words.split()) is None


@pytest.mark.parametrize(
    "words",
    ["-u -W ignore t.py a -b", "-Xdev -X utf8 -OO t.py", "-ISu t.py -m", "-bW error -- t.py -m"],
)
def test_it_is_what_python_does(words: str, tmp_path: Path) -> None:
    (tmp_path / "t.py").write_text("import sys; print(*sys.argv)")
    done = subprocess.run(
        [sys.executable, *words.split()], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    line = python_line(["python", *words.split()])
    assert line
    assert done.stdout.split() == [line.name, *line.rest], done.stderr


@pytest.mark.parametrize(
    ("words", "stem"),
    [
        ("python -u -X dev scripts/train.py --lr 1", "train"),
        ("python3.11 -m pkg.train", "pkg-train"),
        ("--no-python ./a.py", "a"),
        ("./run.sh x", "run"),
        ("python -c pass", "script"),
    ],
)
def test_a_run_has_the_name_of_what_python_runs(words: str, stem: str) -> None:
    assert Script(tuple(words.split())).stem == stem

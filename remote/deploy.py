"""Puts the code on a host and starts its agent: the archive, the one command for a login shell, and the talk that follows.

The command carries a small program. It says whether the host has the code already, reads the archive from stdin if not,
checks it before anything is unpacked, and then becomes the agent, with stdin and stdout as they are. Parses without I/O:
who owns the connection feeds `Talk` what the far end says.
"""

from __future__ import annotations

import base64
import hashlib
import io
import shlex
import threading
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import training
from training.agent import MARKER

PACKAGE = Path(training.__file__).parent
"""The installed package that travels to the hosts."""
SPOKEN = b"rankboard-deploy 1 "
"""How every line of the program below begins."""
OLDEST = (3, 10)
"""The oldest Python that runs the agent."""

# It must parse, and answer, under any Python that a host may have; only its second half may use what OLDEST has.
PROGRAM = """
import gc, os, sys

gc.disable()

def say(text):
    line = ("%(spoken)s" + " ".join(text.split()) + "\\n").encode("utf-8", "replace")
    while line:
        line = line[os.write(1, line):]

def fail(text):
    say("error " + text)
    sys.exit(3)

def receive(size):
    parts = []
    while size:
        part = os.read(0, min(size, 65536))
        if not part:
            fail("the line broke while the code was being sent; try again")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

def unpack(data, code):
    import io, shutil, tempfile, zipfile
    new = tempfile.mkdtemp(dir=os.path.dirname(code), prefix="new-")
    try:
        zipfile.ZipFile(io.BytesIO(data)).extractall(new)
        try:
            os.rename(new, code)
        except OSError:
            if not os.path.isdir(code):  # else another launcher was faster
                raise
    finally:
        shutil.rmtree(new, ignore_errors=True)

def place(workdir, digest, size):
    code = os.path.join(os.path.expanduser(workdir), "code", digest)
    mask = os.umask(0o077)
    if not os.path.isdir(code):
        os.makedirs(os.path.dirname(code), exist_ok=True)
        import hashlib
        say("need")
        data = receive(size)
        if hashlib.sha256(data).hexdigest()[:%(digits)d] != digest:
            fail("the code arrived damaged, nothing was unpacked; try again")
        unpack(data, code)
    os.umask(mask)
    say("have")
    return code

def start(workdir, digest, size, argv):
    if sys.version_info < %(oldest)r:
        version = ".".join(map(str, sys.version_info[:3]))
        fail("its python (%%s) is %%s, which is older than %(name)s; set python = \\"/path/to/python3\\" for it in hosts.toml"
             %% (sys.executable, version))
    try:
        code = place(workdir, digest, size)
    except OSError as error:
        fail("cannot use its workdir %%s: %%s; make room or access there, or set another workdir for it in hosts.toml"
             %% (workdir, error))
    sys.path[:] = [code] + [path for path in sys.path if path]
    from training.agent.__main__ import main
    code = main(argv)
    sys.stderr.flush()
    os._exit(code)  # to take all down in order costs as much again as to start Python
"""
DIGITS = 32
_MAKING = threading.Lock()


@dataclass(frozen=True)
class Archive:
    """The package as one zip file, named by the digest of its bytes."""

    digest: str
    data: bytes


def archive(package: Path = PACKAGE) -> Archive:
    """The archive of a package folder: equal files give equal bytes, whenever and wherever they were written."""
    with _MAKING:  # as dozens of hosts ask for it at once
        return _archive(package)


@cache
def _archive(package: Path) -> Archive:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as bundle:
        for path in sorted(path for path in package.rglob("*") if path.is_file() and _travels(path.relative_to(package))):
            entry = zipfile.ZipInfo(f"{package.name}/{path.relative_to(package).as_posix()}")
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o600 << 16
            bundle.writestr(entry, path.read_bytes())
    data = stream.getvalue()
    return Archive(hashlib.sha256(data).hexdigest()[:DIGITS], data)


def _travels(path: Path) -> bool:
    return path.suffix != ".pyc" and not any(part.startswith(".") or part == "__pycache__" for part in path.parts)


def bootstrap(python: str, workdir: str, archive: Archive, argv: Sequence[str]) -> str:
    """The command for a host's login shell (sh, bash, zsh, csh or fish) that makes sure of the code and becomes the agent.

    All arguments lie inside the encoded program, so that no shell sees their spaces and quotes. `~` works in both paths.
    """
    values = {"spoken": SPOKEN.decode(), "digits": DIGITS, "oldest": OLDEST, "name": ".".join(map(str, OLDEST))}
    arguments = (workdir, archive.digest, len(archive.data), list(argv))
    program = PROGRAM % values + f"\nstart(*{arguments!a})\n"
    code = base64.b64encode(program.encode()).decode()
    return f"{_shell_path(python)} -c 'import binascii;exec(binascii.a2b_base64(\"{code}\"))'"


def _shell_path(path: str) -> str:
    """The path quoted, but for a leading `~user/`, which the shell is to expand."""
    home, slash, rest = path.partition("/")
    return f"{home}/{shlex.quote(rest)}" if path.startswith("~") and slash else shlex.quote(path)


@dataclass(frozen=True)
class Noise:
    """What a login shell printed before the program spoke."""

    text: str


@dataclass(frozen=True)
class Needed:
    """The host waits for the archive's bytes."""


@dataclass(frozen=True)
class Placed:
    """The host has the code, and starts the agent."""


@dataclass(frozen=True)
class Failed:
    """The host cannot do it: `reason` says why and what to do."""

    reason: str


@dataclass(frozen=True)
class Ready:
    """The agent speaks: `rest` are its first bytes after the marker."""

    rest: bytes


class Talk:
    """What a host says from the start of the command to the agent's marker, as typed steps; no I/O."""

    def __init__(self) -> None:
        self._held = b""

    def feed(self, data: bytes) -> Iterator[Noise | Needed | Placed | Failed | Ready]:
        """Take some bytes as they came; gives each step that they complete. Nothing may be fed after `Ready`."""
        self._held += data
        while b"\n" in self._held:
            line, _, self._held = self._held.partition(b"\n")
            noise, spoken, words = line.partition(SPOKEN)
            if line.endswith(MARKER.rstrip(b"\n")):
                spoken, noise = MARKER, line.removesuffix(MARKER.rstrip(b"\n"))
            if noise.strip():
                yield Noise(noise.decode(errors="replace").rstrip("\r"))
            if spoken == MARKER:
                rest, self._held = self._held, b""
                yield Ready(rest)
                return
            if spoken:
                yield _step(words.decode(errors="replace"))


def _step(words: str) -> Needed | Placed | Failed:
    match words.split(" ", 1):
        case ["need"]:
            return Needed()
        case ["have"]:
            return Placed()
        case ["error", reason]:
            return Failed(reason)
    return Failed(f"its start said {words!r}, which this version does not know")


def last_line(text: str) -> str:
    """The last line of what a program said on stderr: of a traceback the line that tells."""
    return text.strip().rpartition("\n")[2].strip()

"""Puts the code on a host and starts its agent: the archive, the one command for a login shell, and
the talk that follows.

The command carries a small program. It refuses a workdir that another user owns or may write,
checks the code that is there against its digest, reads the archive from stdin where it is missing
or not as it was sent, and then becomes the agent, with stdin and stdout as they are. Parses without
I/O: who owns the connection feeds `Talk` what the far end says.
"""

from __future__ import annotations

import base64
import hashlib
import io
import re
import shlex
import threading
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import training
from remote.format import size
from remote.limits import LIMITS, Limits
from remote.transport.line_cutter import LineCutter, LineTooLong
from training.agent import MARKER

PACKAGE = Path(training.__file__).parent
"""The installed package that travels to the hosts."""
SPOKEN = b"rankboard-deploy 1 "
"""How every line of the program below begins."""
OLDEST = (3, 10)
"""The oldest Python that runs the agent."""

# It must parse, and answer, under any Python that a host may have; only its second half may use
# what OLDEST has.
REST = """
def receive(size):
    parts = []
    while size:
        part = os.read(0, min(size, 65536))
        if not part:
            fail("the line broke while the code was being sent; try again")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)

def named(uid):
    import pwd
    try:
        return "user %%d (%%s)" %% (uid, pwd.getpwuid(uid).pw_name)
    except KeyError:
        return "user %%d" %% uid

def private(gid):  # the group that many systems make for each user
    import grp, pwd
    try:
        user, group = pwd.getpwuid(os.geteuid()), grp.getgrgid(gid)
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and not set(group.gr_mem) - set([user.pw_name])

def unsafe(path, reason, advice):
    other = "set another workdir for it in hosts.toml"
    fail("its code is not run: %%s; %%s" %% (reason %% path, (advice and "%%s there, or " %% (advice %% path)) + other))

def keep_state(code, state, files):  # for the next start, which then reads no file
    import tempfile, time
    if time.time() - max([found[2] for found in files]) / 1e9 < %(settled)d:
        return  # a change within the same tick of the disk's clock would not show
    path = ""
    try:
        file, path = tempfile.mkstemp(dir=os.path.dirname(code), prefix="state-")
        with open(file, "wb") as kept:
            kept.write(state.encode("utf-8", "surrogateescape"))
        os.rename(path, os.path.join(code, STATE))
    except OSError:  # each start then reads all files
        if os.path.lexists(path):
            os.unlink(path)

def unpack(data, code, digest):
    import io, py_compile, shutil, tempfile, zipfile
    try:
        bundle = zipfile.ZipFile(io.BytesIO(data))
        files = [(name, bundle.read(name)) for name in sorted(bundle.namelist())]
    except Exception:
        files = []
    if hashed(files) != digest:
        fail("the code arrived damaged, nothing was unpacked; try again")
    new, old = [tempfile.mkdtemp(dir=os.path.dirname(code), prefix=prefix) for prefix in ("new-", "old-")]
    compiled = []
    try:
        for name, source in files:
            path = os.path.join(new, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as file:
                file.write(source)
            if name.endswith(".py"):
                # unchecked: Python need not compare it with its source, as both are checked at each
                # start
                mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
                try:
                    made = py_compile.compile(path, None, os.path.join(code, name), True, invalidation_mode=mode)
                except (py_compile.PyCompileError, NotImplementedError):  # for a newer Python; or none is kept
                    continue
                with open(made, "rb") as file:
                    compiled.append((os.path.relpath(made, new), file.read()))
        with open(os.path.join(new, SEAL), "w") as file:
            file.write(hashed(sorted(compiled)))
        for folder, _, names in os.walk(new):  # an ACL of the folder above may have let others write
            os.chmod(folder, 0o700)
            for name in names:
                os.chmod(os.path.join(folder, name), 0o600)
        there = os.path.lexists(code)
        if there and intact(code, digest):  # another host was faster: where they share a disk, its locks may hold for one
            return
        try:
            if there and os.path.isdir(code) and not os.path.islink(code):
                os.rename(code, old)
            elif there:
                os.unlink(code)
            os.rename(new, code)
        except OSError:
            if not intact(code, digest):
                raise
    finally:
        for folder in (new, old):
            shutil.rmtree(folder, ignore_errors=True)

def locked(folder):  # a disk without locks has to do without
    import fcntl
    lock = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError:
        pass
    return lock

def writable(found):
    bits = found.st_mode & 0o022
    return 0 if bits == 0o020 and private(found.st_gid) else bits

def look(path):
    link = os.lstat(path)
    if stat.S_ISLNK(link.st_mode) and link.st_uid not in (0, os.geteuid()):
        unsafe(path, "the link %%s belongs to " + named(link.st_uid), "")
    found = os.stat(path)
    if found.st_uid != os.geteuid():
        unsafe(path, "%%s belongs to " + named(found.st_uid) + ", and it runs as " + named(os.geteuid()), "")
    if writable(found):
        unsafe(path, "other users may write %%s (mode " + oct(found.st_mode & 0o777)[-3:] + ")", "chmod go-w %%s")

def make_or_look(folder):
    if not os.path.lexists(folder):
        os.makedirs(folder, 0o700, exist_ok=True)  # also where an ACL takes the place of the umask
    look(folder)

def hashed(parts):
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    found = blake2b(digest_size=%(size)d)
    for name, data in parts:
        found.update(("%%s\\0%%d\\0" %% (name, len(data))).encode("utf-8", "surrogateescape"))
        found.update(data)
    return found.hexdigest()

def foreign(name):  # compiled by another Python, such as that of a user's script, which this one never loads
    tag = sys.implementation.cache_tag + (".opt-%%s" %% sys.flags.optimize if sys.flags.optimize else "")
    return name.endswith(".pyc") and "/__pycache__/" in name and not name.endswith("." + tag + ".pyc")

def compared(code, digest, files, state):  # the sources as they were sent, what was compiled from them as it was written here
    try:
        names = [found[0] for found in files if found[0] != SEAL and not foreign(found[0])]
        found = [(name, content(os.path.join(code, name))) for name in names]
        seal = content(os.path.join(code, SEAL)).decode()
    except (OSError, ValueError, RuntimeError):
        return False
    if (hashed([one for one in found if not one[0].endswith(".pyc")]) != digest
            or hashed([one for one in found if one[0].endswith(".pyc")]) != seal):
        return False
    keep_state(code, state, files)
    return True

def sent(code, digest, size):  # whether there was other code
    changed = os.path.lexists(code)
    say("need")
    data = receive(size)
    lock = locked(os.path.dirname(code))
    if not intact(code, digest):  # else another launcher was faster
        unpack(data, code, digest)
        if not intact(code, digest):
            fail("its code is not run: %%s changes while it is written; set another workdir for it in hosts.toml" %% code)
    os.close(lock)
    if changed:
        say("changed " + code)
    return changed

def refuse_old():
    version = ".".join(map(str, sys.version_info[:3]))
    fail("its python (%%s) is %%s, which is older than %(name)s; set python = \\"/path/to/python3\\" for it in hosts.toml"
         %% (sys.executable, version))

def refuse_workdir(workdir, error):
    fail("cannot use its workdir %%s: %%s; make room or access there, or set another workdir for it in hosts.toml"
         %% (workdir, error))
"""
PROGRAM = """
import gc, os, stat, sys

REST = %(rest)s

gc.disable()

def say(text):
    line = ("%(spoken)s" + " ".join(text.split()) + "\\n").encode("utf-8", "replace")
    while line:
        line = line[os.write(1, line):]

def fail(text):
    say("error " + text)
    sys.exit(3)

def rest(name):  # of what few starts need, and which takes time to compile
    if name not in globals():
        exec(REST, globals())
    return globals()[name]

# Who may change the code that is run here

def safe(found):
    return found.st_uid == os.geteuid() and not (found.st_mode & 0o022 and rest("writable")(found))

def look_above(path):  # who may write there could put another folder in its place
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        mode = os.stat(path).st_mode
        if mode & 0o002 and not mode & stat.S_ISVTX:
            rest("unsafe")(path, "any user may write %%s, in which its workdir lies", "chmod o-w %%s")

# The code

SEAL, STATE = "compiled.digest", "checked.state"

def files_in(folder, prefix=""):  # with the state of each: whatever changes a file sets its ctime
    if not safe(os.lstat(folder)):
        raise ValueError(folder)
    found = []
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            found += files_in(entry.path, prefix + entry.name + "/")
        else:
            one = entry.stat(follow_symlinks=False)
            found.append((prefix + entry.name, one.st_ino, one.st_ctime_ns))
    return found

def content(path):
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode) or not safe(found):
            raise ValueError(path)
        return os.read(file, found.st_size)
    finally:
        os.close(file)

def intact(code, digest):  # as it was when all files were compared with the digest; else they are compared now
    try:
        files = sorted([found for found in files_in(code) if found[0] != STATE])
    except (OSError, ValueError, RuntimeError):
        return False
    state = digest + repr(files)
    return stated(code) == state or rest("compared")(code, digest, files, state)

def stated(code):
    try:
        return content(os.path.join(code, STATE)).decode()
    except (OSError, ValueError):
        return ""

def place(workdir, digest, size):
    workdir = os.path.expanduser(workdir)
    # what is compiled is one Python's, so each has its own folder; and no Python looks for it
    # elsewhere
    sys.pycache_prefix = None
    os.environ.pop("PYTHONPYCACHEPREFIX", None)
    tag = "%%s-%%s" %% (sys.implementation.cache_tag, sys.flags.optimize)
    code = os.path.join(workdir, "code", "%%s-%%s" %% (digest, tag))
    mask = os.umask(0o077)
    for folder in (workdir, os.path.dirname(code)):
        try:
            plain = safe(os.lstat(folder))
        except OSError:
            plain = False
        if not plain:
            rest("make_or_look")(folder)
    for path in set([os.path.abspath(workdir), os.path.realpath(workdir)]):
        look_above(path)
    changed = not intact(code, digest) and rest("sent")(code, digest, size)
    os.umask(mask)
    say("have")
    return code, changed

def start(workdir, digest, size, argv):
    if sys.version_info < %(oldest)r:
        rest("refuse_old")()
    try:
        code, changed = place(workdir, digest, size)
    except OSError as error:
        rest("refuse_workdir")(workdir, error)
    sys.path[:] = [code] + [path for path in sys.path if path]
    import training.agent
    training.agent.code_changed = changed
    from training.agent.__main__ import main
    code = main(argv)
    sys.stderr.flush()
    os._exit(code)  # to take all down in order costs as much again as to start Python
"""
DIGEST = 16
"""Bytes of the digest that names the code."""
SETTLED = 2
"""Seconds without a change after which the state of the code's files is kept."""
_MAKING = threading.Lock()


@dataclass(frozen=True)
class Archive:
    """The package as one zip file, named by the digest of its files, of which there are `count`."""

    digest: str
    data: bytes
    count: int


def archive(package: Path = PACKAGE) -> Archive:
    """The archive of a package folder: equal files give equal bytes, whenever and wherever they
    were written."""
    with _MAKING:  # as dozens of hosts ask for it at once
        return _archive(package)


@cache
def _archive(package: Path) -> Archive:
    files = {}
    for path in sorted(path for path in package.rglob("*") if path.is_file()):
        if _travels(inner := path.relative_to(package)):
            files[f"{package.name}/{inner.as_posix()}"] = path.read_bytes()
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as bundle:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name)
            entry.compress_type = zipfile.ZIP_DEFLATED
            bundle.writestr(entry, data)
    return Archive(_digest(files), stream.getvalue(), len(files))


def _digest(files: Mapping[str, bytes]) -> str:
    """The digest of files by their names, as the program above makes it."""
    found = hashlib.blake2b(digest_size=DIGEST)
    for name in sorted(files):
        found.update(f"{name}\0{len(files[name])}\0".encode())
        found.update(files[name])
    return found.hexdigest()


def _travels(path: Path) -> bool:
    return path.suffix != ".pyc" and not any(
        part.startswith(".") or part == "__pycache__" for part in path.parts
    )


def bootstrap(
    python: str, workdir: str, archive: Archive, argv: Sequence[str], settled: int = SETTLED
) -> str:
    """The command for a host's login shell (sh, bash, zsh, csh or fish) that makes sure of the code
    and becomes the agent.

    `settled`: seconds without a change of the code until its state is kept, with which later starts
    compare it. All arguments lie inside the encoded program, so that no shell sees their spaces and
    quotes. `~` works in both paths.
    """
    oldest = ".".join(map(str, OLDEST))
    values = {
        "spoken": SPOKEN.decode(),
        "size": DIGEST,
        "oldest": OLDEST,
        "name": oldest,
        "settled": settled,
    }
    values["rest"] = repr(REST % values)
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
class Changed:
    """What had been unpacked in this folder was not as it had been sent; it has been replaced."""

    folder: str


@dataclass(frozen=True)
class Failed:
    """The host cannot do it: `reason` says why and what to do."""

    reason: str


@dataclass(frozen=True)
class Ready:
    """The agent speaks: `rest` are its first bytes after the marker."""

    rest: bytes


Step = Noise | Needed | Placed | Changed | Failed | Ready


class Talk:
    """What a host says from the start of the command to the agent's marker, as typed steps; no I/O.

    `echoed`: it has printed the program that it was to run.
    """

    def __init__(self, limits: Limits = LIMITS) -> None:
        self._limits = limits
        self._cutter = LineCutter(limits.banner)
        self._taken = 0
        self._needed = False
        self.echoed = False

    def feed(self, data: bytes) -> Iterator[Step]:
        """Take some bytes as they came; gives each step that they complete. Nothing may be fed
        after `Ready` or `Failed`."""
        self._taken += len(data)
        try:
            lines = self._cutter.feed(data)
        except LineTooLong:
            lines, self._taken = [], self._limits.banner + 1
        for number, line in enumerate(lines, start=1):
            noise, spoken, words = line.rstrip(b"\n").partition(SPOKEN)
            if line.endswith(MARKER):
                spoken, noise = MARKER, line.removesuffix(MARKER)
            text = noise.decode(errors="replace")
            self.echoed |= is_echo(text)
            if text := quoted(text):
                yield Noise(text)
            if spoken == MARKER:
                yield Ready(b"".join(lines[number:]) + self._cutter.rest)
                return
            if spoken:
                yield self._step(words.decode(errors="replace"))
        if self._taken > self._limits.banner:
            most = size(self._limits.banner)
            why = (
                f"its login shell, or its python, printed more than {most} before anything was "
                "started"
            )
            yield Failed(
                f"{why}; make its start-up files print nothing, or set python for it in hosts.toml"
            )

    def _step(self, words: str) -> Step:
        match words.split(" ", 1):
            case ["need"] if not self._needed:
                self._needed = True
                return Needed()
            case ["have"]:
                return Placed()
            case ["changed", folder]:
                return Changed(_one_line(folder))
            case ["error", reason]:
                return Failed(_one_line(reason)[: self._limits.shown])
        return Failed(f"its start said {quoted(words)!r}, which this version does not expect")


QUOTED = 200
"""Characters of what a host printed that a message has."""
_PROGRAM = re.compile(
    r"""(?:import binascii;exec\(binascii\.a2b_base64\(")?[A-Za-z0-9+/=]{80,}(?:"\)\))?"""
)


def quoted(text: str) -> str:
    """What a host printed, for a message: in one line, without the program that it was given, and
    cut."""
    text = _one_line(_PROGRAM.sub("…", text))
    return text if len(text) <= QUOTED else f"{text[: QUOTED - 1]}…"


def _one_line(text: str) -> str:
    from remote.sanitise import (
        one_line,
    )  # what it imports takes as long as all else here, and most hosts print nothing

    return one_line(text) if text.strip() else ""


def is_echo(text: str) -> bool:
    """Whether this holds the program: who got it to run has printed it, and so is no Python."""
    return bool(_PROGRAM.search(text))


def last_line(text: str) -> str:
    """The last line of what a program said on stderr: of a traceback the line that tells."""
    return text.strip().rpartition("\n")[2].strip()

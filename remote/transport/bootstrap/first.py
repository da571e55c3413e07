"""The program that every start of an agent runs on its host.

It refuses a workdir that another user owns or may write, checks the code there against its digest,
has it sent if it is missing or not as it was sent, and then becomes the agent, with stdin and
stdout as they are.

It must parse, and answer, under any Python that a host may have. Only what runs after the version
is checked may use what `OLDEST` has. Names in `rest` are called through `rest(name)`.
"""

from __future__ import annotations

from typing import Any as Any

# The host gets all below this line.
# isort: split
import gc
import os
import stat
import sys

REST = ""
SPOKEN = "rankboard-deploy 1 "
OLDEST = (3, 10)
DIGEST_SIZE = 16
SETTLED = 2
LEFT = b"\4"
SEAL = "compiled.digest"
STATE = "checked.state"


def say(text):
    # type: (str) -> None
    line = (SPOKEN + " ".join(text.split()) + "\n").encode("utf-8", "replace")
    while line:
        line = line[os.write(1, line) :]


def rest(name):
    # type: (str) -> Any
    if name not in globals():
        exec(REST, globals())
    return globals()[name]


# Who may change the code that is run here


def is_safe(status):
    # type: (os.stat_result) -> bool
    if status.st_uid != os.geteuid():
        return False
    return not (status.st_mode & 0o022 and rest("others_may_write")(status))


def check_above(path):
    # type: (str) -> None
    # who may write above the workdir could put another folder in its place
    while path != os.path.dirname(path):
        path = os.path.dirname(path)
        mode = os.stat(path).st_mode
        if mode & 0o002 and not mode & stat.S_ISVTX:
            rest("refuse_code")("any user may write %s, in which its workdir lies", path, "o-w")


# The code


def files_in(folder, name_prefix=""):
    # type: (str, str) -> list[tuple[str, int, int]]
    # each with its state: whatever changes a file sets its ctime
    if not is_safe(os.lstat(folder)):
        raise ValueError(folder)
    files = []
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            files += files_in(entry.path, name_prefix + entry.name + "/")
        else:
            state = entry.stat(follow_symlinks=False)
            files.append((name_prefix + entry.name, state.st_ino, state.st_ctime_ns))
    return files


def content(path):
    # type: (str) -> bytes
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or not is_safe(status):
            raise ValueError(path)
        return os.read(descriptor, status.st_size)
    finally:
        os.close(descriptor)


def is_intact(code, digest):
    # type: (str, str) -> bool
    # compared with the state in which all files had the digest; else all files are read now
    try:
        files = sorted([entry for entry in files_in(code) if entry[0] != STATE])
    except (OSError, ValueError, RuntimeError):
        return False
    state = digest + repr(files)
    if kept_state(code) == state:
        return True
    return bool(rest("has_digest")(code, digest, files, state))


def kept_state(code):
    # type: (str) -> str
    try:
        return content(os.path.join(code, STATE)).decode()
    except (OSError, ValueError):
        return ""


def place(workdir, digest, size):
    # type: (str, str, int) -> tuple[str, bool]
    workdir = os.path.expanduser(workdir)
    # compiled files are one Python's, so each Python has a folder of its own and looks nowhere else
    sys.pycache_prefix = None
    os.environ.pop("PYTHONPYCACHEPREFIX", None)
    python_tag = "%s-%s" % (sys.implementation.cache_tag, sys.flags.optimize)
    code = os.path.join(workdir, "code", "%s-%s" % (digest, python_tag))
    old_umask = os.umask(0o077)
    for folder in (workdir, os.path.dirname(code)):
        try:
            is_plain = is_safe(os.lstat(folder))
        except OSError:
            is_plain = False
        if not is_plain:
            rest("make_folder")(folder)
    for path in set([os.path.abspath(workdir), os.path.realpath(workdir)]):
        check_above(path)
    is_changed = not is_intact(code, digest) and bool(rest("fetch")(code, digest, size))
    os.umask(old_umask)
    say("have")
    return code, is_changed


def start(workdir, digest, size, argv):
    # type: (str, str, int, list[str]) -> None
    if sys.version_info < OLDEST:
        rest("refuse_python")()
    try:
        code, is_changed = place(workdir, digest, size)
    except OSError as error:
        rest("refuse_workdir")(workdir, error)
    gc.disable()  # until the agent enables it
    sys.path[:] = [code] + [path for path in sys.path if path]
    import training.agent

    training.agent.code_changed = is_changed
    from training.agent.__main__ import main

    exit_status = main(argv)
    sys.stderr.flush()
    os._exit(exit_status)  # an orderly end costs as much again as the start of Python

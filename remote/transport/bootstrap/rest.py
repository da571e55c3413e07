"""What few starts need: to fetch, unpack and compare the code, and to refuse.

On the host it runs in the names of `first`.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable as Iterable
from typing import NoReturn as NoReturn

from remote.transport.bootstrap.first import (
    DIGEST_SIZE,
    LEFT,
    OLDEST,
    SEAL,
    SETTLED,
    STATE,
    content,
    is_intact,
    say,
)

# The host gets all below this line.


def fail(cause, what, advice):
    # type: (str, str, str) -> NoReturn
    import json

    say("error %s %s" % (cause, json.dumps([what, advice])))
    sys.exit(3)


def refuse_python():
    # type: () -> NoReturn
    this_version = ".".join(map(str, sys.version_info[:3]))
    oldest_version = ".".join(map(str, OLDEST))
    fail(
        "python",
        "its python (%s) is %s, which is older than %s"
        % (sys.executable, this_version, oldest_version),
        'set python = "/path/to/python3" for it',
    )


def refuse_workdir(workdir, error):
    # type: (str, OSError) -> NoReturn
    import errno
    import json

    error_name = errno.errorcode.get(error.errno or 0, "")
    reason = error.strerror or str(error)
    if error.filename and error.filename != workdir:
        reason = "%s (%s)" % (reason, error.filename)
    say("unusable %s" % json.dumps([workdir, error_name, reason]))
    sys.exit(3)


def refuse_code(reason, path, mode=""):
    # type: (str, str, str) -> NoReturn
    advice = "set another workdir for it"
    if mode:
        advice = "chmod %s %s there, or %s" % (mode, path, advice)
    fail("code", "its code is not run: " + reason % path, advice)


# Who may change the code that is run here


def name_of(uid):
    # type: (int) -> str
    import pwd

    try:
        return "user %d (%s)" % (uid, pwd.getpwuid(uid).pw_name)
    except KeyError:
        return "user %d" % uid


def is_private(gid):
    # type: (int) -> bool
    # the group that many systems make for each user
    import grp
    import pwd

    try:
        user_entry = pwd.getpwuid(os.geteuid())
        group_entry = grp.getgrgid(gid)
    except KeyError:
        return False
    other_members = set(group_entry.gr_mem) - set([user_entry.pw_name])
    return (
        user_entry.pw_gid == gid and group_entry.gr_name == user_entry.pw_name and not other_members
    )


def others_may_write(status):
    # type: (os.stat_result) -> bool
    write_bits = status.st_mode & 0o022
    return bool(write_bits) and not (write_bits == 0o020 and is_private(status.st_gid))


def check_owner(path):
    # type: (str) -> None
    link_status = os.lstat(path)
    if stat.S_ISLNK(link_status.st_mode) and link_status.st_uid not in (0, os.geteuid()):
        refuse_code("the link %s belongs to " + name_of(link_status.st_uid), path)
    status = os.stat(path)
    if status.st_uid != os.geteuid():
        owner_names = name_of(status.st_uid) + ", and it runs as " + name_of(os.geteuid())
        refuse_code("%s belongs to " + owner_names, path)
    if others_may_write(status):
        mode = "%03o" % (status.st_mode & 0o777)
        refuse_code("other users may write %s (mode " + mode + ")", path, "go-w")


def make_folder(folder):
    # type: (str) -> None
    if not os.path.lexists(folder):
        os.makedirs(folder, 0o700, exist_ok=True)  # an ACL may take the place of the umask
    check_owner(folder)


# Comparing the code


def hashed(parts):
    # type: (Iterable[tuple[str, bytes]]) -> str
    try:
        from _blake2 import blake2b
    except ImportError:
        from hashlib import blake2b
    digest = blake2b(digest_size=DIGEST_SIZE)
    for name, data in parts:
        digest.update(("%s\0%d\0" % (name, len(data))).encode("utf-8", "surrogateescape"))
        digest.update(data)
    return str(digest.hexdigest())


def is_foreign(name):
    # type: (str) -> bool
    # compiled by another Python, such as that of a user's script, which this one never loads
    python_tag = str(sys.implementation.cache_tag)
    if sys.flags.optimize:
        python_tag += ".opt-%s" % sys.flags.optimize
    is_compiled = name.endswith(".pyc") and "/__pycache__/" in name
    return is_compiled and not name.endswith("." + python_tag + ".pyc")


def has_digest(code, digest, files, state):
    # type: (str, str, list[tuple[str, int, int]], str) -> bool
    # the sources as they were sent, what was compiled from them as it was written here
    try:
        names = [name for name, _, _ in files if name != SEAL and not is_foreign(name)]
        file_parts = [(name, content(os.path.join(code, name))) for name in names]
        seal = content(os.path.join(code, SEAL)).decode()
    except (OSError, ValueError, RuntimeError):
        return False
    compiled = [part for part in file_parts if part[0].endswith(".pyc")]
    sources = [part for part in file_parts if not part[0].endswith(".pyc")]
    if hashed(sources) != digest or hashed(compiled) != seal:
        return False
    keep_state(code, state, files)
    return True


def keep_state(code, state, files):
    # type: (str, str, list[tuple[str, int, int]]) -> None
    # for the next start, which then reads no file
    import tempfile
    import time

    newest_change = max([changed for _, _, changed in files]) / 1e9
    if time.time() - newest_change < SETTLED:
        return  # a change within the same tick of the disk's clock would not show
    path = ""
    try:
        file, path = tempfile.mkstemp(dir=os.path.dirname(code), prefix="state-")
        with open(file, "wb") as stream:
            stream.write(state.encode("utf-8", "surrogateescape"))
        os.rename(path, os.path.join(code, STATE))
    except OSError:  # each start then reads all files
        if os.path.lexists(path):
            os.unlink(path)


# Fetching the code


def receive(size):
    # type: (int) -> bytes
    parts = []
    while size:
        part = os.read(0, min(size, 65536))
        if not part:
            fail("broken", "the connection broke while the code was being sent", "try again")
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def lock(folder):
    # type: (str) -> int
    # a disk without locks has to do without
    import fcntl

    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:
        pass
    return descriptor


def fetch(code, digest, size):
    # type: (str, str, int) -> bool
    # returns whether there was other code
    had_code = os.path.lexists(code)
    say("need")
    data = receive(size)
    lock_descriptor = lock(os.path.dirname(code))
    if not is_intact(code, digest):  # else another launcher was faster
        unpack(data, code, digest)
        if not is_intact(code, digest):
            refuse_code("%s changes while it is written", code)
    os.close(lock_descriptor)
    if had_code:
        say("changed " + code)
    return had_code


def unpack(data, code, digest):
    # type: (bytes, str, str) -> None
    import shutil
    import tempfile

    files = files_of(data)
    if hashed(files) != digest:
        fail("broken", "the code arrived damaged, nothing was unpacked", "try again")
    parent_folder = os.path.dirname(code)
    new_folder, old_folder = [
        tempfile.mkdtemp(dir=parent_folder, prefix=prefix) for prefix in ("new-", "old-")
    ]
    try:
        compiled_parts = [
            part for name, source in files for part in write(new_folder, name, source, code)
        ]
        with open(os.path.join(new_folder, SEAL), "w") as file:
            file.write(hashed(sorted(compiled_parts)))
        close_to_others(new_folder)
        put_in_place(new_folder, old_folder, code, digest)
    finally:
        for folder in (new_folder, old_folder):
            shutil.rmtree(folder, ignore_errors=True)


def files_of(data):
    # type: (bytes) -> list[tuple[str, bytes]]
    import io
    import zipfile

    try:
        bundle = zipfile.ZipFile(io.BytesIO(data))
        return [(name, bundle.read(name)) for name in sorted(bundle.namelist())]
    except Exception:
        return []


def write(new_folder, name, source, code):
    # type: (str, str, bytes, str) -> list[tuple[str, bytes]]
    # returns what was compiled from it
    import py_compile

    path = os.path.join(new_folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(source)
    if not name.endswith(".py"):
        return []
    # Python need not compare it with its source, as both are checked at each start
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    final_path = os.path.join(code, name)
    try:
        compiled_path = str(
            py_compile.compile(path, None, final_path, True, invalidation_mode=mode)
        )
    except (py_compile.PyCompileError, NotImplementedError):  # for a newer Python; or none is kept
        return []
    with open(compiled_path, "rb") as file:
        return [(os.path.relpath(compiled_path, new_folder), file.read())]


def close_to_others(new_folder):
    # type: (str) -> None
    # an ACL of the folder above may have let others write
    for folder, _, names in os.walk(new_folder):
        os.chmod(folder, 0o700)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o600)


def put_in_place(new_folder, old_folder, code, digest):
    # type: (str, str, str, str) -> None
    is_there = os.path.lexists(code)
    if is_there and is_intact(code, digest):
        return  # another host was faster: on a shared disk, locks may hold for one host only
    try:
        if is_there and os.path.isdir(code) and not os.path.islink(code):
            os.rename(code, old_folder)
        elif is_there:
            os.unlink(code)
        os.rename(new_folder, code)
    except OSError:
        if not is_intact(code, digest):
            raise


# Staying as long as the agent runs


def stay():
    # type: () -> None
    # a fork goes on; this process stays as the parent of all that is started, until all has ended
    import ctypes

    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # what loses its parent becomes a child of this one
    child_pid = os.fork()
    if not child_pid:
        return
    null_device = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 2):
        os.dup2(null_device, stream)
    status = os.waitpid(child_pid, 0)[1]
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        say_left()
        os.dup2(null_device, 1)
        while True:
            os.wait()
    except OSError:  # there is no child any more
        os._exit(os.WEXITSTATUS(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status))


def say_left():
    # type: () -> None
    try:
        os.write(1, LEFT)
    except OSError:  # nobody listens any more
        pass

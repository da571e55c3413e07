"""What every Python program of a rank that is a user's own runs as it starts: its stacks can be
asked for from then on, and its training is watched once it imports torch.

Only this folder is put on PYTHONPATH, and it leaves the path again, so that all else is as it would
be without: the user's own `sitecustomize`, if there is one, runs next. As
`training.agent.host.stacks.register` does, whose module no user's program shall find. Any Python 3
may run this.
"""

import faulthandler
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any
SIGNAL = 49
HERE = os.path.dirname(os.path.abspath(__file__))
WATCH = os.path.normpath(os.path.join(HERE, "..", "..", "..", "watch", "__init__.py"))


def register() -> None:
    """Let this process report its stacks. A fork does it again: it shares the file of its parent,
    in which all of them would write."""
    if sys.platform != "linux":
        return
    try:
        path = os.path.join(os.environ["RANKBOARD_FOLDER"], "stacks", str(os.getpid()))
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.unlink(path)
    except (KeyError, OSError):  # it was given another environment, or may not write there
        return
    faulthandler.register(SIGNAL, file)


class ImportWatcher:
    """Finds no module, but hears of each import: so no line of ours is in what an import raises.
    Once torch is looked for, the watch is told of each."""

    def __init__(self, channel: str) -> None:
        self.channel = channel
        self.look = int  # does nothing

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if self.channel and name == "torch":
            channel = self.channel
            self.channel = ""
            try:
                self.look = watch().begin(channel)
            except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
                tell(channel, "cannot watch this program: " + repr(error))
        self.look()


def watch() -> "Any":
    """Import the package `training.watch`, under a name that leads to no other of ours."""
    from importlib.util import module_from_spec, spec_from_file_location

    module_name = "_rankboard_watch"
    package_folders = [os.path.dirname(WATCH)]
    spec = spec_from_file_location(module_name, WATCH, submodule_search_locations=package_folders)
    assert spec
    assert spec.loader
    module = sys.modules[module_name] = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tell(channel: str, text: str) -> None:
    number, pid, _ = channel.split(":")
    if pid == str(os.getpid()) and inode_of_pipe(number):
        os.write(int(number), ("rankboard: " + text + "\n").encode("utf-8", "replace"))


def inode_of_pipe(number: str) -> str:
    try:
        status = os.fstat(int(number))
    except (OSError, ValueError):
        return ""
    return str(status.st_ino) if stat.S_ISFIFO(status.st_mode) else ""


def listen() -> None:
    """Watch this process. The pipe is for whichever process of a rank comes first, also after an
    `exec`. What it starts finds the pipe by /proc, and reports once it turns out to be a worker."""
    channel = os.environ.get("RANKBOARD_EVENTS_FD", "")
    if os.environ.get("RANKBOARD_WATCH") != "1" or sys.version_info < (3, 9):
        return
    number, _, owner = channel.partition(":")
    own_pid = str(os.getpid())
    if owner.partition(":")[0] in ("", own_pid):
        inode = inode_of_pipe(number)
        if not inode:
            return
        channel = os.environ["RANKBOARD_EVENTS_FD"] = ":".join((number, own_pid, inode))
    elif sys.platform != "linux":
        return
    sys.meta_path.insert(0, ImportWatcher(channel))


def give_way() -> None:
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]
    our_module = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = our_module


register()
if hasattr(os, "register_at_fork"):  # from Python 3.7 on
    os.register_at_fork(after_in_child=register)
listen()
give_way()

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

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self.pid = os.getpid()
        self.look = int  # does nothing

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if self.pipe and name == "torch" and os.getpid() == self.pid:
            pipe = self.pipe
            self.pipe = 0
            try:
                self.look = watch().begin(pipe)
            except Exception as error:  # noqa: BLE001 - whatever it is, the program goes on
                tell(pipe, "cannot watch this program: " + repr(error))
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


def tell(pipe: int, text: str) -> None:
    if is_pipe(pipe):
        os.write(pipe, ("rankboard: " + text + "\n").encode("utf-8", "replace"))


def is_pipe(number: int) -> bool:
    try:
        return stat.S_ISFIFO(os.fstat(number).st_mode)
    except OSError:
        return False


def listen() -> None:
    """Watch this process, unless another one of this rank is watched already: the pipe is for
    whichever comes first, also after an `exec`, and not for its children."""
    number, _, pid = os.environ.get("RANKBOARD_EVENTS_FD", "").partition(":")
    if os.environ.get("RANKBOARD_WATCH") != "1" or sys.version_info < (3, 9):
        return
    own_pid = str(os.getpid())
    if number.isdigit() and pid in ("", own_pid) and is_pipe(int(number)):
        os.environ["RANKBOARD_EVENTS_FD"] = number + ":" + own_pid
        sys.meta_path.insert(0, ImportWatcher(int(number)))


def give_way() -> None:
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != HERE]
    our_module = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = our_module


if sys.platform == "linux":
    register()
listen()
give_way()

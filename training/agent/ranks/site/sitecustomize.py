"""What every Python program of a rank that is a user's own runs as it starts: its stacks can be
asked for from then on.

Only this folder is put on PYTHONPATH, and it leaves the path again, so that all else is as it would
be without: the user's own `sitecustomize`, if there is one, runs next. As
`training.agent.host.stacks.register` does, whose module no user's program shall find. Any Python 3
may run this.
"""

import faulthandler
import os
import sys

SIGNAL = 49


def register() -> None:
    try:
        path = os.path.join(os.environ["RANKBOARD_FOLDER"], "stacks", str(os.getpid()))
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
        os.unlink(path)
    except (KeyError, OSError):  # it was given another environment, or may not write there
        return
    faulthandler.register(SIGNAL, file)


def give_way() -> None:
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [path for path in sys.path if os.path.abspath(path) != here]
    ours = sys.modules.pop("sitecustomize")
    try:
        __import__("sitecustomize")
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
        sys.modules["sitecustomize"] = ours


if sys.platform == "linux":
    register()
give_way()

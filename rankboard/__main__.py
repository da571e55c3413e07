"""`python -m rankboard`, and the command `rankboard`."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).absolute().parent
PRIVATE = HERE / "_code"
"""Where the wheel has our code, so that a user's own `training` or `remote` can be installed beside
it."""
CODE = PRIVATE if PRIVATE.is_dir() else HERE.parent
"""The folder that contains our code. Of a checkout it is the top level."""


def main() -> None:
    """Run the command."""
    # Before the working directory, PYTHONPATH and the installed packages, any of which may have
    # packages of these names.
    sys.path.insert(0, str(CODE))
    from tui import main as run_command

    run_command()


if __name__ == "__main__":
    main()

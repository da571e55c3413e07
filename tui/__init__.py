"""The user interface: the command line, the printers and the dashboard."""

import os
import signal
import sys

from tui.kit.interpreter import collect_seldom


def main() -> None:
    """Run the `rankboard` command. Importing it here lets Ctrl+C end it without a traceback."""
    collect_seldom()
    try:
        from tui.commands.cli import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader of the output went away, such as head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    finally:
        # A late Ctrl+C must not change the exit code while Python ends.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

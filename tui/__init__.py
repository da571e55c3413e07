"""The user interface: the command line, the printers and the dashboard."""

import gc
import signal

GARBAGE = 50_000
"""New objects after which Python looks for garbage. With its own 700, it would search all modules
over and over while they load. To search all lines of a log takes as long as several frames."""


def main() -> None:
    """Run the `rankboard` command. Importing it here lets Ctrl+C end it without a traceback."""
    gc.set_threshold(GARBAGE, *gc.get_threshold()[1:])
    try:
        from tui.commands.cli import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # a late Ctrl-C does not change the exit code while Python ends

"""The user interface: the command line, the printers and the dashboard."""

import signal


def main() -> None:
    """Run the `rankboard` command. Importing it here lets Ctrl+C end it without a traceback."""
    try:
        from tui.cli import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # a late Ctrl-C does not change the exit code while Python ends

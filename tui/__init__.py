"""Everything a person sees: the command line, the headless printer and the dashboard."""

import signal


def main() -> None:
    """The `rankboard` command. What it needs is imported here, so that Ctrl-C in that time is no
    traceback either."""
    try:
        from tui.cli import main as command

        command()
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    finally:
        signal.signal(
            signal.SIGINT, signal.SIG_IGN
        )  # a late Ctrl-C does not change the exit code while Python ends

"""Where the code that runs at this moment believes to be: on which simulated host, or in which
launcher. What it asks of `time` and `os` is answered accordingly."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.host import Host
    from tests.simulation.launcher import Launcher
    from tests.simulation.loop import Loop


class Here:
    """The world, and the host or launcher whose code runs."""

    loop: Loop
    host: Host
    launcher: Launcher


here = Here()


class HostTime:
    """The module `time` for an agent."""

    @staticmethod
    def monotonic() -> float:
        return here.loop.now

    @staticmethod
    def time() -> float:
        return here.loop.now + here.host.skew


class LauncherTime:
    """The module `time` for a session."""

    @staticmethod
    def monotonic() -> float:
        return here.loop.now - here.launcher.machine.slept

    @staticmethod
    def time() -> float:
        return here.loop.now + here.launcher.machine.skew

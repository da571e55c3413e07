"""The panels of the run screen, in the order of their keys: 1, 2, and so on. A panel is one file here and its place below."""

from tui.panels.cpu import Cpu
from tui.panels.hosts import Hosts
from tui.panels.log import Log
from tui.panels.loss import Loss
from tui.panels.panel import Panel
from tui.panels.ranks import Ranks
from tui.panels.seconds import Seconds

PANELS: tuple[type[Panel], ...] = (Ranks, Hosts, Loss, Seconds, Cpu, Log)

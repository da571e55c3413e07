"""The panels of the run screen, in the order of their keys: 1, 2, and so on.

A panel is one file here, and one entry below. The panels of a row stand together, and the rows in
the order of the screen.
"""

from tui.charts.panel import Charts
from tui.kit.panel import Panel
from tui.log.panel import LogPanel
from tui.run.hosts_panel import HostsPanel
from tui.run.ranks_panel import RanksPanel

PANELS: tuple[type[Panel], ...] = (RanksPanel, HostsPanel, Charts, LogPanel)

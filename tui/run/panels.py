"""The panels of the run screen, in the order of the screen.

A panel is one file here, and an entry in both lists; `tui.run.layout` gives it its place.
"""

from tui.charts.panel import Charts
from tui.kit.panel import Panel
from tui.log.panel import LogPanel
from tui.run.hosts_panel import HostsPanel
from tui.run.rank_map_panel import RankMapPanel
from tui.run.ranks_panel import RanksPanel

PANELS: tuple[type[Panel], ...] = (Charts, RankMapPanel, RanksPanel, HostsPanel, LogPanel)
KEY_ORDER: tuple[type[Panel], ...] = (RanksPanel, LogPanel, Charts, RankMapPanel, HostsPanel)
"""The panels in the order of their keys: those that every screen has room for come first, so that
they have the same keys on all, and numbers have no holes."""

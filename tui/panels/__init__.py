"""The panels of the run screen, in the order of their keys: 1, 2, and so on.

A panel is one file here, and one entry below. The panels of a row stand together, and the rows in
the order of the screen. Panels that do not suit a run are left out.
"""

from tui.panels.charts import Charts
from tui.panels.hosts import Hosts
from tui.panels.log import Log
from tui.panels.parts.panel import Panel
from tui.panels.ranks import Ranks

PANELS: tuple[type[Panel], ...] = (Ranks, Hosts, Charts, Log)

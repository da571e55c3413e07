"""No module of the product imports itself, over however many others."""

from __future__ import annotations

from graphlib import CycleError, TopologicalSorter

import grimp
import pytest


def order(imports: dict[str, set[str]]) -> None:
    """Raises: CycleError, where modules import each other in a circle."""
    list(TopologicalSorter(imports).static_order())


def test_no_module_imports_itself_over_others() -> None:
    graph = grimp.build_graph("tui", "remote", "training", cache_dir=None)
    order({module: graph.find_modules_directly_imported_by(module) for module in graph.modules})


def test_a_circle_is_found() -> None:
    with pytest.raises(CycleError):
        order({"a": {"b"}, "b": {"c"}, "c": {"a"}})

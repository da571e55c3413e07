"""At which line of a TOML file a key stands."""

from __future__ import annotations

import pytest

from remote.cluster.toml_lines import find_line, find_lines

TEXT = """\
# a comment
title = "a [host] in a text"

[cluster]
name = '''
[defaults]
name = "of a text"
'''
sync = [
  "a",  # the first
  "b",
]
[defaults]
env = { A = "1", B = "2" }
[[host]]
"name" = "n1"
[[ host ]]
name = "n2"
env.C = "3"
[host.env]
D = "4"
[[format]]
line = 'x = [ {loss}'
"""


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("title",), 2),
        (("cluster",), 4),
        (("cluster", "name"), 5),
        (("cluster", "sync"), 9),
        (("cluster", "sync", 1), 9),
        (("defaults", "env", "B"), 14),
        (("host", 0), 15),
        (("host", 0, "name"), 16),
        (("host", 1, "name"), 18),
        (("host", 1, "slots"), 17),
        (("host", 1, "env", "C"), 19),
        (("host", 1, "env", "D"), 21),
        (("format", 0, "line"), 23),
        (("host", 2, "name"), 15),
        (("missing", "name"), 0),
    ],
)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_the_line_of_a_key(path: tuple[str | int, ...], line: int, end: str) -> None:
    assert find_line(find_lines(TEXT.replace("\n", end)), *path) == line


def test_tables_may_stand_in_a_list() -> None:
    lines = find_lines('host = [ { name = "a" },\n { name = "b" } ]\nx = 1\n')
    assert find_line(lines, "host", 1, "name") == 1
    assert find_line(lines, "x") == 3

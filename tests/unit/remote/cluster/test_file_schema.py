"""The schemas for editors: they accept what the readers accept, and refuse what these refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import tomllib

from remote.cluster.file_schema import FILES, make_file_schema
from remote.cluster.hosts import HostsError, host_keys
from remote.cluster.load import load
from remote.cluster.value_schemas import fits_schema

jsonschema = pytest.importorskip("jsonschema")
HOST = '[[host]]\nname = "a"\n'


def is_valid(text: str, file_name: str = "hosts.toml") -> bool:
    """Whether an editor finds nothing wrong in a file."""
    validator = jsonschema.Draft202012Validator(make_file_schema(file_name))
    return bool(validator.is_valid(tomllib.loads(text)))


def is_read(tmp_path: Path, text: str) -> bool:
    """Whether rankboard finds nothing wrong in a hosts file."""
    (tmp_path / "hosts.toml").write_text(text)
    try:
        load(tmp_path / "hosts.toml", tmp_path / "none")
    except HostsError:
        return False
    return True


@pytest.mark.parametrize("file_name", FILES)
def test_a_schema_is_one(file_name: str) -> None:
    jsonschema.Draft202012Validator.check_schema(make_file_schema(file_name))


@pytest.mark.parametrize(
    ("text", "is_right"),
    [
        (HOST, True),
        ('[[host]]\naddress = "10.0.0.1"\nport = 22\njump = "ada@gate:22,b"\n', True),
        (f'[cluster]\nname = "lab"\non_disconnect = "keep"\nsync = ["a"]\n{HOST}', True),
        (f'[defaults]\nenv = {{ A = "1" }}\nenv_from = ["B"]\ntimeout = 1.5\n{HOST}', True),
        (f"{HOST}[[format]]\nline = 'x {{loss}}'\nkind = \"step\"\n", True),
        ("", False),
        ("[[host]]\nslots = 1\n", False),
        ('[host]\nname = "a"\n', False),
        (f'[defaults]\nname = "a"\n{HOST}', False),
        (f'{HOST}port = "22"\n', False),
        (f"{HOST}port = 0\n", False),
        (f"{HOST}slots = true\n", False),
        (f"{HOST}timeout = 0\n", False),
        (f'{HOST}user = ""\n', False),
        (f'{HOST}adress = "b"\n', False),
        (f'{HOST}jump = "a b"\n', False),
        (f'{HOST}jump = "a"\nproxy_command = "b"\n', False),
        (f'{HOST}transport = "deploy"\n', False),
        (f'{HOST}env = {{ "A B" = "1" }}\n', False),
        (f"{HOST}env = {{ A = 1 }}\n", False),
        (f'{HOST}env_from = ["A=1"]\n', False),
        (f'[cluster]\non_disconnect = "ask"\n{HOST}', False),
        (f"{HOST}[[format]]\nname = 'a'\n", False),
        (f"{HOST}[[format]]\nline = 'x {{loss}}'\nkind = 'x'\n", False),
        (f"[clusters]\n{HOST}", False),
    ],
)
def test_an_editor_and_rankboard_agree(tmp_path: Path, text: str, is_right: bool) -> None:
    assert (is_valid(text), is_read(tmp_path, text)) == (is_right, is_right)


VALUES: list[Any] = [
    *("", "a", "a b", "ada@gate:22", "a,b", "ssh", "A_1", "\0", "1"),
    *(True, False, 0, 1, -1, 22, 65535, 65536, 4096, 4097, 2**32, 0.5, -0.5),
    *([], ["A"], [""], ["A", 1], [["A"]], {}, {"A": "1"}, {"A": 1}, {"A B": "1"}, {"A": "\0"}),
]


@pytest.mark.parametrize("key", [key.name for key in host_keys()])
def test_each_value_is_judged_alike(key: str) -> None:
    schema = next(field.metadata["schema"] for field in host_keys() if field.name == key)
    validator = jsonschema.Draft202012Validator(schema)
    for value in VALUES:
        assert fits_schema(value, schema) == validator.is_valid(value), value


def test_the_example_of_hosts_is_valid() -> None:
    assert is_valid((Path(__file__).parents[4] / "hosts.toml").read_text())


def test_rules_have_a_file_of_their_own() -> None:
    assert is_valid("[[format]]\nline = 'x {loss}'\n", "rankboard.toml")
    assert not is_valid(HOST, "rankboard.toml")


def test_a_key_says_what_to_write_and_its_default() -> None:
    host_table = make_file_schema("hosts.toml")["properties"]["host"]["items"]
    port = host_table["properties"]["port"]
    assert port["default"] == 22
    assert "a whole number from 1 to 65535" in port["description"]
    assert set(host_table["properties"]) == {key.name for key in host_keys()}

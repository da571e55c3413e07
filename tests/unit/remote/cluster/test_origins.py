"""Where each setting of a host comes from."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.cluster.hosts import host_keys
from remote.cluster.load import load
from remote.cluster.origins import DEFAULT, Origin, Setting, find_settings

HOSTS = """\
[cluster]
on_disconnect = "keep"
[defaults]
user = "ada"
proxy_command = "nc %h %p"
env = { A = "1", B = "2" }
env_from = ["KEY"]
[[host]]
name = "near"
slots = 2
[[host]]
address = "10.0.0.2"
user = "eve"
jump = "gate"
[host.env]
B = "3"
[[format]]
line = 'x {loss}'
"""
SSH_CONFIG = """\
# my hosts
Host far
    User nobody
Host near
    HostName 10.0.0.1
    User grace
    Port 2222
Host *
    Port 99
"""


def find(tmp_path: Path, text: str, name: str = "hosts.toml") -> list[Setting]:
    """The settings of a hosts file, with the names of files alone."""
    (tmp_path / name).write_text(text)
    (tmp_path / "config").write_text(SSH_CONFIG)
    cluster = load(tmp_path / name, tmp_path / "config")
    return list(find_settings(cluster, tmp_path / "config"))


def origins(settings: list[Setting], folder: Path) -> dict[tuple[str, str], tuple[object, ...]]:
    """Value and origin of each setting that somebody has set."""
    told = {}
    for setting in settings:
        if setting.origin != DEFAULT:
            origin = setting.origin
            file = origin.file.removeprefix(f"{folder}/")
            told[setting.owner, setting.key] = (setting.value, file, origin.line, origin.key)
    return told


def test_each_value_has_the_place_that_sets_it(tmp_path: Path) -> None:
    assert origins(find(tmp_path, HOSTS), tmp_path) == {
        ("[cluster]", "on_disconnect"): ("keep", "hosts.toml", 2, "[cluster] on_disconnect"),
        ("near", "name"): ("near", "hosts.toml", 9, "[[host]] name"),
        ("near", "address"): ("10.0.0.1", "config", 5, "HostName"),
        ("near", "user"): ("ada", "hosts.toml", 4, "[defaults] user"),
        ("near", "port"): (2222, "config", 7, "Port"),
        ("near", "proxy_command"): ("nc %h %p", "hosts.toml", 5, "[defaults] proxy_command"),
        ("near", "slots"): (2, "hosts.toml", 10, "[[host]] slots"),
        ("near", "env.A"): ("1", "hosts.toml", 6, "[defaults] env.A"),
        ("near", "env.B"): ("2", "hosts.toml", 6, "[defaults] env.B"),
        ("near", "env_from"): ("KEY", "hosts.toml", 7, "[defaults] env_from"),
        ("10.0.0.2", "name"): ("10.0.0.2", "hosts.toml", 12, "[[host]] address"),
        ("10.0.0.2", "address"): ("10.0.0.2", "hosts.toml", 12, "[[host]] address"),
        ("10.0.0.2", "user"): ("eve", "hosts.toml", 13, "[[host]] user"),
        ("10.0.0.2", "port"): (99, "config", 9, "Port"),
        ("10.0.0.2", "jump"): ("gate", "hosts.toml", 14, "[[host]] jump"),
        ("10.0.0.2", "env.A"): ("1", "hosts.toml", 6, "[defaults] env.A"),
        ("10.0.0.2", "env.B"): ("3", "hosts.toml", 16, "[[host]] env.B"),
        ("10.0.0.2", "env_from"): ("KEY", "hosts.toml", 7, "[defaults] env_from"),
        ("format 1", "line"): ("x {loss}", "hosts.toml", 18, "[[format]] line"),
    }


def test_what_nobody_sets_is_a_default(tmp_path: Path) -> None:
    settings = find(tmp_path, '[[host]]\nname = "a"\ntransport = "local"\n')
    keys = {setting.key for setting in settings if setting.owner == "a"}
    assert keys == {key.name for key in host_keys()} - {"env", "env_from"}
    set_keys = {setting.key for setting in settings if setting.origin != DEFAULT}
    assert set_keys == {"name", "address", "transport"}


def test_hosts_of_a_hostfile_have_lines(tmp_path: Path) -> None:
    settings = find(tmp_path, "# mine\nb slots=4\na\nb2:2\n", "hostfile")
    slots = {setting.owner: setting for setting in settings if setting.key == "slots"}
    assert [(name, one.value, one.origin.line) for name, one in slots.items()] == [
        ("b", 4, 2),
        ("a", 1, 3),
        ("b2", 2, 4),
    ]
    assert slots["b"].origin.key == "slots"


@pytest.mark.parametrize("line", ["Host", "Host near\n Port x", ""])
def test_a_broken_configuration_of_ssh_sets_nothing(tmp_path: Path, line: str) -> None:
    (tmp_path / "hosts.toml").write_text('[[host]]\nname = "near"\n')
    (tmp_path / "config").write_text(line)
    cluster = load(tmp_path / "hosts.toml", tmp_path / "config")
    files = {setting.origin.file for setting in find_settings(cluster, tmp_path / "config")}
    assert files == {"", str(tmp_path / "hosts.toml")}
    assert Origin() == DEFAULT

"""The hosts file that is handed on: it is read back, and has nothing that is private."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from remote.cluster.hosts import Host
from remote.cluster.load import load
from remote.cluster.shared_hosts import SharedHosts, share_hosts

SECRETS = Host(
    "node1",
    "10.10.1.1",
    user="ada",
    port=2222,
    identity_file="~/.ssh/thesis",
    known_hosts="~/hosts-of-the-lab",
    proxy_command="nc -x hunter2 %h %p",
    python="/home/ada/venv/bin/python3",
    workdir="/scratch/quota",
    threads=4,
    slots=2,
    interface="eth1",
    env=(("API_KEY", "hunter3"), ("NCCL_DEBUG", "INFO")),
    env_from=("WANDB_API_KEY",),
)


def read_back(shared: SharedHosts, folder: Path) -> tuple[Host, ...]:
    path = folder / "hosts.toml"
    path.write_text(shared.text)
    return load(path, folder / "no-ssh-config").hosts


def test_what_is_private_is_left_out_and_named(tmp_path: Path) -> None:
    hosts = (SECRETS, replace(SECRETS, name="node2", address="10.10.1.2", jump="ada@gateway"))
    shared = share_hosts(hosts)
    for private in ("ada", "thesis", "hosts-of", "hunter", "/home", "quota", "gateway", "INFO"):
        assert private not in shared.text
    assert {*shared.missing_keys} == {
        *("user", "identity_file", "known_hosts", "jump", "proxy_command", "python", "workdir"),
        *("env", "env_from"),
    }
    assert '# user = "…"' in shared.text
    assert '# env = { API_KEY = "…", NCCL_DEBUG = "…" }' in shared.text
    assert '# env_from = ["WANDB_API_KEY"]' in shared.text
    kept = {"port": 2222, "threads": 4, "slots": 2, "interface": "eth1"}
    assert read_back(shared, tmp_path) == (
        Host("node1", "10.10.1.1", **kept),
        Host("node2", "10.10.1.2", **kept),
    )


@pytest.mark.parametrize(
    "folder",
    ["/home/s1234567", "/nfs/home/s1234567", "/Users/s1234567", "/users/s1234567", "~s1234567"],
)
def test_folders_of_users_are_private_also_if_no_user_is_known(folder: str) -> None:
    host = Host("node1", "10.10.1.1", python=f"{folder}/venv/bin/python", cwd=folder)
    shared = share_hosts((host,))
    assert "s1234567" not in shared.text
    assert {*shared.missing_keys} == {"python", "cwd"}


@pytest.mark.parametrize("folder", ["~", "/data/home", "/opt/userspace", "users/code"])
def test_folders_of_nobody_are_kept(folder: str, tmp_path: Path) -> None:
    host = Host("node1", "10.10.1.1", python="~/venv/bin/python", cwd=folder)
    shared = share_hosts((host,))
    assert shared.missing_keys == ()
    assert f'cwd = "{folder}"' in shared.text


def test_what_makes_the_same_runs_is_kept(tmp_path: Path) -> None:
    hosts = (
        Host("node1", "10.10.1.1", python="/opt/venv/bin/python3", cwd="/data/project", threads=2),
        Host("node2", "10.10.1.2", python="python3.12", cwd="/data/project", slots=2, threads=1),
    )
    shared = share_hosts(hosts)
    assert shared.missing_keys == ()
    assert "…" not in shared.text
    assert read_back(shared, tmp_path) == hosts


def test_hosts_that_are_this_machine_have_no_folder_of_it(tmp_path: Path) -> None:
    """The launcher gives each run of theirs a folder of its own."""
    here = Host(
        "node0",
        "127.0.0.1",
        transport="local",
        python="/opt/venv/bin/python3",
        workdir="/home/ada/homework/runs/a-run/node",
        cwd="/home/ada/homework",
        threads=1,
        interface="lo",
    )
    shared = share_hosts((here, replace(here, name="node1")))
    assert shared.missing_keys == ()
    assert "homework" not in shared.text
    hosts = read_back(shared, tmp_path)
    assert [(host.threads, host.python) for host in hosts] == [(1, here.python)] * 2


def test_hosts_of_which_only_the_names_are_known(tmp_path: Path) -> None:
    """A plan that somebody else has recorded has no addresses."""
    hosts = read_back(share_hosts((Host("node1", ""), Host("node2", "", slots=2))), tmp_path)
    assert hosts == (Host("node1", "node1"), Host("node2", "node2", slots=2))


def test_folders_to_upload_are_relative_to_the_file(tmp_path: Path) -> None:
    (tmp_path / "configuration").mkdir()
    path = tmp_path / "configuration" / "hosts.toml"
    path.write_text(share_hosts((Host("node1", "10.10.1.1"),), ["../code"]).text)
    assert load(path).sync == (str(tmp_path / "code"),)

"""Hosts as other launchers take them."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.cluster.hosts import HostsError
from remote.cluster.load import load, load_named, load_usual

NO_CONFIG = Path("/no/ssh/config")

DEEPSPEED = """\
# two workers
worker-1 slots=4

worker-2 slots=8  # the large one
"""
OPEN_MPI = """\
node1.example.org slots=4 max_slots=8
ada@10.0.0.2 slots = 2
node3
"""
MPICH = "a:4\n[fe80::1]:2\nb\n"
PBS = "n1\nn1\nn2\nn2\nn1\n"


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        (DEEPSPEED, [("worker-1", "", 4), ("worker-2", "", 8)]),
        (OPEN_MPI, [("node1.example.org", "", 4), ("10.0.0.2", "ada", 2), ("node3", "", 1)]),
        (MPICH, [("a", "", 4), ("fe80::1", "", 2), ("b", "", 1)]),
        (PBS, [("n1", "", 3), ("n2", "", 2)]),
    ],
)
def test_hostfiles(tmp_path: Path, text: str, hosts: list[tuple[str, str, int]]) -> None:
    (tmp_path / "hostfile").write_text(text)
    cluster = load(tmp_path / "hostfile", NO_CONFIG)
    assert [(host.address, host.user, host.slots) for host in cluster.hosts] == hosts
    assert {host.transport for host in cluster.hosts} == {"ssh"}
    assert cluster.file == str(tmp_path / "hostfile")


def test_a_host_list() -> None:
    hosts = load_named("a:4, ada@b:2,c", NO_CONFIG).hosts
    found = [(host.name, host.address, host.user, host.slots) for host in hosts]
    assert found == [("a", "a", "", 4), ("b", "b", "ada", 2), ("c", "c", "", 1)]


def test_mistakes_name_file_and_line(tmp_path: Path) -> None:
    file = tmp_path / "hostfile"
    file.write_text("a slots=4\n# b\nb slots=many\nc gpus=2\na slots=2\n,\nd 4\n")
    with pytest.raises(HostsError) as caught:
        load(file, NO_CONFIG)
    assert str(caught.value).splitlines() == [
        f"{file}, line 3: 'many' is not a number of ranks: write one from 1 to 4096, as in "
        "a slots=4",
        f"{file}, line 4: gpus means nothing here: write a slots=4",
        f"{file}, line 5: a is there already ({file}, line 1): name it once, with all its slots",
        f"{file}, line 6: ',' is not a host: write a slots=4",
        f"{file}, line 7: 'd 4' is not a host: write a slots=4",
    ]


@pytest.mark.parametrize("words", ["a:x", "a:0", "a,,b", "a:4,a:2", "a:"])
def test_a_wrong_list_says_what_to_write(words: str) -> None:
    with pytest.raises(HostsError, match=r"^-H .*: "):
        load_named(words, NO_CONFIG)


@pytest.mark.parametrize("text", ['address = "a"\n', "[[host]\n", "", "name = lab\n"])
def test_what_is_no_hostfile_is_read_as_toml(tmp_path: Path, text: str) -> None:
    (tmp_path / "hosts.toml").write_text(text)
    with pytest.raises(HostsError, match=r"TOML|no host yet|unknown table|put the text in quotes"):
        load(tmp_path / "hosts.toml", NO_CONFIG)


def test_the_node_file_of_a_pbs_job_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nodes").write_text(PBS)
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert [(host.name, host.slots) for host in load_usual().hosts] == [("n1", 3), ("n2", 2)]

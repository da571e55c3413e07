"""The hosts file: what it gives, what ssh's configuration adds, and what it says to mistakes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from remote.cluster.hosts import (
    TRANSPORTS,
    Cluster,
    Host,
    HostsError,
    host_keys,
    hosts_option,
    select,
)
from remote.cluster.load import load

NOWHERE = Path("/nonexistent/config")


def read(tmp_path: Path, text: str, ssh_config: str | None = None) -> Cluster:
    (tmp_path / "hosts.toml").write_text(text)
    if ssh_config is not None:
        (tmp_path / "config").write_text(ssh_config)
    return load(tmp_path / "hosts.toml", tmp_path / "config")


def mistakes(tmp_path: Path, text: str) -> list[str]:
    with pytest.raises(HostsError) as caught:
        read(tmp_path, text)
    return str(caught.value).replace(f"{tmp_path}/", "").splitlines()


def test_file_gives_hosts_in_order_over_the_defaults(tmp_path: Path) -> None:
    cluster = read(
        tmp_path,
        '[cluster]\nname = "lab"\n[defaults]\nuser = "ada"\nslots = 2\ntimeout = 3\n'
        '[[host]]\nname = "b"\naddress = "10.0.0.2"\nslots = 4\n[[host]]\naddress = '
        '"10.0.0.1"\n[[host]]\nname = "c"\n',
    )
    assert cluster == Cluster(
        "lab",
        (
            Host("b", "10.0.0.2", user="ada", slots=4, timeout=3),
            Host("10.0.0.1", "10.0.0.1", user="ada", slots=2, timeout=3),
            Host("c", "c", user="ada", slots=2, timeout=3),
        ),
    )


def test_a_host_may_name_its_transport(tmp_path: Path) -> None:
    text = '[defaults]\ntransport = "local"\n[[host]]\nname = "a"\n[[host]]\nname = "b"\n'
    cluster = read(tmp_path, text + 'transport = "ssh"\n', "Host *\n  User ada\n")
    found = [(host.transport, host.user) for host in cluster.hosts]
    assert found == [("local", ""), ("ssh", "ada")]
    assert mistakes(tmp_path, '[[host]]\nname = "a"\ntransport = "../ssh"\n') == [
        'hosts.toml: line 3: host 1 (a): transport = "../ssh" is wrong: write the name of a '
        "transport in "
        f"quotes, one of {', '.join(TRANSPORTS)}"
    ]
    with pytest.raises(HostsError, match="transport = 'deploy': write the name of a "):
        Host("a", "a", transport="deploy")


def test_the_example_in_the_repository_is_right() -> None:
    cluster = load(Path(__file__).parents[4] / "hosts.toml", NOWHERE)
    assert [host.name for host in cluster.hosts] == ["node1", "node2", "node3", "node4"]
    assert cluster.hosts[2].jump == "ada@gateway.example.org:22"


def test_every_field_of_a_host_is_a_key_and_says_what_to_write(tmp_path: Path) -> None:
    for key in host_keys():
        wrong = f"[defaults]\n{key.name} = [[]]\n[[host]]\nname = 'a'\n"
        (mistake,) = mistakes(tmp_path, wrong)
        assert f"{key.name} = [[]] is wrong: write {key.metadata['write']}" in mistake


def test_what_is_in_sync_is_taken_from_the_folder_of_the_file(tmp_path: Path) -> None:
    cluster = read(tmp_path, '[cluster]\nsync = ["src", "../x", "/y"]\n[[host]]\nname = "a"\n')
    assert cluster.sync == (str(tmp_path / "src"), str(tmp_path.parent / "x"), "/y")
    (told,) = mistakes(tmp_path, '[cluster]\nsync = "src"\n[[host]]\nname = "a"\n')
    assert told.startswith(
        'hosts.toml: line 2: [cluster]: sync = "src" is wrong: write folders of this machine in '
        "quotes"
    )


def test_all_mistakes_at_once_each_with_its_place(tmp_path: Path) -> None:
    text = """
        [cluster]
        nam = "lab"
        [defaults]
        user = 3
        name = "all"
        [[host]]
        adress = "10.0.0.1"
        port = "22"
        [[host]]
        name = "node2"
        slots = true
        timeout = 0
        [[host]]
        name = "node2"
        jump = "a b"
        [[host]]
        threads = 1
        [[host]]
        name = "node5"
        jump = "gate"
        proxy_command = "nc %h %p"
    """
    assert mistakes(tmp_path, text) == [
        "hosts.toml: line 3: [cluster]: unknown key 'nam': did you mean 'name'?",
        "hosts.toml: line 5: [defaults]: user = 3 is wrong: write a login name in quotes, such "
        "as user = "
        '"ada"',
        "hosts.toml: line 6: [defaults]: name belongs to one host: write it in its [[host]]",
        "hosts.toml: line 8: host 1: unknown key 'adress': did you mean 'address'?",
        'hosts.toml: line 9: host 1: port = "22" is wrong: write a whole number from 1 to '
        "65535, such as "
        "port = 22",
        "hosts.toml: line 12: host 2 (node2): slots = true is wrong: write a whole number from 1 "
        "to 4096, such as slots = 1",
        "hosts.toml: line 13: host 2 (node2): timeout = 0 is wrong: write a finite number of "
        "seconds above "
        "0, such as timeout = 10",
        "hosts.toml: line 15: host 3 (node2): host 2 has this name already: give each host a "
        "name of its "
        "own",
        'hosts.toml: line 16: host 3 (node2): jump = "a b" is wrong: write [user@]host[:port] '
        "in quotes, "
        'such as jump = "ada@gateway:22"',
        "hosts.toml: line 17: host 4: it has no address: write a name or an IP address in "
        "quotes, such as "
        'address = "10.10.1.1"',
        "hosts.toml: line 21: host 5 (node5): jump and proxy_command exclude each other: keep one",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no host yet: write [[host]]"),
        ("[defaults]\nport = 22", "no host yet: write [[host]]"),
        (
            "[[host]]\nname = 'a'\nranks = 2",
            "line 3: host 1 (a): unknown key 'ranks': write 'slots'",
        ),
        ("[[host]]\nhostname = 'a'", "line 2: host 1: unknown key 'hostname': write 'address'"),
        (
            "[cluster]\nknown_hosts = 'k'\n[[host]]\naddress = 'a'",
            "line 2: [cluster]: known_hosts belongs into [defaults], or [[host]] for one host",
        ),
        (
            "[cluster]\naddress = 'k'\n[[host]]\naddress = 'a'",
            "line 2: [cluster]: address belongs into the [[host]] table of its host",
        ),
        (
            "[[host]]\naddress = 'a'\nsync = ['a']",
            "line 3: host 1 (a): sync belongs into [cluster]",
        ),
        ("[[hosts]]\nname = 'a'", "line 1: unknown table 'hosts': did you mean 'host'?"),
        ("[host]\nname = 'a'", "line 1: write [[host]] with two brackets"),
        (
            "[cluster]\n\n[host]\nname = 'a'\n[host]\nname = 'b'\n",
            "line 3: write [[host]] with two brackets",
        ),
        ("[[host]]\nname = 'a'\n[host]\nname = 'b'\n", "line 3: write [[host]] with two brackets"),
        ("[host]\nname = 'a'\n[[host]]\nname = 'b'\n", "line 1: write [[host]] with two brackets"),
        ("[[host]]\nname = node1\n", 'line 2: put the text in quotes: name = "node1"'),
        (
            "[[host]]\naddress = node1.a.org  # mine\n",
            'line 2: put the text in quotes: address = "node1.a.org"',
        ),
        ("host = [1]", "line 1: host 1: this is not a table"),
        ("a = 1\nb = \n", "line 2: Invalid value, column 5: this is not TOML"),
        (
            "[[host]]\nzzz = 1\nname='a'",
            "line 2: host 1 (a): unknown key 'zzz'; the keys are name, address, user",
        ),
    ],
)
def test_mistake_of_the_whole_file(tmp_path: Path, text: str, said: str) -> None:
    (line,) = mistakes(tmp_path, text)
    assert line.startswith(f"hosts.toml: {said}")


def test_missing_file_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(HostsError, match=r"no such file: write it with .* --hosts FILE$"):
        load(tmp_path / "hosts.toml")


def test_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "hosts.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(HostsError, match="not a text in UTF-8"):
        load(tmp_path / "hosts.toml")


def test_one_machine_may_be_two_hosts(tmp_path: Path) -> None:
    cluster = read(
        tmp_path, '[[host]]\nname = "a"\naddress = "m"\n[[host]]\nname = "b"\naddress = "m"\n'
    )
    assert [host.address for host in cluster.hosts] == ["m", "m"]


def test_ssh_configuration_fills_what_is_left_out(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("")
    config = f"""
        Host near
            HostName 10.0.0.1
            User grace
            Port 2222
            IdentityFile {tmp_path}/missing
            IdentityFile {key}
            ProxyJump ada@gate:2200
        Host far
            ProxyCommand nc -x proxy %h %p
            User grace
    """
    hosts = read(
        tmp_path, '[[host]]\nname = "near"\n[[host]]\nname = "far"\nuser = "ada"\n', config
    ).hosts
    near = Host(
        "near", "10.0.0.1", user="grace", port=2222, identity_file=str(key), jump="ada@gate:2200"
    )
    assert hosts == (near, Host("far", "far", user="ada", proxy_command="nc -x proxy far 22"))


def test_hosts_file_goes_before_ssh_configuration(tmp_path: Path) -> None:
    config = "Host *\n User grace\n Port 1\n ProxyJump gate\n"
    (host,) = read(
        tmp_path,
        '[defaults]\nuser = "ada"\n[[host]]\naddress = "m"\nport = 22\nproxy_command = "x"\n',
        config,
    ).hosts
    assert host == Host("m", "m", user="ada", port=22, proxy_command="x")


def test_what_ssh_configuration_cannot_say_is_remarked_on(tmp_path: Path) -> None:
    config = (
        'Include conf.d/*\nHost a\n User grace\nMatch exec "true" host a\n Port 1\n'
        "Match originalhost a\n IdentityAgent none\n Port 2\nHost *\n Port 3\n"
    )
    cluster = read(tmp_path, '[[host]]\nname = "a"\n', config)
    assert cluster.hosts == (Host("a", "a", user="grace", port=2),)
    assert [remark.split(":")[0].rpartition("/")[2] for remark in cluster.remarks] == [
        f"config, line {n}" for n in (1, 4, 7)
    ]
    assert "'Include conf.d/*' is not followed" in cluster.remarks[0]


def test_broken_ssh_configuration_is_remarked_on(tmp_path: Path) -> None:
    cluster = read(tmp_path, '[[host]]\nname = "a"\n', "Host\n")
    assert cluster.hosts == (Host("a", "a"),)
    assert len(cluster.remarks) == 1


CLUSTER = Cluster("lab", tuple(Host(f"node{i}", f"10.0.0.{i}") for i in range(1, 5)))


@pytest.mark.parametrize(
    ("nodes", "only", "exclude", "names"),
    [
        (None, (), (), "1234"),
        (2, (), (), "12"),
        (None, ("node4", "node2"), (), "24"),
        (None, (), ("node1",), "234"),
        (1, ("node2", "node3"), ("node2",), "3"),
        (None, ("node1",), ("node1",), ""),
    ],
)
def test_selection_keeps_rank_order(
    nodes: int | None, only: tuple[str, ...], exclude: tuple[str, ...], names: str
) -> None:
    assert [host.name for host in select(CLUSTER, nodes, only, exclude).hosts] == [
        f"node{i}" for i in names
    ]


def test_selection_of_unknown_hosts() -> None:
    with pytest.raises(HostsError) as caught:
        select(CLUSTER, only=("nod3",), exclude=("x",))
    assert str(caught.value).splitlines() == [
        "--only nod3: no host has this name: did you mean 'node3'? The hosts are node1, node2, "
        "node3, node4",
        "--exclude x: no host has this name. The hosts are node1, node2, node3, node4",
    ]


@pytest.mark.parametrize("nodes", [-1, 0, 5])
def test_selection_of_more_or_fewer_than_there_are(nodes: int) -> None:
    with pytest.raises(HostsError, match=f"^--num-hosts {nodes}: "):
        select(CLUSTER, nodes)


def test_hosts_know_their_file_which_a_command_names_unless_it_is_the_usual_one() -> None:
    assert hosts_option("hosts.toml") == ""
    assert hosts_option("my lab/hosts.toml") == " --hosts 'my lab/hosts.toml'"


def test_hosts_know_the_file_that_they_were_read_from(tmp_path: Path) -> None:
    assert CLUSTER.hosts[0].hosts_file == "hosts.toml"
    found = read(tmp_path, '[[host]]\nname = "a"\n')
    assert found.hosts[0].hosts_file == found.file


def test_hosts_alone_import_no_parser() -> None:
    code = (
        "import sys, remote.cluster.hosts; print([name for name in ('pydantic', 'paramiko', "
        "'torch') if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout
        == "[]\n"
    )

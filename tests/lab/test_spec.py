"""The lab on paper: what the flags ask for, the commands it is laid out with, and why it may be
refused."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from remote.lab import namespaces, quota, wires
from remote.lab.spec import LabError, LabSpec, parse, rate, show


@pytest.mark.parametrize(
    ("text", "bits"),
    [
        ("1gbit", 10**9),
        ("100mbit", 10**8),
        ("2.5gbit", 25 * 10**8),
        ("10Mbit", 10**7),
        ("500kbit", 5 * 10**5),
    ],
)
def test_rates(text: str, bits: int) -> None:
    assert rate(text) == bits
    assert show(bits) == text.lower()


@pytest.mark.parametrize(
    "text",
    ["", "1", "1gb", "gbit", "-1gbit", "1 gbit", "1e9bit", "1gbit/s", "0mbit", "1kbit", "1000gbit"],
)
def test_wrong_rates(text: str) -> None:
    with pytest.raises(LabError, match=r"^--link .*give a "):
        rate(text)


def test_one_value_is_for_all_hosts() -> None:
    assert parse(3, "10mbit", "0.5") == LabSpec((10**7,) * 3, (0.5,) * 3)
    assert parse(2, "10mbit, 1gbit", "0.5,2") == LabSpec((10**7, 10**9), (0.5, 2.0))


@pytest.mark.parametrize(
    ("hosts", "link", "cpus", "message"),
    [
        (
            4,
            "1gbit,1gbit,1gbit",
            "",
            r"^--link 1gbit,1gbit,1gbit: 3 values for 4 hosts; give one for all of them, or 4$",
        ),
        (2, "1gbit", "1,1,1", r"^--cpus 1,1,1: 3 values for 2 hosts"),
        (2, "1gbit", "half", r"^--cpus 'half': give a number of cores"),
        (2, "1gbit", "0", r"^--cpus '0': give"),
        (2, "1gbit", "nan", r"^--cpus 'nan': give"),
        (2, "1gbit", "inf", r"^--cpus 'inf': give"),
        (254, "1gbit", "", r"^a lab has 1 to 253 hosts, not 254$"),
    ],
)
def test_mistakes(hosts: int, link: str, cpus: str, message: str) -> None:
    with pytest.raises(LabError, match=message):
        parse(hosts, link, cpus)


def test_hosts_have_addresses_an_interface_and_threads_by_quota() -> None:
    first, second = parse(2, "1gbit", "0.5,2").hosts()
    assert (first.name, first.address, first.interface, first.slots, first.threads) == (
        "node1",
        "10.10.1.1",
        "eth0",
        1,
        1,
    )
    assert (second.name, second.address, second.threads, second.python) == (
        "node2",
        "10.10.1.2",
        2,
        sys.executable,
    )
    assert [host.threads for host in parse(2, "1gbit").hosts()] == [0, 0]


def test_ranks_of_a_host_share_its_quota() -> None:
    hosts = parse(2, "1gbit", "4", slots=2).hosts()
    assert [(host.name, host.slots, host.threads) for host in hosts] == [
        ("node1", 2, 2),
        ("node2", 2, 2),
    ]
    assert [host.threads for host in parse(2, "1gbit", "0.5", slots=2).hosts()] == [1, 1]


def test_sharing_of_cores_is_said() -> None:
    (said,) = parse(4, "1gbit").remarks(core_count=2)
    assert "4 hosts share 2 cores" in said
    assert "--cpus 0.5 " in said
    (said,) = parse(4, "1gbit", "1").remarks(core_count=2)
    assert "sum up to 4 of 2 cores" in said
    assert parse(4, "1gbit", "0.5").remarks(core_count=2) == ()
    assert parse(1, "1gbit").remarks(core_count=2) == ()


def test_limit() -> None:
    assert wires.limit("eth0", 10**9) == [
        "qdisc replace dev eth0 root tbf rate 1000000000bit burst 125000b limit 2500000b"
    ]
    (slow,) = wires.limit("eth0", 10**6)
    assert f"burst {wires.LEAST_BURST}b limit {wires.LEAST_QUEUE}b" in slow


def test_delays() -> None:
    assert parse(2, "1gbit/5ms") == LabSpec((10**9,) * 2, (), (0.005, 0.005))
    assert parse(2, "1gbit,1mbit/1.5s") == LabSpec((10**9, 10**6), (), (0.0, 1.5))
    for wrong in ("1gbit/", "1gbit/5", "1gbit/ms", "/5ms", "1gbit/5ms/5ms"):
        with pytest.raises(LabError, match=r"behind a slash"):
            parse(2, wrong)


def test_a_delay_is_put_before_the_rate() -> None:
    late, bucket = wires.limit("eth0", 10**8, 0.02)
    assert late == "qdisc replace dev eth0 root handle 1: netem delay 20000us limit 1000"
    assert bucket.startswith("qdisc replace dev eth0 parent 1:1 handle 10: tbf rate 100000000bit ")


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(LabError, match=r"Linux network namespaces: use a Linux machine"):
        namespaces.check(platform="darwin")
    (tmp_path / "ip").touch(mode=0o755)
    with pytest.raises(
        LabError, match=r"needs unshare, nsenter, tc: apt install iproute2 util-linux$"
    ):
        namespaces.check(platform="linux", search_path=str(tmp_path))


def test_what_forbids_is_named_with_what_allows(tmp_path: Path) -> None:
    assert "--privileged" in namespaces.refusal(
        "unshare: unshare failed: Operation not permitted", tmp_path
    )
    assert "unshare failed" in namespaces.refusal(
        "unshare: unshare failed: Operation not permitted", tmp_path
    )
    (tmp_path / "kernel").mkdir()
    setting = tmp_path / "kernel" / "unprivileged_userns_clone"
    setting.write_text("1\n")
    assert "sysctl" not in namespaces.refusal("no", tmp_path)
    setting.write_text("0\n")
    assert "as root, sysctl -w kernel.unprivileged_userns_clone=1" in namespaces.refusal(
        "no", tmp_path
    )


def own(folder: Path, *lines: str) -> Path:
    """A stand-in for /proc/self/cgroup."""
    path = folder / "own"
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_groups_of_version_1_are_made_below_ones_own(tmp_path: Path) -> None:
    folder = tmp_path / "cpu" / "mine"
    folder.mkdir(parents=True)
    assert (
        quota.base(tmp_path, own(tmp_path, "3:cpuset:/", "2:cpu,cpuacct:/mine", "0::/")) == folder
    )
    group = quota.make(folder, "1-node1", 0.5, 4711)
    figures = [
        (group / name).read_text()
        for name in ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cgroup.procs")
    ]
    assert figures == ["5000", "10000", "4711"]
    assert quota.join(group)[-1] == str(group)


@pytest.mark.parametrize(("given", "where"), [("a/b", "a"), ("", ""), ("a/c/d", "a")])
def test_groups_of_version_2_are_made_where_the_controller_is(
    tmp_path: Path, given: str, where: str
) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory\n")
    (tmp_path / "cgroup.subtree_control").write_text("memory\n")
    for folder, controllers in (("a", "cpu pids\n"), ("a/c", "\n")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "cgroup.controllers").write_text("cpu")
        (tmp_path / folder / "cgroup.subtree_control").write_text(controllers)
    found = quota.base(tmp_path, own(tmp_path, f"0::/{given}"))
    assert found == tmp_path / where
    assert quota.make(found, "1-node1", 0.05, 4711).joinpath("cpu.max").read_text() == "1000 20000"


def test_no_controller_no_groups(tmp_path: Path) -> None:
    assert quota.base(tmp_path, own(tmp_path, "2:cpuacct:/", "0::/")) is None
    assert quota.base(tmp_path, tmp_path / "none") is None


def test_only_empty_groups_are_swept(tmp_path: Path) -> None:
    for name in (f"{quota.PREFIX}1-node1", f"{quota.PREFIX}2-node1", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / f"{quota.PREFIX}2-node1" / "child").mkdir()
    quota.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", f"{quota.PREFIX}2-node1"]

"""What happens to the network between the hosts: a cable is pulled, in a lab."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from remote.cluster.hosts import Host
from remote.cluster.load import load
from remote.lab.folder import Folder
from remote.run.findings.stall import STALL_LIMITS
from tests.faults.proof import FINISHED, MEETING, RANKS, Expected, Stage
from tests.kit.labs import refused, spaces
from tests.kit.launches import LONG, QUICK, run
from tests.kit.slow import slow
from tests.kit.sshd import SSHD, Sshd

pytestmark = pytest.mark.skipif(
    bool(refused()) or not SSHD,
    reason=f"no lab with sshd can be made here: {refused() or 'install openssh-server'}",
)
LAB = "faults"
STEPS = 60


class LabStage(Stage):
    """Three hosts of a lab."""

    def __post_init__(self) -> None:
        """Start it."""
        done = run(self.folder, "lab", "up", "--name", LAB, "--size", str(RANKS))
        assert done.returncode == 0, done.stderr
        self.home = Folder(LAB).path
        self.hosts = {host.name: host for host in load(self.hosts_file()).hosts}
        with Folder(LAB).lab() as lab:
            pids = [host.pid for host in lab.state.hosts]
        self.space = frozenset[str]().union(*map(spaces, pids)) - spaces(psutil.Process().pid)
        self.first = set(self.members())

    def hosts_file(self) -> Path:
        """The lab's own."""
        return self.home / "hosts.toml"

    def members(self) -> dict[int, str]:
        """The processes in the lab but for its sshds, by pid: one that serves a pulled cable waits
        for it to come back."""
        found = {}
        for pid in psutil.pids():
            with suppress(psutil.Error):
                if self.space & spaces(pid) and (name := psutil.Process(pid).name()) != "sshd":
                    found[pid] = name
        return found

    def living(self) -> list[str]:
        """What was not there from the start."""
        return [f"{pid} {name}" for pid, name in self.members().items() if pid not in self.first]

    def workdir(self, host: Host) -> Path:
        """The host's home is a folder of the lab's."""
        return self.home / host.name / ".rankboard"

    def __call__(self, command: str, host: str) -> None:
        """`rankboard lab` with this command."""
        done = run(self.folder, "lab", command, host, "--name", LAB)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def lab(
    sshd: Sshd,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> Iterator[LabStage]:
    """A lab, gone with the test."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    try:
        stage = LabStage(sshd, tmp_path, record_property)
        yield stage
        for launched in stage.launched:
            with launched.process:
                launched.process.kill()
    finally:
        Folder(LAB).down()


@pytest.mark.parametrize(("seconds", "work"), [(2, MEETING), pytest.param(45, LONG, marks=slow)])
def test_cut(lab: LabStage, seconds: int, work: Sequence[str]) -> None:
    """The run stands still, then goes on as if nothing had been."""
    training = lab.train(*work)
    lab("cut", "node3")
    training.go_on(seconds)
    lab("heal", "node3")
    healed = time.monotonic()
    training.run.events("step", STEPS)
    training.run.process.send_signal(signal.SIGINT)
    lab.prove(f"link of node3 cut for {seconds} s", training.run, Expected("stopped", 130), healed)


@slow
@pytest.mark.parametrize("seconds", [27, 45])
def test_cut_is_no_stall(lab: LabStage, seconds: int) -> None:
    """Ranks that stand still for a silent host are said to, but not stopped, nor while TCP takes as
    long again to go on."""
    training = lab.train(*QUICK, "--steps", "600", "--on-stall", "stop")
    lab("cut", "node3")
    training.go_on(seconds)
    lab("heal", "node3")
    fault = f"link of node3 cut for {seconds} s, --on-stall stop"
    ending = lab.prove(fault, training.run, FINISHED, time.monotonic())
    assert bool(ending.summary["stalls"]) == (seconds > STALL_LIMITS.least)


@slow
def test_cut_for_good(lab: LabStage) -> None:
    """The host is lost; its agent ends its rank when its lease has run out."""
    training = lab.train(*LONG)
    lab("cut", "node3")
    cut = time.monotonic()
    expected = Expected("lost", 3, "node3", says=("no sign of life",), cut_off=("node3",))
    code = training.run.end(200)
    lab.judge("link of node3 cut for good", training.run, code, expected, time.monotonic() - cut)

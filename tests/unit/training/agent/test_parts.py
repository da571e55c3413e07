"""The agent's parts, each on its own: journal, pipes, facts, samples, ports."""

from __future__ import annotations

import errno
import math
import os
import shutil
import socket
import subprocess
import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from tests.kit.wait import looks
from training.agent.host import busiest, facts, ports, processes, samples
from training.agent.host.system import LINUX
from training.agent.journal import Journal, JournalReader, list_segments, write_reserve
from training.agent.ranks.pipes import CHUNK, STATES, LineDecoder, Pipe
from training.wire.enums import EndReason
from training.wire.events import PREFIX, Event, Record, decode
from training.wire.host_events import (
    AgentEnded,
    Exited,
    Hello,
    Launched,
    OutputText,
    RankSample,
    RecordsDropped,
)


def text(number: int, size: int = 0) -> OutputText:
    return OutputText(0, "stdout", f"{number} " + "x" * size)


def report(number: int, size: int = 0) -> OutputText:
    """What a rank reports, which is kept longer than what it prints."""
    return OutputText(0, "stdout", f"{PREFIX}{number} " + "x" * size)


def read(reader: JournalReader) -> list[Record]:
    records = [decode(line) for block in reader.blocks() for line in block.splitlines()]
    assert None not in records
    return [record for record in records if record]


# Journal


def test_the_journal_numbers_records_from_one_without_a_gap(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 3)
    journal.write(0, [text(1), text(2)])
    journal.write(1, [text(3)])
    records = read(JournalReader(str(tmp_path), 3, 0))
    assert [(record.host, record.attempt, record.seq) for record in records] == [
        (3, 0, 1),
        (3, 0, 2),
        (3, 1, 3),
    ]
    assert [record.event for record in records] == [text(1), text(2), text(3)]


@pytest.mark.parametrize("after", [0, 1, 4, 5, 9, 10, 12])
def test_a_reader_begins_after_what_is_known_and_goes_on_with_what_comes(
    tmp_path: Path, after: int
) -> None:
    journal = Journal(str(tmp_path), 0, segment=300)
    for number in range(1, 11):
        journal.write(0, [text(number)])
    assert len(list_segments(str(tmp_path))) > 3
    reader = JournalReader(str(tmp_path), 0, after)
    assert [record.seq for record in read(reader)] == list(range(after + 1, 11))
    for number in range(11, 21):
        journal.write(0, [text(number)])
    assert [record.seq for record in read(reader)] == list(range(max(after, 10) + 1, 21))


def test_beyond_the_limit_the_oldest_go_and_dropped_stands_for_them(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0, segment=1000, limit=3000)
    for number in range(1, 101):
        journal.write(0, [report(number, 100)])
    assert sum(path.stat().st_size for path in tmp_path.glob("*.journal")) <= 3200
    for after in (0, 5):
        dropped, *kept = read(JournalReader(str(tmp_path), 0, after))
        assert isinstance(dropped.event, RecordsDropped)
        assert dropped.event.first == after + 1
        assert dropped.seq == dropped.event.last
        assert [record.seq for record in kept] == list(range(dropped.seq + 1, 101))


def test_what_everybody_has_to_know_is_told_again_once_it_was_dropped(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0, segment=1000, limit=3000)
    hello = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30)
    launched, exited = Launched((0, 1), (0,)), Exited(1, 3)
    journal.write(0, [hello, Launched((7,), (0,)), Exited(7, 1)])
    journal.write(1, [launched, text(0)])
    journal.write(1, [exited])
    for number in range(1, 101):
        journal.write(1, [report(number, 100)])
    dropped, *kept = read(JournalReader(str(tmp_path), 0, 0))
    assert isinstance(dropped.event, RecordsDropped)
    assert dropped.event.last > 5
    told = [record for record in kept if not isinstance(record.event, OutputText)]
    assert [record.event for record in told[-3:]] == [hello, launched, exited]
    assert {record.attempt for record in told} == {1}
    assert [record.seq for record in kept] == list(range(dropped.seq + 1, kept[-1].seq + 1))


HELLO = Hello("box", "me", 1, "3.11.2", "/usr/bin/python3", "Linux", "b", 2.0, 8 << 30)
LAUNCHED, EXITED = Launched((0,), (0,)), Exited(0, 0)
ENDED = AgentEnded(EndReason.ALL_ENDED)


def test_the_end_of_a_rank_outlives_a_segment_that_somebody_renames(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0)
    journal.write(0, [HELLO, LAUNCHED])
    follower = JournalReader(str(tmp_path), 0, 0)
    assert len(read(follower)) == 2
    renamed_path = tmp_path / "000000000001.journal"
    renamed_path.rename(tmp_path / "renamed")
    journal.write(0, [EXITED])
    journal.write(0, [ENDED])
    told_again = [HELLO, LAUNCHED, EXITED, ENDED]
    assert [record.event for record in read(follower)] == told_again
    dropped, *kept = read(JournalReader(str(tmp_path), 0, 0))
    assert dropped.event == RecordsDropped(1, 2)
    assert [record.event for record in kept] == told_again


def test_the_last_record_comes_with_what_was_in_an_old_segment_that_is_gone(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0, segment=1000)
    journal.write(0, [HELLO, LAUNCHED, EXITED])
    for number in range(1, 21):
        journal.write(0, [report(number, 100)])
    first_segment = min(tmp_path.glob("*.journal"))
    first_segment.unlink()
    journal.write(0, [ENDED])
    dropped, *kept = read(JournalReader(str(tmp_path), 0, 0))
    assert isinstance(dropped.event, RecordsDropped)
    assert [record.event for record in kept[-4:]] == [HELLO, LAUNCHED, EXITED, ENDED]


def test_a_journal_whose_old_segments_are_deleted_keeps_to_its_limit(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0, segment=1000, limit=3000)
    for number in range(1, 101):
        journal.write(0, [report(number, 100)])
        if number % 10 == 0:
            min(tmp_path.glob("*.journal")).unlink()
    assert sum(path.stat().st_size for path in tmp_path.glob("*.journal")) <= 3200
    assert read(JournalReader(str(tmp_path), 0, 0))[-1].event == report(100, 100)


def test_an_agent_does_not_fail_as_the_folder_of_its_journal_is_gone(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    journal = Journal(str(folder), 0, segment=1000)
    journal.write(0, [HELLO, LAUNCHED])
    descriptor = os.open(folder / "000000000001.journal", os.O_RDONLY)
    shutil.rmtree(folder)
    for number in range(1, 21):
        journal.write(0, [report(number, 100)])
    written = os.pread(descriptor, 1 << 20, 0).splitlines()
    os.close(descriptor)
    assert [decode(line).seq for line in written] == list(range(1, 23))  # type: ignore[union-attr]


def test_a_journal_that_drops_nothing_tells_nothing_again(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0, segment=1000)
    journal.write(0, [Launched((0,), (0,)), Exited(0, 0)])
    for number in range(1, 31):
        journal.write(0, [report(number, 100)])
    assert len(list_segments(str(tmp_path))) > 3
    assert len(read(JournalReader(str(tmp_path), 0, 0))) == 32


def test_a_reader_in_the_middle_of_a_dropped_segment_misses_only_what_is_gone(
    tmp_path: Path,
) -> None:
    journal = Journal(str(tmp_path), 0, segment=1000, limit=3000)
    for number in range(1, 6):
        journal.write(0, [report(number, 100)])
    reader = JournalReader(str(tmp_path), 0, 2)
    assert [record.seq for record in read(reader)] == [3, 4, 5]
    for number in range(6, 101):
        journal.write(0, [report(number, 100)])
    seen: list[int] = []
    for record in read(reader):
        match record.event:
            case RecordsDropped(first, last):
                seen += range(first, last + 1)
            case _:
                seen.append(record.seq)
    assert seen == list(range(6, 101))


@pytest.mark.parametrize("after", [0, 3, 40])
def test_beyond_the_limit_printed_text_goes_before_anything_else(
    tmp_path: Path, after: int
) -> None:
    journal = Journal(str(tmp_path), 0, segment=2000, limit=12_000)
    for number in range(1, 41):
        journal.write(0, [text(number, 400), report(number), text(number, 400)])
    assert sum(path.stat().st_size for path in tmp_path.glob("*.journal")) <= 14_000
    records = read(JournalReader(str(tmp_path), 0, after))
    reports = [record.seq for record in records if record.event == report(record.seq // 3 + 1)]
    assert reports == [seq for seq in range(2, 121, 3) if seq > after], "all of them are kept"
    gone = [record.event for record in records if isinstance(record.event, RecordsDropped)]
    assert gone
    assert all(event.text_only for event in gone)
    assert [record.seq for record in records] == sorted({record.seq for record in records})
    kept_text = [record.seq for record in records if record.event == text(record.seq // 3 + 1, 400)]
    assert kept_text, "the newest"
    assert all(event.last < min(kept_text) or event.first > after for event in gone)


def test_a_reader_of_a_segment_whose_text_goes_reads_on(tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), 0, segment=2000, limit=6000)
    journal.write(0, [text(1, 400), report(2)])
    reader = JournalReader(str(tmp_path), 0, 0)
    assert [record.seq for record in read(reader)] == [1, 2]
    for number in range(3, 41):
        journal.write(0, [text(number, 400)])
    seqs = [record.seq for record in read(reader)]
    assert seqs[-1] == 40
    assert seqs == sorted(set(seqs))


def test_the_limit_follows_from_the_free_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = SimpleNamespace(f_bavail=20, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _: disk)
    journal = Journal(str(tmp_path), 0, segment=4000)
    for number in range(1, 201):
        journal.write(0, [report(number, 300)])
    size = sum(path.stat().st_size for path in tmp_path.glob("*.journal"))
    assert 30_000 < size < 20 * 4096
    disk.f_bavail = 0
    for number in range(201, 231):
        journal.write(0, [report(number, 300)])
    assert sum(path.stat().st_size for path in tmp_path.glob("*.journal")) < size


def test_a_journal_whose_writer_was_killed_goes_on_after_its_last_whole_line(
    tmp_path: Path,
) -> None:
    Journal(str(tmp_path), 0).write(2, [text(1), text(2)])
    with open(next(tmp_path.glob("*.journal")), "ab") as file:
        file.write(b'{"host":0,"att')
    reader = JournalReader(str(tmp_path), 0, 0)
    assert [record.seq for record in read(reader)] == [1, 2]
    journal = Journal(str(tmp_path), 0)
    assert journal.last
    assert journal.last.attempt == 2
    journal.write(2, [AgentEnded(EndReason.AGENT_DIED)])
    (last,) = read(reader)
    assert (last.seq, last.event) == (3, AgentEnded(EndReason.AGENT_DIED))


def test_a_full_disk_takes_the_reserve_and_then_the_last_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_reserve(str(tmp_path))
    journal = Journal(str(tmp_path), 0)
    really_write = os.write

    def write(fd: int, data: memoryview) -> int:
        if (tmp_path / "reserve").exists():
            if len(data) > 50:
                return really_write(fd, data[:50])
            raise OSError(errno.ENOSPC, "No space left on device")
        return really_write(fd, data)

    monkeypatch.setattr(os, "write", write)
    assert not journal.full
    journal.write(0, [text(1), text(2)])
    assert journal.full
    journal.write(0, [text(3)])
    assert [record.seq for record in read(JournalReader(str(tmp_path), 0, 0))] == [1, 2, 3]


def test_a_full_disk_without_a_reserve_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal = Journal(str(tmp_path), 0)
    journal.write(0, [text(1)])

    def write(fd: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(OSError, match="No space"):
        journal.write(0, [text(2)])


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount a small file system to fill")
def test_on_a_disk_that_is_really_full_the_last_record_is_readable(tmp_path: Path) -> None:
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", str(tmp_path)], capture_output=True
    )
    if mounted.returncode:
        pytest.skip(f"cannot mount a small file system: {mounted.stderr.decode().strip()}")
    try:
        write_reserve(str(tmp_path))
        journal = Journal(str(tmp_path), 0)
        while not journal.full:
            journal.write(0, [text(0, 10_000)])
        journal.write(0, [AgentEnded(EndReason.DISK_FULL)])
        assert read(JournalReader(str(tmp_path), 0, 0))[-1].event == AgentEnded(EndReason.DISK_FULL)
    finally:
        subprocess.run(["umount", "--lazy", str(tmp_path)], check=True)


# Pipes


def fed(*blocks: bytes, most: int = sys.maxsize) -> list[str]:
    lines = LineDecoder(most=most)
    return [text for text in (*map(lines.feed, blocks), lines.end()) if text is not None]


@pytest.mark.parametrize(
    ("blocks", "texts"),
    [
        ([b"one\ntwo\n"], ["one\ntwo"]),
        ([b"one\ntw", b"o\nthree"], ["one", "two", "three"]),
        ([b"\n"], [""]),
        ([b"\n\n"], ["\n"]),
        ([b"a\r\nb\r\n"], ["a\nb"]),
        ([b"a\r", b"\nb"], ["a", "b"]),
        ([b" 10%\r 20%\r", b" 30%\n"], [" 10%\r 20%\r 30%"]),
        (["€".encode()[:1], "€".encode()[1:] + b"\n"], ["€"]),
        ([b"\xff\xfe\n", b"\xe2\x82"], ["\ufffd\ufffd", "\ufffd"]),
        ([b"\0\x1b[1m\n"], ["\0\x1b[1m"]),
        ([], []),
    ],
)
def test_lines_out_of_blocks(blocks: list[bytes], texts: list[str]) -> None:
    assert fed(*blocks) == texts


def test_a_line_without_end_comes_in_pieces_that_cut_no_character() -> None:
    line = ("€" * 200_000).encode()
    pieces = fed(*(line[start : start + CHUNK] for start in range(0, len(line), CHUNK)), b"\n")
    assert "".join(pieces) == "€" * 200_000
    assert all(len(piece) <= 2 * CHUNK for piece in pieces)


@pytest.mark.parametrize(
    ("blocks", "texts"),
    [
        ([b"12345", b"12345"], ["12345 … 5 bytes left out"]),
        ([b"12345", b"12", b"345\nrest"], ["12345 … 5 bytes left out", "rest"]),
        ([b"12345", b"12\n12345", b"1\n"], ["1234512", "123451"]),
        ([b"1234\n1234", b"56", b"7", b"8\n"], ["1234", "123456 … 2 bytes left out"]),
        ([b"12345", b"\r12345", b"12", b"3\r1\n"], ["12345\r12345 … 3 bytes left out\r1"]),
        (
            [b"12345", b"x" * 1000, b"x" * 1000, b"\n", b"1\n"],
            ["12345 … 2,000 bytes left out", "1"],
        ),
        ([b"123\n" * 5], ["123\n123\n123\n123\n123"]),
    ],
)
def test_a_line_that_is_too_long_is_cut_and_says_so(blocks: list[bytes], texts: list[str]) -> None:
    assert fed(*blocks, most=5) == texts


def test_a_pipe_that_a_descendant_floods_does_not_hold_up_the_end_of_its_rank() -> None:
    read_end, write_end = os.pipe()
    with subprocess.Popen(
        ["sh", "-c", "while :; do echo flood; done"], stdout=write_end, stderr=subprocess.DEVNULL
    ) as flood:
        os.close(write_end)
        pipe = Pipe(read_end, 0, "stdout")
        assert sum(len(text.text) for text in pipe.finish()) < 3 << 20
        flood.kill()


def test_the_states_of_a_progress_bar_are_told_before_its_line_ends() -> None:
    read_end, write_end = os.pipe()
    now = 10.0
    pipe = Pipe(read_end, 0, "stderr", clock=lambda: now)

    def told(text: str) -> list[str]:
        os.write(write_end, text.encode())
        return [one.text for one in pipe.read()]

    assert told("\r1/9 loss=0.5") == []
    assert told("\r2/9 loss=0.4") == []
    now += STATES
    assert told("\r3/9 lo") == ["\r1/9 loss=0.5\r2/9 loss=0.4"]
    assert told("ss=0.3\r4/9 loss=0.2") == []
    now += STATES
    assert told("no state of a bar") == []
    os.close(write_end)
    assert [one.text for one in pipe.finish()] == ["\r3/9 loss=0.3\r4/9 loss=0.2no state of a bar"]


# Facts, samples, ports


def test_versions_are_read_without_importing() -> None:
    code = (
        "import sys; from training.agent.host import facts; print(facts.package_version('torch')); "
        "assert 'torch' not in sys.modules"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    import torch

    assert said.stdout.strip() == torch.__version__
    assert facts.package_version("no_such_package") == ""


def test_backends_are_read_past_finders_that_are_of_no_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torch").mkdir()
    lines = (
        '__version__ = "9.9"',
        "cuda: Optional[str] = '13.0'",
        "hip: Optional[str] = None",
        "def xpu(): return '1'",
    )
    (tmp_path / "torch" / "version.py").write_text("\n".join(lines))
    path = PathFinder.find_spec("torch", [str(tmp_path)])
    finder = SimpleNamespace(find_spec=lambda name, folders: path if name == "torch" else None)
    monkeypatch.setattr(sys, "meta_path", [object(), finder])
    hello = facts.hello(str(tmp_path), "")
    assert (hello["torch"], hello["backends"], hello["torchvision"]) == ("9.9", ("cuda 13.0",), "")


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "150000 100000"}, 1.5),
        ({"cpu.max": "max 100000"}, 64.0),
        ({"cpu.cfs_quota_us": "50000\n", "cpu.cfs_period_us": "100000\n"}, 0.5),
        ({"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"}, 64.0),
        ({}, 64.0),
    ],
)
def test_cores_under_a_quota(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], cores: float
) -> None:
    version_one = "cpu.cfs_quota_us" in files
    monkeypatch.setattr(
        facts, "cgroups", lambda: [(["cpu", "cpuacct"] if version_one else [""], "jobs/mine")]
    )
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    group = tmp_path / ("cpu/jobs" if version_one else "jobs")
    group.mkdir(parents=True)
    for name, content in files.items():
        (group / name).write_text(content)
    assert facts.usable_cores(str(tmp_path)) == cores


@pytest.mark.skipif(not LINUX, reason="needs /proc")
def test_the_samples_see_a_busy_tree() -> None:
    code = "import os, sys\nif os.fork() == 0: os.write(1, b'.')\nwhile True: pass"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True
    ) as busy:
        assert busy.stdout
        sampler = samples.ProcSampler()
        busy.stdout.read(1)
        while not (seen := sampler.rank(4, busy.pid)) or seen.cpu < 20:
            assert busy.poll() is None
        processes.send_group(busy.pid, 9)
    assert (seen.rank, seen.processes) == (4, 2)
    assert 1 << 20 < seen.memory < 1 << 30
    assert sampler.rank(4, busy.pid) is None
    for _ in looks("the cores to be busy"):  # the system counts in hundredths of a second
        host = sampler.host()
        if any(host.cpu):
            break
    assert len(host.cpu) == os.cpu_count()
    assert 0 < host.memory_used < host.memory_total


def test_what_a_program_uses_beside_its_workers() -> None:
    whole = RankSample(0, 250.0, 900, 4)
    rest = samples.subtract_sample(whole, RankSample(2, 99.5, 300, 1))
    assert rest == RankSample(0, 150.5, 600, 3)
    assert samples.subtract_sample(rest, RankSample(1, 151.0, 700, 3)) == RankSample(0, 0.0, 0, 1)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_process_that_has_ended_has_no_sample_while_nobody_has_waited_for_it() -> None:
    sampler = samples.ProcSampler()
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as process:
        try:
            for _ in looks("the process to have memory"):  # it has none while it is executed
                if sampler.rank(0, process.pid):
                    break
        finally:
            process.kill()
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert sampler.rank(0, process.pid) is None


def test_without_proc_psutil_gives_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (processes, samples):
        monkeypatch.setattr(module, "LINUX", False)
        monkeypatch.setattr(
            module, "psutil", psutil
        )  # on Linux the agent does without importing it
    sampler = samples.sampler()
    assert isinstance(sampler, samples.PsutilSampler)
    host = sampler.host()
    assert len(host.cpu) == os.cpu_count()
    assert 0 < host.memory_used < host.memory_total
    with subprocess.Popen(
        ["sh", "-c", "sleep 600 & echo; wait"], stdout=subprocess.PIPE, start_new_session=True
    ) as tree:
        assert tree.stdout
        tree.stdout.read(1)
        seen = sampler.rank(4, tree.pid)
        processes.send_group(tree.pid, 9)
    assert seen
    assert (seen.rank, seen.processes) == (4, 2)
    assert seen.memory > 100_000


def test_out_of_memory_is_a_rise_within_the_window(tmp_path: Path) -> None:
    file = tmp_path / "vmstat"
    file.write_text("nr_free 1\noom_kill 3\n")
    watch = samples.OutOfMemory([str(file), str(tmp_path / "absent")], window=3)
    assert not watch.rose()
    file.write_text("nr_free 1\noom_kill 4\n")
    assert watch.rose()
    for _ in range(3):
        watch.tick()
    assert not watch.rose()


def test_a_reserved_port_is_taken_and_its_holder_is_named() -> None:
    sock = ports.reserve_port("127.0.0.1", 0)
    try:
        port = sock.getsockname()[1]
        with pytest.raises(
            ports.PortError,
            match=rf"^port {port} on 127\.0\.0\.1 is in use by .* \(pid {os.getpid()}\)$",
        ):
            ports.reserve_port("127.0.0.1", port)
    finally:
        sock.close()


@pytest.mark.parametrize(
    ("address", "port", "why"),
    [
        ("192.0.2.77", 0, "192.0.2.77 is not an address of this host"),
        ("127.0.0.1", 70_000, "port 70000 on 127.0.0.1: "),
        ("no.such.host.invalid", 0, "port 0 on no.such.host.invalid: "),
    ],
)
def test_a_port_that_cannot_be_had(address: str, port: int, why: str) -> None:
    with pytest.raises(ports.PortError) as error:
        ports.reserve_port(address, port)
    assert str(error.value).startswith(why)


def test_the_route_and_its_interface() -> None:
    known = facts.list_interfaces()
    loopback = next(name for name, address, _ in known if address == "127.0.0.1")
    assert (loopback, "127.0.0.1", 8) in known
    assert facts._interface_of(facts._source_address("127.0.0.3"), known) == loopback
    assert facts._source_address("") == ""
    assert socket.inet_aton(facts._source_address("127.0.0.1"))


def test_events_that_hold_what_is_no_text_can_be_written(tmp_path: Path) -> None:
    event: Event = OutputText(0, "stderr", os.fsdecode(b"cannot start \xff"))
    Journal(str(tmp_path), 0).write(0, [event])
    assert [record.seq for record in read(JournalReader(str(tmp_path), 0, 0))] == [1]


def test_speeds_of_links_are_known_where_the_driver_tells(tmp_path: Path) -> None:
    speeds = {"eth0": "1000", "down": "-1", "virtual": "4294967295", "loud": "fast"}
    for name, speed in speeds.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "speed").write_text(f"{speed}\n")
    names = [*speeds, "gone"]
    assert facts.link_speeds(names, str(tmp_path)) == (("eth0", 1000),)


def test_a_rate_to_which_the_kernel_limits_a_link_is_its_speed() -> None:
    queues = [
        {"kind": "noqueue", "dev": "lo", "options": {}},
        {"kind": "tbf", "dev": "eth0", "options": {"rate": 125_000_000}},
        {"kind": "tbf", "dev": "slow", "options": {"rate": 1_000}},
        "nothing",
    ]
    assert facts.shaped_rates(queues) == {"eth0": 1000, "slow": 1}
    assert facts.shaped_rates({"kind": "tbf"}) == {}


def test_the_busiest_processes_are_named_by_the_cores_of_all_of_a_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = {1: "cc1", 2: "cc1", 3: "rank 0", 4: "rank 1", 5: "rankboard-agent", 6: "cat", 7: "ld"}
    before = dict.fromkeys((1, 2, 3, 4, 5, 6), 1000)
    second = os.sysconf("SC_CLK_TCK")
    shares = {1: 0.8, 2: 0.7, 3: 0.5, 4: 0.5, 5: 1.0, 6: 0.1, 7: 0.3}
    after = {pid: before.get(pid, 0) + round(share * second) for pid, share in shares.items()}
    ticks = iter((before, after))
    now = iter((0.0, 1.0, 1.0))
    busy_ticks = iter((0, 5 * second))
    monkeypatch.setattr(busiest, "_busy_ticks", lambda: next(busy_ticks))
    monkeypatch.setattr(busiest, "_cpu_ticks", lambda: next(ticks))
    monkeypatch.setattr(busiest, "read_name", names.get)
    monkeypatch.setattr(busiest, "read_stat", lambda pid: [])
    monkeypatch.setattr(busiest, "time", SimpleNamespace(monotonic=lambda: next(now)))
    watched = busiest.BusyProcesses()
    assert watched.find_busiest() == (("cc1", 1.5), ("ranks of another run", 1.0), ("ld", 0.3))
    assert watched.other_cores == 4.0, "what a container does not see counts, rankboard's do not"


def test_where_nobody_knows_how_busy_the_cores_are_nothing_is_concluded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(busiest, "read_text", lambda path: "")
    monkeypatch.setattr(busiest, "_cpu_ticks", dict)
    monkeypatch.setattr(busiest, "SECONDS", 0.0)
    watched = busiest.BusyProcesses()
    assert watched.find_busiest() == ()
    assert math.isnan(watched.other_cores)


@pytest.mark.skipif(not LINUX, reason="reads /proc")
def test_processes_of_this_session_are_those_of_rankboard() -> None:
    program = [sys.executable, "-c", "input()"]
    with (
        subprocess.Popen(program, stdin=subprocess.PIPE, start_new_session=True) as other,
        subprocess.Popen(program, stdin=subprocess.PIPE) as own,
    ):
        assert {other.pid, own.pid} <= {*busiest._cpu_ticks()}
        assert busiest._name_process(own.pid) == busiest.OWN_NAME
        assert busiest._name_process(other.pid) != busiest.OWN_NAME
        for process in (other, own):
            process.communicate(b"\n")


@pytest.mark.skipif(not LINUX, reason="reads /proc")
@pytest.mark.parametrize(("other_share", "is_over"), [(0.1, True), (1.0, False), (math.nan, False)])
def test_the_load_of_a_run_that_has_just_ended_counts_no_more(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, other_share: float, is_over: bool
) -> None:
    machine_cores = os.cpu_count() or 1
    watched = SimpleNamespace(other_cores=other_share * machine_cores, find_busiest=tuple)
    monkeypatch.setattr(facts, "cpu_load", lambda: 900.0)
    monkeypatch.setattr(facts, "_watch_processes", lambda load, cores: watched)
    hello = facts.hello(str(tmp_path), "")
    assert (hello["load"] < facts.usable_cores() / 2) is is_over
    assert (hello["load"] == 900.0) is not is_over


def test_only_on_a_busy_host_are_processes_watched() -> None:
    assert facts._watch_processes(0.9, 1.0) is None
    assert facts._watch_processes(4.0, 8.0) is None
    assert (facts._watch_processes(4.1, 8.0) is not None) is LINUX

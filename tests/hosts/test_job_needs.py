"""What hosts tell of what a job needs, and what the doctor makes of it: data, checkpoint,
precision, other runs."""

from __future__ import annotations

import fcntl
import hashlib
import http.server
import json
import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from remote.doctor import doctor
from remote.events import CheckFinished
from remote.plan import needs
from remote.plan.needs import needs_of_job
from remote.plan.plan import Plan, Policy, Script, Upload
from tests.kit import agents
from tests.kit.checks import GIB, amiss, check, hello, hellos, plan
from training import checksums, registry
from training.agent.host import reach
from training.agent.host.needs import check_needs
from training.agent.host.system import CPUINFO, cpu_flags
from training.agent.live_runs import find_live_runs
from training.job import Job
from training.wire.format import FORMAT
from training.wire.host_events import Hello

JOB = Job(dataset="mnist", data_dir="/data")
IMAGES = Job(model="resnet18", dataset="imagefolder:/data/photos")
FILES = needs_of_job(JOB)["files"]
OFFLINE = {"sources": ()}
"""Nothing is asked of the web."""


def row(name: str, job: Job, facts: Sequence[Hello | None]) -> list[CheckFinished]:
    return [one for one in check(plan(len(facts), work=job), facts) if one.check == name]


# On the host --------------------------------------------------------------------------------------


def test_a_host_tells_which_files_are_missing(tmp_path: Path) -> None:
    job = replace(JOB, data_dir=str(tmp_path / "data"))
    found = check_needs(needs_of_job(job) | OFFLINE, "")
    assert found["data_missing"] == FILES
    assert (found["data_folder"], found["data_problem"]) == (str(tmp_path / "data"), "")
    assert found["data_free"] > 0
    for name in FILES:
        there = tmp_path / "data" / name.removesuffix(".gz")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.touch()
    assert check_needs(needs_of_job(job), "") == {"data_folder": str(tmp_path / "data")}


def test_an_archive_that_holds_the_files_is_enough(tmp_path: Path) -> None:
    wanted = needs_of_job(Job(dataset="cifar10", data_dir=str(tmp_path)))
    assert check_needs(wanted | OFFLINE, "")["data_missing"]
    (tmp_path / "cifar-10-python.tar.gz").touch()
    assert "data_missing" not in check_needs(wanted, "")


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "cache"
    monkeypatch.setenv("RANKBOARD_CACHE", str(folder))
    return folder


def fill(folder: Path, content: bytes = b"") -> Job:
    """A job whose files are all there, each with this content."""
    for name in FILES:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return replace(JOB, data_dir=str(folder))


@pytest.mark.usefixtures("cache")
def test_a_host_tells_which_files_are_not_the_published_ones(tmp_path: Path) -> None:
    job = fill(tmp_path, b"cut")
    assert check_needs(needs_of_job(job), "")["data_damaged"] == tuple(
        str(tmp_path / name) for name in FILES
    )
    assert check_needs(needs_of_job(replace(job, verify_data=False)), "") == {
        "data_folder": str(tmp_path)
    }
    (tmp_path / FILES[0]).unlink()
    found = check_needs(needs_of_job(job) | OFFLINE, "")
    assert found["data_missing"] == FILES[:1]
    assert len(found["data_damaged"]) == 3, "what is downloaded replaces none of those"


@pytest.mark.usefixtures("cache")
def test_an_archive_is_compared_where_it_has_to_be_unpacked(tmp_path: Path) -> None:
    job = Job(dataset="cifar10", data_dir=str(tmp_path))
    (tmp_path / "cifar-10-python.tar.gz").write_bytes(b"half of it")
    for of in (job, replace(job, verify_data=False)):
        assert len(check_needs(needs_of_job(of), "")["data_damaged"]) == 1
    (tmp_path / "cifar-10-batches-py").mkdir()
    for name in needs_of_job(job)["files"]:
        (tmp_path / name).touch()
    assert "data_damaged" not in check_needs(needs_of_job(replace(job, verify_data=False)), "")


def test_a_sum_is_computed_once(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksums, "SETTLED", -1e9)
    (file := tmp_path / "file").write_bytes(b"as published")
    wanted = {str(file): hashlib.md5(b"as published").hexdigest()}
    read: list[str] = []
    compute = checksums._md5
    monkeypatch.setattr(checksums, "_md5", lambda *args: read.append(args[0]) or compute(*args))
    for _ in range(3):
        assert checksums.compare(wanted) == ((), ())
    assert read == [str(file)]
    state = file.stat()
    file.write_bytes(b"As published")
    os.utime(file, ns=(state.st_atime_ns, state.st_mtime_ns))
    assert checksums.compare(wanted) == ((str(file),), ()), "of the same size and time of change"
    (cache / checksums.REMEMBERED).write_text("rubbish")
    assert checksums.compare(wanted) == ((str(file),), ())


def test_a_file_that_was_just_written_is_read_again(tmp_path: Path, cache: Path) -> None:
    (file := tmp_path / "file").write_bytes(b"")
    checksums.compare({str(file): "?"})
    assert not cache.exists(), "a change within the same tick of the clock would not show"


@pytest.mark.usefixtures("cache")
def test_nobody_waits_for_a_slow_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("training.agent.host.needs.SECONDS", 0.0)
    found = check_needs(needs_of_job(fill(tmp_path)), "")
    assert (len(found["data_unread"]), "data_damaged" in found) == (4, False)


def test_the_published_sums_and_sources_are_those_of_torchvision() -> None:
    from torchvision import datasets

    for name, theirs in (("mnist", datasets.MNIST), ("fashion_mnist", datasets.FashionMNIST)):
        published = registry.read_constant("datasets", name, "FILES")
        assert {Path(file).name: md5 for file, md5 in published.items()} == dict(theirs.resources)
        assert registry.read_constant("datasets", name, "SOURCES") == tuple(theirs.mirrors)
    cifar = datasets.CIFAR10
    batches = [*cifar.train_list, *cifar.test_list]
    published = registry.read_constant("datasets", "cifar10", "FILES")
    assert {Path(file).name: md5 for file, md5 in published.items()} == dict(batches)
    assert registry.read_constant("datasets", "cifar10", "ARCHIVE") == {
        cifar.filename: cifar.tgz_md5
    }
    for name, urls in (
        ("cifar10", [cifar.url]),
        ("svhn", [url for url, *_ in datasets.SVHN.split_list.values()]),
    ):
        assert registry.read_constant("datasets", name, "SOURCES") == (
            urls[0].rpartition("/")[0] + "/",
        )
    svhn = registry.read_constant("datasets", "svhn", "FILES")
    assert all(
        svhn[f"svhn/{datasets.SVHN.split_list[split][1]}"] == datasets.SVHN.split_list[split][2]
        for split in ("train", "test")
    )


class Refusing(http.server.BaseHTTPRequestHandler):
    """A server that answers, though it has nothing."""

    def do_HEAD(self) -> None:
        self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


def test_a_source_is_tried_the_way_it_would_be_downloaded() -> None:
    with (
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Refusing) as server,
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.socket() as closed,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        closed.bind(("127.0.0.1", 0))
        open_one, silent_one, closed_one = (
            f"http://127.0.0.1:{port}/"
            for port in (server.server_port, silent.getsockname()[1], closed.getsockname()[1])
        )
        nowhere = "http://nowhere.invalid/"
        assert reach.unreachable([closed_one, open_one], 9, {}) == ()
        assert reach.unreachable([nowhere], 9, {"http_proxy": open_one}) == (), "by its proxy"
        refused = reach.unreachable([closed_one], 9, {})
        assert refused == ((closed_one[7:-1], "Connection refused"),)
        (refused,) = reach.unreachable([open_one], 9, {"http_proxy": closed_one})
        assert refused == (open_one[7:-1], "Connection refused"), "by its proxy alone"
        (late,) = reach.unreachable([silent_one], 0.2, {})
        assert late == (silent_one[7:-1], "")
        server.shutdown()


def test_a_host_tells_that_it_cannot_download(tmp_path: Path) -> None:
    job = replace(JOB, data_dir=str(tmp_path))
    found = check_needs(needs_of_job(job) | {"sources": ["http://127.0.0.1:9/"]}, "")
    assert found["data_unreachable"] == (("127.0.0.1:9", "Connection refused"),)


def test_sources_are_tried_through_the_proxies_of_the_ranks() -> None:
    def wanted(**of_host: object) -> dict[str, object]:
        return needs.needs_of_host(plan(1, work=replace(JOB, data_dir="/data"), **of_host), 0)

    proxy = ("https_proxy", "http://proxy:3128")
    assert wanted(env=(proxy, ("A", "1")))["proxies"] == dict([proxy])
    assert wanted()["sources"]
    assert not wanted(env=(("HTTP_PROXY", "http://me:secret@proxy"),))["sources"], "see ps"
    assert not wanted(env_from=("https_proxy",))["sources"]


def test_a_host_looks_no_longer_than_it_is_waited_for() -> None:
    hosts = plan(1, work=replace(JOB, data_dir="/data"), timeout=4.0)
    assert needs.needs_of_host(hosts, 0)["seconds"] == 1.0
    unchecked = needs.needs_of_host(replace(hosts, policy=Policy(doctor=False)), 0)
    assert not unchecked["sums"]
    assert not unchecked["sources"]


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    found = check_needs(needs_of_job(replace(JOB, data_dir=str(tmp_path / "a" / "b"))), "")
    assert found["data_problem"] == f"{tmp_path} is not writable"


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    job = replace(IMAGES, dataset=f"imagefolder:{tmp_path / 'photos'}")
    assert (
        check_needs(needs_of_job(job), "")["data_problem"]
        == f"{tmp_path / 'photos'}: No such file or directory"
    )
    (tmp_path / "photos").mkdir()
    assert check_needs(needs_of_job(job), "") == {
        "data_folder": str(tmp_path / "photos"),
        "data_problem": "",
    }


def test_the_newest_complete_checkpoint_is_told(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for step, complete in ((20, True), (100, True), (120, False)):
        (where := runs / "before" / "0" / "checkpoints" / f"step-{step:06}").mkdir(parents=True)
        if complete:
            (where / "manifest.json").touch()
    folder = str(runs / "new" / "0")
    assert check_needs({"resume": "before"}, folder) == {
        "resume": "before",
        "resume_step": 100,
        "resume_known": (),
    }
    assert check_needs({"resume": "another"}, folder) == {
        "resume": "another",
        "resume_step": 0,
        "resume_known": ("before",),
    }
    assert (
        check_needs({"resume": str(runs / "before" / "0" / "checkpoints")}, folder)["resume_step"]
        == 100
    )


def test_nothing_is_looked_for_that_means_another_thing_there() -> None:
    assert needs_of_job(Job()) == {}
    assert needs_of_job(Job(dataset="imagefolder:photos", resume="./here")) == {}
    assert needs_of_job(Job(resume="a-run")) == {"resume": "a-run"}


def test_flags_of_the_cpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "cpuinfo"
    monkeypatch.setattr("training.agent.host.system.CPUINFO", str(info))
    monkeypatch.setattr(os, "uname", lambda: os.uname_result(("Linux", "host", "6", "1", "x86_64")))
    info.write_text(
        "processor\t: 0\nmodel name\t: A CPU\nflags\t\t: fpu avx2 avx512f "
        "amx_bf16\n\nprocessor\t: 1\n"
    )
    assert cpu_flags() == ("avx2", "avx512f", "amx_bf16")
    info.unlink()
    assert cpu_flags() == ()
    assert CPUINFO == "/proc/cpuinfo"


def test_other_live_runs_are_told_with_their_ranks(tmp_path: Path) -> None:
    for run in ("a-run", "another", "ended"):
        (folder := tmp_path / "runs" / run / "1").mkdir(parents=True)
        (folder / "lock").touch()
        plan = {"format": FORMAT, "hosts": [{"slots": 4}, {"slots": 2}]}
        (folder / "plan.json").write_text(json.dumps(plan))
    with (
        open(tmp_path / "runs" / "a-run" / "1" / "lock") as own,
        open(tmp_path / "runs" / "another" / "1" / "lock") as lock,
    ):
        fcntl.flock(own, fcntl.LOCK_EX)
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert find_live_runs(str(tmp_path / "runs" / "a-run" / "1")) == (("another", 2),)
    assert find_live_runs(str(tmp_path / "runs" / "a-run" / "1")) == ()


def test_other_live_runs_of_this_machine_are_told(tmp_path: Path) -> None:
    (folder := tmp_path / "other" / "node" / "runs" / "other" / "0").mkdir(parents=True)
    plan = {"format": FORMAT, "hosts": [{"slots": 4}]}
    (folder / "plan.json").write_text(json.dumps(plan))
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert find_live_runs(str(tmp_path / "own" / "node" / "runs" / "own" / "0")) == (
            ("other", 4),
        )


@pytest.mark.parametrize("agent", [True, False])
def test_the_facts_of_agent_and_errand_have_it(agent: bool, host: agents.Host) -> None:
    job = replace(JOB, data_dir=str(host.folder / "nowhere"))
    wanted = json.dumps(needs_of_job(job) | {"sources": ["http://127.0.0.1:9/"]})
    asked = host.follow("--needs", wanted) if agent else host.check(needs=wanted)
    (said,) = asked.wait_for(Hello)
    asked.close()
    assert said.data_missing == FILES
    assert said.data_unreachable == (("127.0.0.1:9", "Connection refused"),)


# What it means ------------------------------------------------------------------------------------

MISSING = {"data_folder": "/data", "data_missing": FILES, "data_free": 9 * GIB}


def test_data_are_there_or_downloaded() -> None:
    facts = [hello(1, data_folder="/data"), hello(2, **MISSING)]
    assert [(one.outcome, one.text) for one in row("data", JOB, facts)] == [
        ("ok", "there"),
        ("ok", "fetch 11.4 MiB"),
    ]
    assert row("data", Job(), [hello(1)])[0].text == "not needed"
    assert row("data", Job(), [hello(1)])[0].outcome == "ok"


LACKS = {
    "no room": (
        JOB,
        {**MISSING, "data_free": 10**6},
        "mnist is not in /data, and its 11.4 MiB do not fit: only 977 KiB are free",
    ),
    "not writable": (
        JOB,
        {**MISSING, "data_problem": "/ is not writable"},
        "mnist is not in /data, and cannot be downloaded into it: / is not writable",
    ),
    "not readable": (
        JOB,
        {"data_folder": "/data", "data_problem": "/data/MNIST: Permission denied"},
        "/data/MNIST: Permission denied",
    ),
    "damaged": (
        JOB,
        {"data_folder": "/data", "data_damaged": ("/data/a", "/data/b")},
        "/data/a and 1 more file do not have the published checksum",
    ),
    "no way to download": (
        JOB,
        {**MISSING, "data_unreachable": (("a.org", "Name or service not known"),)},
        "mnist is not in /data, and cannot be downloaded there (a.org: Name or service not known)",
    ),
    "no folder": (
        IMAGES,
        {"data_folder": "/data/photos", "data_problem": "/data/photos: No such file or directory"},
        "/data/photos: No such file or directory",
    ),
}


@pytest.mark.parametrize("name", LACKS)
def test_data_that_cannot_be_had_are_a_failure(name: str) -> None:
    job, facts, text = LACKS[name]
    found = row("data", job, [hello(1, **facts)])
    assert amiss(found) == [(0, "data", "failed")]
    assert found[0].text.startswith(text)


def test_a_source_that_is_slow_to_answer_is_a_warning() -> None:
    slow = hello(1, **MISSING, data_unreachable=(("a.org", ""), ("b.org", "Connection refused")))
    found = row("data", JOB, [slow])
    assert amiss(found) == [(0, "data", "warning")]
    assert "(a.org: it does not answer; b.org: Connection refused)" in found[0].text
    assert "--upload" in found[0].advice
    unread = hello(1, data_folder="/data", data_unread=("/data/a",))
    assert row("data", JOB, [unread])[0].text == "there, unchecked"


def test_uploaded_data_are_not_looked_for() -> None:
    of = replace(
        plan(1, work=replace(IMAGES, dataset="imagefolder:photos")),
        uploads=(Upload("/here/photos", "photos"),),
    )
    assert CheckFinished(0, "data", "ok", "uploaded") in check(of, [hello(1)])


def test_one_host_with_the_checkpoint_is_enough() -> None:
    job = Job(resume="before")
    facts = [hello(1, resume="before", resume_step=40), hello(2, resume="before")]
    assert [(one.outcome, one.text) for one in row("job", job, facts)] == [
        ("ok", "step 40"),
        ("ok", "none here"),
    ]
    none = row("job", job, [replace(one, resume_step=0) for one in facts])
    assert amiss(none) == [(0, "job", "failed"), (1, "job", "failed")]
    assert (
        none[0].text
        == "--resume before: no complete checkpoint of it is there; no run there has saved one"
    )
    known = row("job", job, [replace(facts[1], resume_known=("2", "1")), facts[1]])
    assert known[1].text.endswith("the newest there that have some are 2 and 1")
    again = row("job", Job(resume="a-run"), facts)
    assert amiss(again) == [], "a restart resumes from another run than the hosts have looked for"


BARE, ABLE = ("avx2", "avx512f"), ("avx2", "avx512_bf16")


def test_bf16_on_a_cpu_without_it_is_a_warning() -> None:
    job = Job(precision="bf16")
    found = row("precision", job, hellos(3, flags=BARE))
    assert amiss(found) == [(1, "precision", "warning")]
    assert "no bf16 instructions: --precision bf16 is many times slower" in found[1].text
    assert (
        amiss(row("precision", job, [hello(1, flags=ABLE), hello(2, flags=("asimd", "bf16"))]))
        == []
    )
    on_gpus = [hello(n, flags=BARE, gpus=("NVIDIA H200",)) for n in (1, 2)]
    assert amiss(row("precision", job, on_gpus)) == []
    assert row("precision", Job(), hellos(3, flags=BARE)) == []


def test_a_plan_without_a_job_has_none_of_these_checks() -> None:
    """But for that of its own program."""
    names = {
        one.check
        for one in doctor.check_facts(
            Plan("a-run", plan(1).hosts, Script(("x",))), [hello(1)], [0.0]
        )
    }
    assert names.intersection(doctor.OF_SOME_PLANS) == {"program"}

"""A sync method's options: read out of its source without torch, from `key=value` words, with
errors that say what to write."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from training import options, registry
from training.job import Job, JobError
from training.options import Option
from training.traits import Traits

METHODS = registry.list_names("sync")
DOCUMENTATION = Path(registry.ROOT).parent / "docs"
METHODS_PAGE = DOCUMENTATION / "explanation" / "sync-methods.md"
OPTIONS_PAGE = DOCUMENTATION / "reference" / "options.md"


KINDS = (
    Option("kind", "first", "", choices=("first", "second")),
    Option("count", 3, "", low=1),
    Option("size", 2.5, "", above=0),
    Option("quick", False, ""),
    Option("name", "x", ""),
)
"""One of each kind."""


def parsed(*words: str) -> SimpleNamespace:
    return options.parse_options(KINDS, words)


def test_words_of_every_kind() -> None:
    defaults = {"kind": "first", "count": 3, "size": 2.5, "quick": False, "name": "x"}
    assert vars(parsed()) == defaults
    assert vars(parsed("kind=second", "count=7", "size=1e-3", "quick=yes", "name=a=b")) == {
        "kind": "second",
        "count": 7,
        "size": 1e-3,
        "quick": True,
        "name": "a=b",
    }
    assert vars(parsed("quick=no", "size=4")) == defaults | {"size": 4.0}
    assert isinstance(parsed("size=4").size, float)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        (
            "cuont=7",
            "cuont=7: unknown option 'cuont': did you mean 'count'? (known: kind=first|second "
            "(first), count=N (3), ",
        ),
        (
            "zzz=1",
            "zzz=1: unknown option 'zzz' (known: kind=first|second (first), count=N (3), "
            "size=NUMBER (2.5), ",
        ),
        ("=1", "=1: unknown option ''"),
        ("count", "count: write count=N"),
        ("count=", "count=: must be a whole number"),
        ("count=1.5", "count=1.5: must be a whole number"),
        ("size=big", "size=big: must be a number"),
        ("size=inf", "size=inf: must be a number"),
        ("size=nan", "size=nan: must be a number"),
        ("kind=third", "kind=third: must be first or second"),
        ("quick=true", "quick=true: must be yes or no"),
        ("count=0", "count=0: must be at least 1"),
        ("size=0", "size=0: must be greater than 0"),
        ("size=-1", "size=-1: must be greater than 0"),
    ],
)
def test_mistakes_name_the_flag_and_what_to_write(word: str, message: str) -> None:
    with pytest.raises(options.OptionError) as caught:
        parsed(word)
    assert str(caught.value).startswith(message)


def test_a_method_without_options_takes_none() -> None:
    assert options.parse_options(options.declared_options("none"), ()) == SimpleNamespace()
    with pytest.raises(options.OptionError, match=r"unknown option 'every' \(known: none\)"):
        options.parse_options(options.declared_options("none"), ["every=2"])


@pytest.mark.parametrize("lr", [float("inf"), float("nan")])
def test_a_number_of_a_job_is_finite(lr: float) -> None:
    with pytest.raises(JobError, match=f"^--lr {lr}: write a finite number$"):
        Job(lr=lr)


def test_described() -> None:
    said = (
        "kind=first|second (first), count=N (3), size=NUMBER (2.5), quick=yes|no (no), name=TEXT "
        "(x)"
    )
    assert options.describe_options(KINDS) == said
    assert options.describe_options(()) == ""


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["OPTIONS", "TRAITS"])
def test_what_is_read_from_the_source_is_what_the_module_has(name: str, method: str) -> None:
    has = getattr(registry.load_module("sync", method), name, {})
    assert registry.read_constant("sync", method, name, {}) == has


@pytest.mark.parametrize("method", METHODS)
def test_every_option_is_explained_and_requires_what_there_is(method: str) -> None:
    known = {option.name: option for option in options.declared_options(method)}
    for option in known.values():
        assert option.help
        for other, values in option.requires.items():
            assert {*values} < {*known[other].choices}


@pytest.mark.parametrize("method", METHODS)
def test_every_method_and_option_is_in_the_documentation(method: str) -> None:
    assert f"\n| `{method}` | " in METHODS_PAGE.read_text()
    listed = OPTIONS_PAGE.read_text()
    assert all(f"\n- `{option.name}=" in listed for option in options.declared_options(method))


@pytest.mark.parametrize("method", METHODS)
def test_every_default_can_be_said(method: str) -> None:
    defaults = {option.name: option.default for option in options.declared_options(method)}
    words = [f"{name}={options.format_value(value)}" for name, value in defaults.items()]
    job = Job(sync=method, sync_option=tuple(words))
    assert vars(job.sync_options()) == defaults
    job.check_world(1)


def test_the_defaults_are_these() -> None:
    """docs/reference/options.md says so: whoever changes one changes it here, too."""
    buckets = {"granularity": "bucket", "bucket_mb": 2.5}
    defaults = {
        method: {option.name: option.default for option in options.declared_options(method)}
        for method in METHODS
    }
    assert defaults == {
        "all_reduce": buckets,
        "ddp": {
            "bucket_mb": 25.0,
            "gradient_as_bucket_view": True,
            "static_graph": False,
            "compression": "none",
            "rank": 2,
            "start": 2,
        },
        "gather_scatter": {**buckets, "segment_kb": 256.0},
        "hierarchical": buckets,
        "local_sgd": {"every": 8, "warmup": 0},
        "none": {},
        "parameter_server": {"mode": "sync", "server": 0, "dedicated": False, "bucket_mb": 25.0},
        "ring": {**buckets, "segment_kb": 1000.0},
    }


def test_traits_follow_the_options() -> None:
    assert Job(sync="ddp").traits() == Traits()
    assert not Job(sync="none").traits().settles
    waiting = Job(sync="parameter_server", sync_option=("server=1", "dedicated=yes")).traits()
    assert waiting == Traits(dedicated_server=True, server=1)
    hurrying = Job(sync="parameter_server", sync_option=("mode=async",)).traits()
    assert hurrying == Traits(exact=False, stale=True, server=0)
    assert all(map(hurrying.trains, range(3)))


def test_a_job_names_the_method_too() -> None:
    with pytest.raises(
        JobError, match=r"^--sync none --sync-option every=2: unknown option 'every'"
    ):
        Job(sync="none", sync_option=("every=2",))
    with pytest.raises(
        JobError,
        match=r"^--sync ddp --sync-option bucket_mb=0: must be greater than 0$",
    ):
        Job(sync="ddp", sync_option=("bucket_mb=0",))


@pytest.mark.parametrize(
    ("method", "words", "told"),
    [
        (
            "all_reduce",
            "granularity=flat bucket_mb=1",
            "bucket_mb=1 only applies with granularity=bucket; remove it",
        ),
        (
            "hierarchical",
            "granularity=flat bucket_mb=1",
            "bucket_mb=1 only applies with granularity=bucket; remove it",
        ),
        (
            "ring",
            "granularity=flat bucket_mb=1",
            "bucket_mb=1 only applies with granularity=bucket; remove it",
        ),
        (
            "gather_scatter",
            "granularity=parameter bucket_mb=1",
            "bucket_mb=1 only applies with granularity=bucket; remove it",
        ),
        (
            "gather_scatter",
            "granularity=parameter segment_kb=1",
            "segment_kb=1 only applies with granularity=bucket or flat; remove it",
        ),
        (
            "ddp",
            "compression=powersgd bucket_mb=1",
            "bucket_mb=1 only applies with compression=none, fp16 or bf16; remove it",
        ),
        ("ddp", "rank=4", "rank=4 only applies with compression=powersgd; remove it"),
    ],
)
def test_an_option_that_would_do_nothing_is_refused(method: str, words: str, told: str) -> None:
    job = Job(
        sync=method, sync_option=tuple(words.split())
    )  # a record of an earlier run may say so
    with pytest.raises(JobError, match=f"^--sync {method} --sync-option .*{told}"):
        job.check_world(1)


def test_a_dedicated_server_takes_no_samples() -> None:
    job = Job(sync="parameter_server", sync_option=("server=1", "dedicated=yes"), batch_size=3)
    assert job.trainers(4) == [0, 2, 3]
    job.check_world(4)
    with pytest.raises(JobError, match="--batch-size 3 is smaller than the 4 ranks that share it"):
        job.check_world(5)


def test_what_waits_for_nobody_cannot_wait_in_every_layer() -> None:
    job = Job(sync="parameter_server", sync_option=("mode=async",), batch_norm="sync")
    with pytest.raises(
        JobError,
        match=r"^--batch-norm sync .* --sync parameter_server lets no rank wait: choose broadcast",
    ):
        job.check_world(2)
    Job(sync="parameter_server", batch_norm="sync").check_world(2)


def test_a_job_checks_options_against_the_world() -> None:
    job = Job(sync="parameter_server", sync_option=("server=3",))
    job.check_world(4)
    with pytest.raises(
        JobError,
        match=r"^--sync parameter_server --sync-option server=3: ranks go from 0 to 2$",
    ):
        job.check_world(3)


def test_options_survive_the_command_line() -> None:
    job = Job(sync="ring", sync_option=("bucket_mb=1", "segment_kb=2"))
    assert Job.parse(job.argv()).sync_options() == job.sync_options()
    assert (job.sync_options().bucket_mb, job.sync_options().segment_kb) == (1.0, 2.0)


def test_the_launcher_reads_them_without_torch() -> None:
    source = """
import sys
from training import options, registry
from training.job import Job
for name in registry.list_names("sync"):
    options.describe_options(options.declared_options(name))
    Job(sync=name).traits()
print(sorted(name for name in ("torch", "numpy", "training.sync") if name in sys.modules))
"""
    done = subprocess.run(
        [sys.executable, "-c", source],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    assert done.stdout == "[]\n"

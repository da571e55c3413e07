"""Which runs words choose, their order, and what is wrong with words."""

from __future__ import annotations

import time

import pytest

from remote.record.entry import Entry
from remote.record.query import QueryError, name_quick_variants, parse, sort_runs

RING = {"sync": "ring", "sync_option": ["bucket_mb=10"], "model": "vgg11", "lr": 0.01}
NOON = time.mktime(time.strptime("2026-11-20 12:00:00", "%Y-%m-%d %H:%M:%S"))
RUNS = (
    Entry("ddp-1", job={}, hosts=("n1",), ranks=2, verdict="finished", step=40, loss=0.5),
    Entry("ring-2", job=RING, hosts=("n1", "n2"), ranks=2, verdict="failed", cause="Out of memory"),
    Entry("ring-3", job=RING | {"epochs": 2}, hosts=("n2",), loss=0.25, accuracy=0.7, star=True),
    Entry(
        *("own-4", "", None, "train.py --fast", {"$LR": "0.5, 0.1"}),
        verdict="running",
        note="Best",
        started=NOON,
    ),
    Entry("tv-5", job={"model": "torchvision/resnet50"}, study="nodes", trial="t #1", loss=2.0),
)


def chosen(*words: str) -> str:
    """The numbers of the runs that the words choose."""
    return "".join(run.name[-1] for run in filter(parse(words), RUNS))


@pytest.mark.parametrize(
    ("words", "numbers"),
    [
        ("", "12345"),
        ("sync=ring", "23"),
        ("method=ring", "23"),
        ("sync==ring", "23"),
        ("sync=ring,ddp", "1235"),
        ("sync!=ring", "145"),
        ("sync=ring nodes=2", "2"),
        ("host=n2", "23"),
        ("ranks=2", "12"),
        ("loss<0.5", "3"),
        ("loss<=0.5", "13"),
        ("loss>0.5", "5"),
        ("loss=", "24"),
        ("loss!=", "135"),
        ("accuracy>=70%", "3"),
        ("verdict=failed,running", "24"),
        ("star", "3"),
        ("star=no", "1245"),
        ("lr=0.01", "23"),
        ("lr=0.1", "15"),
        ("LR=0.1", "4"),
        ("LR=0.2", ""),
        ("LR!=", "4"),
        ("epochs=2", "3"),
        ("batch-size=64", "1235"),
        ("compile=no", "1235"),
        ("bucket_mb=10", "23"),
        ("bucket_mb>2", "1235"),
        ("model=torchvision/*", "5"),
        ("model=vgg11,torchvision/*", "235"),
        ("memory", "2"),
        ("best", "4"),
        ("--fast", "4"),
        ("RING", "23"),
        ("study=nodes", "5"),
        ("study=", "1234"),
        ("started=2026-11-20", "4"),
        ("started>=2026-11-20", "4"),
        ("started>2026-11-20", ""),
        ("started<2026-11-20T12:01", "4"),
        ("started>2025", "4"),
        ("script!=", "4"),
    ],
)
def test_words_choose_runs(words: str, numbers: str) -> None:
    assert chosen(*words.split()) == numbers


QUICK = (Entry("a-1", study="ways-quick"), Entry("b-2", study="nodes"))
BOTH = (*QUICK, Entry("c-3", study="ways"), Entry("d-4", study="nodes-quick"))


@pytest.mark.parametrize(
    ("words", "runs", "expected"),
    [
        ("study=ways star", QUICK, "study=ways-quick star"),
        ("study==ways,nodes", QUICK, "study=ways-quick,nodes"),
        ("study=ways", BOTH, "study=ways"),
        ("study=nodes", BOTH, "study=nodes"),
        ("study=links", QUICK, "study=links"),
        ("study!=ways note=ways ways study=", QUICK, "study!=ways note=ways ways study="),
    ],
)
def test_a_study_without_runs_stands_for_its_quick_variant(
    words: str, runs: tuple[Entry, ...], expected: str
) -> None:
    named_words, studies = name_quick_variants(words.split(), runs)
    assert named_words == expected.split()
    assert studies == ({"ways": "ways-quick"} if "ways-quick" in expected else {})


def test_all_mistakes_are_told_at_once() -> None:
    words = "syn=ring los<1 sync=rign verdict=fail lr=fast star=maybe model<3 started=now loss"
    with pytest.raises(QueryError) as raised:
        parse([*words.split(), "sync=ring"])
    told = str(raised.value).splitlines()
    assert [line.partition(" (known")[0] for line in told] == [
        "syn=ring: runs have no 'syn': did you mean 'sync'?",
        "los<1: runs have no 'los': did you mean 'loss'?",
        "unknown sync method 'rign': did you mean 'ring'?",
        "unknown verdict 'fail': did you mean 'failed'?",
        "lr=fast: fast is not a number",
        "star=maybe: write star=yes or star=no",
        "model<3: model is a text: compare it with = or !=",
        "started=now: write a date such as 2026-11-20 or 2026-11-20T09:30",
        "loss: write what to compare it with, in quotes, such as 'loss<0.5': the shell takes < and "
        "> for files",
    ]


@pytest.mark.parametrize(
    ("key", "reverse", "numbers"),
    [
        ("loss", False, "31524"),
        ("loss", True, "51324"),
        ("run", True, "53241"),
        ("method", False, "15234"),
        ("bucket-mb", False, "23154"),
    ],
)
def test_runs_are_sorted_and_the_unknown_come_last(key: str, reverse: bool, numbers: str) -> None:
    assert "".join(run.name[-1] for run in sort_runs(RUNS, key, reverse)) == numbers


def test_a_key_that_is_not_there_has_a_near_one() -> None:
    with pytest.raises(QueryError, match="--sort acuracy: runs have no 'acuracy': did you mean"):
        sort_runs(RUNS, "acuracy")

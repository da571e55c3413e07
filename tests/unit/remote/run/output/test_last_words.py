"""What is shown of a program's last lines: the user's own frames, not twenty lines of torch."""

from __future__ import annotations

import pytest

from remote.run.diagnosis.cause import TAIL
from remote.run.output.last_words import HEADER, LINKS, last_words
from tests.kit.histories import GLOO, History, plan, said
from training.wire.enums import EndReason
from training.wire.host_events import AgentEnded, Exited, Hello
from tui.run import outcome

SITE = "/opt/venv/lib/python3.11/site-packages"


def frame(path: str, line: int, code: str, marks: bool = False) -> list[str]:
    found = [f'  File "{path}", line {line}, in f', f"    {code}"]
    return [*found, "    ^^^^^^^^"] if marks else found


def torch_frames(count: int) -> list[str]:
    return [
        line
        for number in range(count)
        for line in frame(f"{SITE}/torch/nn/m{number}.py", number, f"call{number}()")
    ]


OWN = [
    *frame("/home/me/train.py", 90, "main()"),
    *frame("/home/me/train.py", 41, "loss = step(batch)"),
]
MODEL = frame("/home/me/model.py", 12, "return self.head(x)")
DEEP = [
    HEADER,
    *OWN,
    *torch_frames(8),
    *MODEL,
    *torch_frames(9),
    "RuntimeError: mat1 and mat2 shapes cannot be multiplied",
]


def test_what_fits_is_shown_as_it_is() -> None:
    short = [HEADER, *OWN, "ValueError: bad batch"]
    assert last_words(["a warning", *short], 20) == ("a warning", *short)
    assert last_words([f"line {number}" for number in range(50)], 20) == tuple(
        f"line {number}" for number in range(30, 50)
    )
    assert last_words([], 20) == ()


def test_a_long_traceback_keeps_its_own_frames_and_the_one_that_raised() -> None:
    shown = last_words(DEEP, 20)
    assert len(shown) <= 20
    assert list(shown[:5]) == DEEP[:5]
    assert "  … 8 frames left out" in shown
    at = shown.index(MODEL[0])
    assert list(shown[at : at + 2]) == MODEL
    assert shown[-3:] == tuple(cut(DEEP[-3:]))


def cut(lines: list[str]) -> list[str]:
    return [line.replace(f"{SITE}/", "") for line in lines]


def test_what_was_shortened_can_be_shortened_again() -> None:
    again = last_words(last_words(DEEP, 20), 8)
    assert len(again) <= 8
    assert {*MODEL} < {*again}
    assert again[-3:] == (*cut(DEEP[-3:]),)


def test_where_there_is_hardly_any_room_the_users_frame_and_the_exception_are_left() -> None:
    assert last_words(DEEP, 5) == (
        "  … 21 lines left out",
        *MODEL,
        "  … 9 frames left out",
        DEEP[-1],
    )


def test_torchs_prefix_is_taken_off() -> None:
    assert last_words([f"[rank1]: {line}" for line in DEEP], 20) == last_words(DEEP, 20)


def test_stacks_of_c_below_an_exception_do_not_drive_it_out() -> None:
    stack = [
        "Exception raised from gloo at pair.cc:561",
        *(f"frame #{number}: c10::f() + 0x1f (libtorch.so)" for number in range(40)),
    ]
    shown = last_words(
        [HEADER, *OWN, *torch_frames(3), "RuntimeError: Connection closed by peer", *stack], 12
    )
    assert len(shown) <= 12
    assert "RuntimeError: Connection closed by peer" in shown
    assert set(OWN) <= set(shown)
    assert shown[-2].startswith("  … ") or shown[-1].startswith("  … ")


def test_of_a_chain_every_exception_is_there() -> None:
    chain = [*DEEP, "", LINKS[0], "", HEADER, *OWN, *torch_frames(9), GLOO]
    shown = last_words(chain, 20)
    assert len(shown) <= 20
    assert DEEP[-1] in shown
    assert LINKS[0] in shown
    assert shown[-1] == GLOO
    assert sum(line in OWN for line in shown) >= 4


def test_only_the_last_traceback_is_cut_out() -> None:
    shown = last_words([HEADER, *OWN, "OSError: retried", *DEEP], 20)
    assert "OSError: retried" not in shown


def test_a_head_that_is_out_of_sight() -> None:
    shown = last_words([*torch_frames(30), *MODEL, *torch_frames(20), "ValueError: bad"], 9)
    assert len(shown) <= 9
    assert (*MODEL, "ValueError: bad") == tuple(
        line for line in shown if line in MODEL or line.startswith("Value")
    )


@pytest.mark.parametrize("room", range(1, 25))
def test_there_is_never_more_than_there_is_room_for(room: int) -> None:
    chain = [*DEEP, "", LINKS[1], "", *DEEP, "more", *(f"frame #{number}" for number in range(30))]
    assert 0 < len(last_words(chain, room)) <= room


def test_twenty_frames_with_marks_below_the_code() -> None:
    marked = [
        HEADER,
        *(
            line
            for number in range(20)
            for line in frame("/home/me/deep.py", number, "f()", marks=True)
        ),
        "KeyError: 1",
    ]
    shown = last_words(marked, 20)
    assert shown[-1] == "KeyError: 1"
    assert len([line for line in shown if "File" in line]) == 8
    assert not any("^" in line for line in shown)


# The block ----------------------------------------------------------------------------------------


def failing(*text: str, ended: Exited | None = None) -> History:
    history = History(plan(2)).training(steps=3)
    return history.rank(1, said(1, "\n".join(text)), ended or Exited(1, 1))


def test_the_cause_shows_the_users_frames() -> None:
    cause = failing(*DEEP).closed().cause
    assert cause is not None
    assert len(cause.tail) <= TAIL
    assert set(MODEL) <= set(cause.tail)


@pytest.mark.parametrize(
    ("history", "advice"),
    [
        (
            failing(ended=Exited(1, -9, "SIGKILL", out_of_memory=True)),
            "node2 has too little memory for its ranks",
        ),
        (
            failing(HEADER, *OWN, "OSError: [Errno 28] No space left on device"),
            "a disk of node2 is full: make room there",
        ),
        (
            failing(HEADER, *OWN, "OSError: [Errno 98] Address already in use"),
            "another process on node2 listens on this port",
        ),
        (failing(HEADER, *OWN, "ValueError: bad"), ""),
    ],
    ids=["memory", "disk", "port", "other"],
)
def test_what_can_be_done_is_said(history: History, advice: str) -> None:
    state = history.closed()
    assert state.cause is not None
    assert state.cause.advice.startswith(advice)
    assert bool(state.cause.advice) == bool(advice)
    assert any(
        line.startswith(f"what to do: {advice}") for line in outcome.describe_cause(state)
    ) == bool(advice)


def test_a_full_disk_of_a_host_is_named_with_its_folder() -> None:
    hello = Hello(
        "box",
        "me",
        1,
        "3.11.2",
        "python3",
        "Linux",
        "b",
        2.0,
        8 << 30,
        "2.14.1",
        folder="/data/runs/r/1",
    )
    history = History(plan(2)).say(1, hello).training(steps=3)
    history.rank(1, Exited(1, -15, "SIGTERM", stopped=True)).say(1, AgentEnded(EndReason.DISK_FULL))
    state = history.rank(0, Exited(0, -15, "SIGTERM", stopped=True)).closed()
    assert outcome.describe_cause(state)[:2] == [
        "cause: node2: the disk is full: no room for the run's journal in /data/runs/r/1; rank 1 "
        "followed",
        "what to do: make room there (df -h /data/runs/r/1), "
        "or set workdir of node2 in hosts.toml to a folder on a larger disk",
    ]
    assert [rank.phase.value for rank in state.ranks] == ["stopped", "lost"]
    assert [line.split(" | ")[2].strip() for line in outcome.fate_table(state)[2:]] == [
        "stopped",
        "lost",
    ]

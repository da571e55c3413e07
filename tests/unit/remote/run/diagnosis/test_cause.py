"""Why a run failed: tables of last words, and of histories with the verdict, the cause and the
fates that they come to."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pytest

from remote.events import HostLost, HostSilent, SessionClosed, StartRefused, Stopping
from remote.format import ranks_text
from remote.run.diagnosis.cause import find_first, judge_exit
from remote.run.output.tracebacks import find_exception
from remote.run.state.phases import Verdict
from remote.run.state.types import Cause, Evidence
from tests.kit.histories import GLOO, TRACEBACK, History, plan, raised, said, state_of
from training.wire.enums import EndReason
from training.wire.events import SESSION, Record
from training.wire.host_events import AGENT, AgentEnded, Exited, OutputText

RESET = (
    "RuntimeError: [/gloo/transport/tcp/pair.cc:545] Read error [127.0.0.1]:52931: Connection "
    "reset by peer. This is typically "
    "caused by a remote worker hanging or bugs in the application."
)
DIRECT = "\nThe above exception was the direct cause of the following exception:\n\n"
DURING = "\nDuring handling of the above exception, another exception occurred:\n\n"
POOL = (
    "[W1120 11:27:58.1 ProcessGroupNCCL.cpp:1553] Warning: destroy_process_group() was not "
    "called, connection closed by peer"
)


def prefixed(text: str) -> str:
    """As torch.distributed prints a traceback."""
    return "\n".join(f"[rank1]: {line}" if line else "" for line in text.split("\n"))


@pytest.mark.parametrize(
    ("text", "shown", "broken"),
    [
        (TRACEBACK + "ValueError: bad batch", "ValueError: bad batch", False),
        (prefixed(TRACEBACK + "ValueError: bad batch"), "ValueError: bad batch", False),
        (TRACEBACK + "KeyboardInterrupt", "KeyboardInterrupt", False),
        (TRACEBACK + GLOO, GLOO, True),
        (prefixed(TRACEBACK + RESET), RESET, True),
        (TRACEBACK + "RuntimeError: Application timeout caused pair closure", None, True),
        (TRACEBACK + "RuntimeError: [x.cc:78] Timed out waiting 6000ms for recv operation to "
        "complete", None, True),
        (TRACEBACK + "torch.distributed.DistStoreError: Timed out after 7 seconds waiting for "
        "clients.", None, True),
        (TRACEBACK + "torch.distributed.DistStoreError: wait timeout after 6000ms, keys: "
        "/default_pg/0//cpu//0/0", None, True),
        (TRACEBACK + "torch.distributed.DistNetworkError: The client socket has failed to "
        "connect to node1:29500", None, True),
        (TRACEBACK + "torch.distributed.DistBackendError: NCCL error in: "
        "ProcessGroupNCCL.cpp:3690", None, True),
        (TRACEBACK + "BrokenPipeError: [Errno 32] Broken pipe", None, True),
        (TRACEBACK + "ConnectionResetError: [Errno 104] Connection reset by peer", None, True),
        (TRACEBACK + "TypeError: f() got an unexpected keyword argument 'timeout'", None, False),
        (TRACEBACK + "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 "
        "GiB", None, False),
        (TRACEBACK + "ValueError: bad batch\n" + POOL, "ValueError: bad batch", False),
        (TRACEBACK + "RuntimeError: mat1 and mat2 shapes cannot be "
        "multiplied\n" + POOL, None, False),
        (TRACEBACK + "KeyError: 'x'\n" + DIRECT + TRACEBACK + "OSError: bad",
        "OSError: bad (after KeyError: 'x')", False),
        # A culprit whose way out broke too is a culprit; a victim that wraps what it died of is a
        # victim.
        (TRACEBACK + "ValueError: bad "
        "batch\n" + DURING + TRACEBACK + GLOO, "ValueError: bad batch", False),
        (prefixed(TRACEBACK + "ValueError: bad "
        "batch\n" + DURING + TRACEBACK + GLOO), "ValueError: bad batch", False),
        (TRACEBACK + GLOO + "\n" + DIRECT + TRACEBACK + "OSError: failed", "OSError: failed (after "
        f"{GLOO})", True),
        # The last traceback counts, not one that was printed and got over.
        (TRACEBACK + "ValueError: "
        "retried\nretrying\n" + TRACEBACK + "OSError: disk", "OSError: disk", False),
        ('  File "train.py", line 1\n    def\n       ^\nSyntaxError: invalid '
        'syntax', "SyntaxError: invalid syntax", False),
        (TRACEBACK + "mypackage.errors.Odd", "mypackage.errors.Odd", False),
    ],
)  # fmt: skip
def test_last_words(text: str, shown: str | None, broken: bool) -> None:
    thrown = find_exception(text.split("\n"))
    assert thrown is not None
    assert thrown.broken is broken
    assert thrown.text == (
        shown or text.rsplit("    main()\n", 1)[1].split("\n")[0].removeprefix("[rank1]: ")
    )


@pytest.mark.parametrize(
    "text",
    ["", "no error at all", "Epoch 1: Error rate: 0.3", "warning: something\nnot: an exception"],
)
def test_no_exception(text: str) -> None:
    assert find_exception(text.split("\n")) is None


def test_a_long_message_is_cut() -> None:
    thrown = find_exception((TRACEBACK + "ValueError: " + "x" * 10_000).split("\n"))
    assert thrown is not None
    assert len(thrown.text) == 300
    assert thrown.text.endswith("…")


NCCL_WATCHDOG = (
    "[rank1]:[E1120 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout"
)


@pytest.mark.parametrize(
    ("exited", "tail", "evidence", "what"),
    [
        (Exited(0, -9, "SIGKILL"), "", Evidence.KILLED, "killed by SIGKILL"),
        (
            Exited(0, -9, "SIGKILL", out_of_memory=True),
            "",
            Evidence.KILLED,
            "killed by the kernel: out of memory (SIGKILL)",
        ),
        (Exited(0, -11, "SIGSEGV"), TRACEBACK + GLOO, Evidence.KILLED, "killed by SIGSEGV"),
        (Exited(0, -6, "SIGABRT"), "terminate called", Evidence.KILLED, "killed by SIGABRT"),
        (Exited(0, -6, "SIGABRT"), NCCL_WATCHDOG, Evidence.ORDER, "killed by SIGABRT"),
        (Exited(0, -9, "SIGKILL", stopped=True), "", Evidence.NONE, "stopped"),
        (
            Exited(0, -15, "SIGTERM", stopped=True),
            TRACEBACK + "ValueError: bad batch",
            Evidence.WORDS,
            "ValueError: bad batch",
        ),
        (
            Exited(0, -15, "SIGTERM", stopped=True),
            TRACEBACK + "KeyboardInterrupt",
            Evidence.NONE,
            "stopped",
        ),
        (Exited(0, 1, stopped=True), TRACEBACK + GLOO, Evidence.NONE, "stopped"),
        (Exited(0, 1), TRACEBACK + GLOO, Evidence.ORDER, GLOO),
        (Exited(0, 1), TRACEBACK + "ValueError: bad batch", Evidence.OWN, "ValueError: bad batch"),
        (Exited(0, 3), "", Evidence.OWN, "exit code 3"),
        (Exited(0, 3), POOL, Evidence.OWN, "exit code 3"),
        (Exited(0, 3), "lost the others: Connection reset by peer", Evidence.ORDER, "exit code 3"),
        (
            Exited(0, 2),
            "python -m training: error: no data in /data",
            Evidence.OWN,
            "no data in /data (exit code 2)",
        ),
        (Exited(0, 0), "", Evidence.OWN, "exit code 0 before its last step"),
    ],
)
def test_judging_one_exit(exited: Exited, tail: str, evidence: Evidence, what: str) -> None:
    assert judge_exit(exited, tail.split("\n"), complete=False) == (evidence, what)


def test_a_complete_rank_that_exits_with_0_is_no_failure() -> None:
    assert judge_exit(Exited(0, 0), (), complete=True)[0] is Evidence.NONE


Build = Callable[[History], object]
FATES = {
    "f": "failed",
    "v": "taken down",
    "s": "stopped",
    "l": "lost",
    "+": "finished",
    "w": "waiting",
    "t": "training",
}
HISTORIES: list[tuple[str, Build, Verdict, str, str]] = [
    ("all finish", lambda h: h.done(0, 1, 2, 3), Verdict.FINISHED, "", "++++"),
    (
        "one is killed, the others die of it",
        lambda h: (
            h.rank(1, Exited(1, -9, "SIGKILL")),
            *(h.rank(r, *raised(r, GLOO)) for r in (0, 2, 3)),
        ),
        Verdict.FAILED,
        "node2, rank 1: killed by SIGKILL at step 12; ranks 0, 2 and 3 followed",
        "vfvv",
    ),
    (
        "the culprit dies last",
        lambda h: [h.rank(r, *raised(r, GLOO if r < 3 else "ValueError: bad "
        "batch")) for r in range(4)],
        Verdict.FAILED,
        "node4, rank 3: ValueError: bad batch at step 12; ranks 0 to 2 followed",
        "vvvf",
    ),
    (
        "the culprit still hangs in its way out when all are stopped",
        lambda h: (
            h.rank(2, said(2, TRACEBACK + "ValueError: bad batch")),
            [h.rank(r, *raised(r, GLOO)) for r in (0, 1, 3)],
            h.session(Stopping("a rank failed", False)),
            h.rank(2, Exited(2, -9, "SIGKILL", stopped=True)),
        ),
        Verdict.FAILED,
        "node3, rank 2: ValueError: bad batch at step 12; ranks 0, 1 and 3 followed",
        "vvfv",
    ),
    (
        "out of memory",
        lambda h: (
            h.rank(0, *raised(0, GLOO)),
            h.rank(2, Exited(2, -9, "SIGKILL", out_of_memory=True)),
        ),
        Verdict.FAILED,
        "node3, rank 2: killed by the kernel: out of memory (SIGKILL) at step 12; rank 0 "
        "followed",
        "vsfs",
    ),
    (
        "only communication errors: the first",
        lambda h: [h.rank(r, *raised(r, GLOO)) for r in (2, 0, 3, 1)],
        Verdict.FAILED,
        f"node3, rank 2: {GLOO} at step 12; ranks 0, 1 and 3 followed",
        "vvfv",
    ),
    (
        "an exit code without a word",
        lambda h: (
            h.rank(0, *raised(0, GLOO)),
            h.rank(1, Exited(1, 3)),
            h.session(Stopping("a rank failed", False)),
        ),
        Verdict.FAILED,
        "node2, rank 1: exit code 3 at step 12; rank 0 followed",
        "vfss",
    ),
    (
        "all have the same mistake: the first, and no victims",
        lambda h: [h.rank(r, *raised(r, "ValueError: lr")) for r in (1, 0, 2, 3)],
        Verdict.FAILED,
        "node2, rank 1: ValueError: lr at step 12",
        "ffff",
    ),
    (
        "one ends before its work is done",
        lambda h: (h.done(0, 1, 2), h.rank(3, Exited(3, 0))),
        Verdict.FAILED,
        "node4, rank 3: exit code 0 before its last step at step 12",
        "+++f",
    ),
    (
        "a person stops it, and the stopped ones break the others",
        lambda h: (
            h.session(Stopping("stopped by the user", True)),
            h.rank(0, Exited(0, -15, "SIGTERM", stopped=True)),
            [h.rank(r, *raised(r, GLOO)) for r in (1, 2)],
            h.rank(3, Exited(3, -9, "SIGKILL", stopped=True)),
        ),
        Verdict.STOPPED,
        "",
        "ssss",
    ),
    (
        "a person stops what had failed already",
        lambda h: (
            h.rank(1, Exited(1, -9, "SIGKILL")),
            h.session(Stopping("stopped by the user", True)),
            [h.rank(r, Exited(r, -15, "SIGTERM", stopped=True)) for r in (0, 2, 3)],
        ),
        Verdict.FAILED,
        "node2, rank 1: killed by SIGKILL at step 12",
        "sfss",
    ),
    (
        "a guard is killed, and its agent says so only after the others were stopped",
        lambda h: (
            h.rank(2, Exited(2, -15, "SIGTERM", stopped=True)),
            h.session(Stopping("a rank or host failed", False)),
            h.say(2, AgentEnded(EndReason.GUARD_DIED)),
            [h.rank(r, Exited(r, -15, "SIGTERM", stopped=True)) for r in (0, 1, 3)],
        ),
        Verdict.LOST,
        "node3: the guard died; rank 2 followed",
        "ssls",
    ),
    (
        "an agent is killed",
        lambda h: (
            h.rank(2, Exited(2, -9, "SIGKILL", stopped=True)),
            [h.rank(r, *raised(r, GLOO)) for r in (0, 1, 3)],
            h.say(2, AgentEnded(EndReason.AGENT_DIED, "SIGKILL")),
        ),
        Verdict.LOST,
        "node3: the agent died: SIGKILL; ranks 0 to 3 followed",
        "vvlv",
    ),
    (
        "a host goes silent and is lost, long after its peers were stopped for it",
        lambda h: (
            h.say(0, *raised(0, GLOO), after=1.5),
            h.say(2, *raised(2, GLOO)),
            h.session(Stopping("a rank failed", False), after=1.0),
            h.rank(3, Exited(3, -15, "SIGTERM", stopped=True)),
            h.session(HostSilent(1, 10.0), after=10.0),
            h.session(HostLost(1, "no sign of life for 60 s", reached=True), after=50.0),
        ),
        Verdict.LOST,
        "node2: host lost: no sign of life for 60 s; ranks 0 to 2 followed",
        "vlvs",
    ),
    (
        "a host that is lost after a failure is not its cause",
        lambda h: (
            h.rank(0, *raised(0, "ValueError: bad batch")),
            h.session(Stopping("a rank failed", False)),
            h.say(1, Exited(1, -15, "SIGTERM", stopped=True), after=1.0),
            h.session(HostLost(1, "no sign of life for 8 s", reached=True), after=8.0),
        ),
        Verdict.FAILED,
        "node1, rank 0: ValueError: bad batch at step 12",
        "flss",
    ),
    (
        "an agent that never ends, after all ranks have",
        lambda h: (h.done(0, 1, 2, 3), h.session(HostLost(1, "no sign of life for 8 "
        "s", reached=True), after=8.0)),
        Verdict.FINISHED,
        "",
        "++++",
    ),
    (
        "the operator is gone, the agents stop by themselves",
        lambda h: [
            h.rank(
                r, Exited(r, -15, "SIGTERM", stopped=True), AgentEnded(EndReason.OPERATOR_GONE)
            )
            for r in range(4)
        ],
        Verdict.STOPPED,
        "",
        "ssss",
    ),
    (
        "the operator is gone, and a rank dies of its neighbours' end before its own agent stops "
        "it",
        lambda h: (
            [h.rank(r, Exited(r, -15, "SIGTERM", stopped=True)) for r in range(3)],
            h.rank(3, *raised(3, GLOO)),
            h.session(Stopping("a rank or host "
            "failed", False)),  # by who has come back, and heard of some only
            [h.rank(r, AgentEnded(EndReason.OPERATOR_GONE)) for r in range(4)],
        ),
        Verdict.STOPPED,
        "",
        "sssv",
    ),
    (
        "the operator is gone after a failure",
        lambda h: (
            h.rank(3, *raised(3, "ValueError: bad batch")),
            [h.rank(r, Exited(r, -15, "SIGTERM", stopped=True)) for r in range(3)],
            [h.rank(r, AgentEnded(EndReason.OPERATOR_GONE)) for r in range(4)],
        ),
        Verdict.FAILED,
        "node4, rank 3: ValueError: bad batch at step 12",
        "sssf",
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "verdict", "cause", "fates"),
    [row[1:] for row in HISTORIES],
    ids=[row[0] for row in HISTORIES],
)
def test_histories(build: Build, verdict: Verdict, cause: str, fates: str) -> None:
    history = History(plan()).training(steps=12)
    build(history)
    state = history.closed()
    assert state.verdict is verdict
    assert (state.cause.text() if state.cause else "") == cause
    assert [rank.phase.value for rank in state.ranks] == [FATES[letter] for letter in fates]


def test_a_host_of_which_nothing_is_known_is_the_cause_rather_than_a_victim() -> None:
    victim = Cause("node1", 0, "connection reset", evidence=Evidence.ORDER, time=1.0)
    unheard = Cause("node2", -1, "never heard", evidence=Evidence.UNHEARD, time=2.0)
    assert find_first([victim, unheard]) is unheard


def test_before_the_start() -> None:
    unreachable = (
        History(plan())
        .session(HostLost(2, "node3: no answer from 10.0.0.3:22 within 10 s", reached=False))
        .closed()
    )
    assert unreachable.verdict is Verdict.LOST
    assert unreachable.cause
    assert (unreachable.cause.host, unreachable.cause.rank) == ("node3", -1)
    assert unreachable.cause.text() == "node3: no answer from 10.0.0.3:22 within 10 s"
    assert {rank.phase.value for rank in unreachable.ranks} == {"waiting"}

    refused = (
        History(plan())
        .session(StartRefused(1, "no torch there"), StartRefused(SESSION, "so there"))
        .closed()
    )
    assert refused.verdict is Verdict.REFUSED
    assert refused.cause is not None
    assert refused.cause.text() == "node2: no torch there"

    stopped = History(plan()).session(Stopping("stopped by the user", True)).closed()
    assert stopped.verdict is Verdict.STOPPED
    assert stopped.cause is None


@pytest.mark.parametrize(
    ("script", "steps", "code", "verdict"),
    [
        (False, None, 2, Verdict.REFUSED),
        (False, None, 1, Verdict.FAILED),
        (False, 3, 2, Verdict.FAILED),  # it had begun
        (True, None, 2, Verdict.FAILED),  # a script's 2 may mean anything
    ],
)
def test_a_rank_of_ours_may_refuse(
    script: bool, steps: int | None, code: int, verdict: Verdict
) -> None:
    history = History(plan(2, script=script))
    if steps is not None:
        history.training(steps)
    history.rank(
        1,
        said(1, "python -m training: error: data set svhn on node2: no such file"),
        Exited(1, code),
    )
    state = history.rank(0, Exited(0, -15, "SIGTERM", stopped=True)).closed()
    assert state.verdict is verdict
    assert state.cause is not None
    assert (state.cause.rank, state.cause.problem) == (
        1,
        f"data set svhn on node2: no such file (exit code {code})",
    )


@pytest.mark.parametrize(("own", "words"), [((), "agent on node2"), (("begin",), "begin")])
def test_the_words_of_its_agent_are_not_those_of_a_rank(own: Sequence[str], words: str) -> None:
    history = History(plan(2)).say(1, OutputText(AGENT, "stderr", "agent on node2"))
    history.rank(1, *(said(1, text) for text in own), Exited(1, -9, "SIGKILL"))
    cause = history.rank(0, Exited(0, -15, "SIGTERM", stopped=True)).closed().cause
    assert cause is not None
    assert (cause.tail, cause.of_agent) == ((words,), not own)


def test_a_rank_that_cannot_download_is_no_victim() -> None:
    history = History(plan(2)).rank(0, *raised(0, GLOO))
    history.rank(
        1,
        said(
            1, "python -m training: error: data set svhn on node2: cannot be downloaded (timed out)"
        ),
        Exited(1, 2),
    )
    state = history.closed()
    assert state.verdict is Verdict.REFUSED
    assert state.cause is not None
    assert (state.cause.rank, state.cause.victims) == (1, (0,))


@pytest.mark.parametrize(
    "order", list(itertools.permutations(range(4))), ids=lambda order: "".join(map(str, order))
)
@pytest.mark.parametrize("culprit", ["kill", "raise", "raise and break"])
def test_the_order_of_deaths_proves_nothing(culprit: str, order: tuple[int, ...]) -> None:
    """Rank 1 is the cause, in whichever order the four die."""
    history = History(plan()).training(steps=3)
    own = TRACEBACK + "ValueError: bad batch"
    ends = {
        "kill": (Exited(1, -9, "SIGKILL"),),
        "raise": (said(1, own), Exited(1, 1)),
        "raise and break": (said(1, own + "\n" + DURING + TRACEBACK + GLOO), Exited(1, 1)),
    }[culprit]
    for rank in order:
        history.rank(rank, *(ends if rank == 1 else raised(rank, GLOO)))
    state = history.closed()
    assert state.cause is not None
    assert (state.cause.rank, state.cause.victims) == (1, (0, 2, 3))
    assert state.cause.problem == (
        "killed by SIGKILL" if culprit == "kill" else "ValueError: bad batch"
    )


def test_records_of_hosts_may_arrive_in_any_order() -> None:
    """The records of two hosts are each in order but come interleaved as the network likes."""
    history = History(plan()).training(steps=3)
    start = len(history.records)
    history.rank(1, *raised(1, "ValueError: bad batch")).rank(3, *raised(3, GLOO)).rank(
        0, *raised(0, GLOO)
    )
    began, ends = history.records[:start], history.records[start:]
    closed = Record(SESSION, 0, 99, history.now + 1, SessionClosed())
    for order in itertools.permutations((ends[0:2], ends[2:4], ends[4:6])):
        state = state_of(history.plan, [*began, *itertools.chain(*order), closed])
        assert state.cause is not None
        assert (state.cause.rank, state.cause.victims) == (1, (0, 3))


def test_words_that_come_after_the_exit_still_count() -> None:
    history = History(plan()).training(steps=3)
    history.rank(0, *raised(0, GLOO)).rank(1, Exited(1, 1)).rank(
        1, said(1, TRACEBACK + "ValueError: bad batch")
    )
    cause = history.closed().cause
    assert cause is not None
    assert cause.problem == "ValueError: bad batch"
    assert cause.tail[-1] == "ValueError: bad batch"


def test_the_cause_keeps_the_last_20_lines() -> None:
    history = History(plan()).training()
    history.rank(2, said(2, "\n".join(f"line {number}" for number in range(300))), Exited(2, 4))
    cause = history.closed().cause
    assert cause is not None
    assert cause.tail == tuple(f"line {number}" for number in range(280, 300))


def test_a_long_traceback_is_still_read() -> None:
    deep = (
        TRACEBACK + '  File "torch/nn/module.py", line 1, in forward\n    return self.call()\n' * 20
    )
    history = History(plan()).training()
    history.rank(0, *raised(0, GLOO))
    history.rank(1, said(1, deep + "ValueError: bad batch\n" + DURING + deep + GLOO), Exited(1, 1))
    cause = history.closed().cause
    assert cause is not None
    assert (cause.rank, cause.problem) == (1, "ValueError: bad batch")


def test_a_rank_that_never_lived_dies_of_what_its_host_printed() -> None:
    history = History(plan(script=True))
    history.say(
        1,
        said(-1, TRACEBACK + "ImportError: libtorch.so: cannot open shared object file"),
        Exited(1, 1),
    )
    cause = history.closed().cause
    assert cause is not None
    assert cause.text() == "node2, rank 1: ImportError: libtorch.so: cannot open shared object file"


@pytest.mark.parametrize(
    ("ranks", "text"),
    [
        ((3,), "rank 3"),
        ((0, 1), "ranks 0 and 1"),
        ((0, 2, 3), "ranks 0, 2 and 3"),
        ((1, 2, 3), "ranks 1 to 3"),
        ((7, 0, 4, 5, 6), "ranks 0 and 4 to 7"),
    ],
)
def test_ranks_in_words(ranks: tuple[int, ...], text: str) -> None:
    assert ranks_text(ranks) == text

"""What happens to the launcher: killed, suspended, interrupted in each of its phases."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from dataclasses import replace

import psutil
import pytest

from tests.faults import broken
from tests.faults.proof import (
    ENDING,
    FINISHED,
    MEETING,
    RANKS,
    SHORT,
    Expected,
    Stage,
    journal,
    recorded,
)
from tests.kit.launches import LONG, QUICK, Launched, launch, run
from tests.kit.slow import slow
from tests.kit.wait import wait

INTERRUPTED = Expected("stopped", 130, says=("interrupted (Ctrl+C)",))
EVERYWHERE = ("node1", "node2", "node3")
STEPS = 20


@slow
def test_killed(stage: Stage) -> None:
    """Nobody is told; the agents find out and stop. Who comes back is told so, and gets what was
    missed."""
    training = stage.train()
    training.run.process.kill()
    killed = time.monotonic()
    assert training.run.end() == -signal.SIGKILL
    assert stage.left() == []
    seconds = time.monotonic() - killed
    folder = recorded(training.run)
    assert folder
    code = stage.again(training.run, "attach", folder.name, "--run")
    expected = Expected("stopped", 130, says=("its launcher is gone",))
    stage.judge("launcher killed, stop", training.run, code, expected, seconds)


def test_killed_and_kept(stage: Stage) -> None:
    """The run goes on; another launcher brings what was missed, and stops it."""
    stage.cluster["on_disconnect"] = "keep"
    training = stage.train(*MEETING)
    training.run.process.kill()
    killed = time.monotonic()
    training.run.process.wait()
    folder = recorded(training.run)
    assert folder
    seen = steps_on(stage, folder.name)
    wait(lambda: steps_on(stage, folder.name) >= seen + STEPS, "more steps")
    assert folder.name in run(training.run.folder, "ps", "--hosts", str(stage.hosts_file())).stdout
    code = stage.again(training.run, "stop", folder.name)
    expected = Expected("stopped", 0, says=("stopped by the user",))
    stage.judge("launcher killed, keep", training.run, code, expected, time.monotonic() - killed)
    code = stage.again(training.run, "attach", folder.name, "--run")
    assert code == 130, "who comes back to a run that has ended is told so"


@slow
def test_returned_to_from_elsewhere_though_a_journal_was_renamed(stage: Stage) -> None:
    """The agent of a host finds that its journal was renamed, and goes on in a new one: who returns
    from elsewhere is told what is missing, and sees the run to its end."""
    stage.cluster["on_disconnect"] = "keep"
    job = (*QUICK, "--sync", "parameter_server", "--steps", "600")
    training = stage.train(*job, steps=RANKS)
    training.run.process.kill()
    training.run.process.wait()
    folder = recorded(training.run)
    assert folder
    journal_folder = stage.workdir(stage.hosts["node3"]) / "runs" / folder.name / "2"
    (journal,) = journal_folder.glob("*.journal")
    journal.rename(journal.with_suffix(".old"))
    elsewhere = stage.folder / "elsewhere"
    elsewhere.mkdir()
    words = (folder.name, "--hosts", str(stage.hosts_file()))
    returned = launch(elsewhere, *words, command=("attach",))
    stage.launched.append(returned)
    began = time.monotonic()
    code = returned.end(150)
    ending = stage.judge(
        "journal of node3 renamed, attach elsewhere",
        returned,
        code,
        Expected("finished", 0, says=("node3: records 1 to", "deleted or renamed")),
        time.monotonic() - began,
    )
    assert {rank["fate"] for rank in ending.summary["ranks"]} == {"finished"}


@slow
def test_left_and_failed(stage: Stage) -> None:
    """A rank dies of a run that was left: its hosts wait for whoever comes back, who starts it
    again."""
    training = stage.train(*QUICK, "--steps", "300", "--max-restarts", "1", "--detach", steps=RANKS)
    assert training.run.end() == 0
    os.kill(training.ranks[2], signal.SIGKILL)
    killed = time.monotonic()
    wait(lambda: not any(map(psutil.pid_exists, training.ranks.values())), "the end of all ranks")
    ps = ("ps", "--json", "--hosts", str(stage.hosts_file()))
    (listed,) = [json.loads(line) for line in run(training.run.folder, *ps).stdout.splitlines()]
    assert (listed["state"], listed["live"]) == ("failed", RANKS)
    code = stage.again(training.run, "attach", "last", "--run")
    ending = stage.judge(
        "rank of a detached run killed", training.run, code, FINISHED, time.monotonic() - killed
    )
    assert ending.said.count("restarted, attempt 2: node3, rank 2: killed by SIGKILL") == 1


@slow
def test_left_and_failed_and_stopped(stage: Stage) -> None:
    training = stage.train(*LONG, "--max-restarts", "1", "--detach", steps=RANKS)
    assert training.run.end() == 0
    os.kill(training.ranks[2], signal.SIGKILL)
    wait(lambda: not any(map(psutil.pid_exists, training.ranks.values())), "the end of all ranks")
    began = time.monotonic()
    code = stage.again(training.run, "stop", "last")
    stage.judge(
        "rank of a detached run killed, stop",
        training.run,
        code,
        Expected("stopped", 0),
        time.monotonic() - began,
    )


def steps_on(stage: Stage, name: str) -> int:
    """Steps that rank 2 has printed, in its host's own journal."""
    folder = stage.workdir(stage.hosts["node3"]) / "runs" / name / "2"
    return sum(line.count(b" loss 1.0") for line in journal(folder))


@slow
def test_suspended(stage: Stage) -> None:
    """As by Ctrl-Z: the run goes on meanwhile, and nothing of it is missing."""
    training = stage.train()
    training.run.process.send_signal(signal.SIGSTOP)
    time.sleep(30)
    training.run.process.send_signal(signal.SIGCONT)
    again = time.monotonic()
    training.run.events("step", 10 * STEPS)
    training.run.process.send_signal(signal.SIGINT)
    stage.prove("launcher suspended for 30 s", training.run, INTERRUPTED, again)


@slow
def test_suspended_before_the_start(stage: Stage) -> None:
    """One host notices, as its connection breaks: it waits, and the start goes on."""
    stage.cluster["on_disconnect"] = "keep"
    stage.change("node3", broken.python, "sleep 4")
    run = stage.launch(*SHORT)
    greeted = {event["host"] for event in run.events("hello", 2)}
    assert greeted == {"node1", "node2"}
    run.process.send_signal(signal.SIGSTOP)
    for connection in stage.sshd.node("node2").connections():
        connection.kill()
    time.sleep(8)
    run.process.send_signal(signal.SIGCONT)
    again = time.monotonic()
    fault = "launcher suspended for 8 s before the start, connection to node2 broken"
    stage.prove(fault, run, FINISHED, again)


PHASES = {
    "deploying": ("reaching", "deploying"),
    "starting": ("reaching", "starting"),
    "importing": ("launched", ""),
    "rendezvous": ("entered", "rendezvous"),
    "training": ("step", ""),
    "evaluating": ("entered", "evaluating"),
}
"""Each phase, and the event by which it begins: the name of the event, and its field `phase`, if it
has one."""
LATE = ("importing", "evaluating", "rendezvous", "training")


@pytest.mark.parametrize(
    "phase", [pytest.param(phase, marks=slow if phase in LATE else ()) for phase in PHASES]
)
def test_interrupted(stage: Stage, phase: str) -> None:
    interrupted = stage.launch(*LONG)
    name, said = PHASES[phase]
    while interrupted.events(name)[0].get("phase", "") != said:
        pass
    ended_at_once(stage, f"Ctrl-C while {phase}", interrupted)


def test_interrupted_while_connecting(stage: Stage) -> None:
    """To a host that never answers."""
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        stage.change("node3", lambda host, _: replace(host, address="127.0.0.1", port=port))
        interrupted = stage.launch(*LONG)
        with mute.accept()[0]:
            ended_at_once(stage, "Ctrl-C while connecting", interrupted)


def ended_at_once(stage: Stage, fault: str, launched: Launched) -> None:
    """Prove that a Ctrl-C ends a run without any of the waiting for what does not answer."""
    launched.process.send_signal(signal.SIGINT)
    sent = time.monotonic()
    code = launched.end(ENDING)
    seconds = time.monotonic() - sent
    # a host that no line has reached yet is not waited for
    expected = (
        INTERRUPTED if "launched" in said_by(launched) else replace(INTERRUPTED, cut_off=EVERYWHERE)
    )
    stage.judge(fault, launched, code, expected, seconds)


def said_by(launched: Launched) -> set[str]:
    """The names of the events that it has recorded."""
    folder = recorded(launched)
    assert folder
    return {
        json.loads(line)["event"] for line in (folder / "events.jsonl").read_bytes().splitlines()
    }

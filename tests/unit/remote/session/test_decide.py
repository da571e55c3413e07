"""The decisions of a session, as tables: a history and links go in, what is done next comes
out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from remote.events import (
    Attached,
    AttemptFailing,
    Detached,
    DetachRequested,
    HostLost,
    HostPhaseChanged,
    HostSilent,
    Parsed,
    Prepared,
    Preparing,
    RemarkMade,
    Restarted,
    SessionClosed,
    SessionClosing,
    StacksAsked,
    Stalled,
    StallExplained,
    Starting,
    StartRefused,
    Stopping,
    Transferring,
)
from remote.plan.plan import OnNan, OnStall, Plan, Policy, Script, Upload
from remote.run.apply import apply_record
from remote.run.output.script_readings import expander
from remote.run.run_state import RunState
from remote.run.state.phases import Verdict
from remote.session.actions import Action, Fetch, Open, Release, Say, Send, StopTransfers
from remote.session.actions import Upload as BeginUpload
from remote.session.controller import Controller
from remote.session.decide import decide
from remote.session.decision_input import DecisionInput
from remote.session.host_link import HostLink
from remote.session.times import TIMES
from tests.kit import dumps, histories
from tests.kit.scripts import script, seen, started
from tests.kit.stage import HELLO
from training.wire.commands import (
    Close,
    Connect,
    Keep,
    OnDisconnect,
    Reserve,
    RunBefore,
    Stacks,
    StartAttempt,
    Stop,
)
from training.wire.enums import EndReason, Phase, Reach
from training.wire.events import SESSION, Event, Record
from training.wire.host_events import (
    AGENT,
    AgentEnded,
    BeforeEnded,
    BeforeStarted,
    Exited,
    HostSample,
    Launched,
    OutputText,
    Reserved,
    Spawned,
    StopHeard,
)
from training.wire.rank_events import (
    Collectives,
    Entered,
    Finished,
    Saved,
    ScriptMetrics,
    Started,
    StepFinished,
)

START = 1_000.0
SAMPLE = HostSample((10.0,), 1, 2)
UNCHECKED = Policy(doctor=False)


@dataclass
class Case:
    """A run of two hosts with a rank each, its links, and the time."""

    policy: Policy = UNCHECKED
    hosts: int = 2
    now: float = START
    script: bool = False
    plan: Plan = field(init=False)
    run: RunState = field(init=False)
    links: list[HostLink] = field(init=False)

    def __post_init__(self) -> None:
        plan = histories.plan(self.hosts, script=self.script)
        self.plan = replace(plan, policy=self.policy)
        self.run = RunState(self.plan)
        self.links = [HostLink(index, is_open=True, met=True) for index in range(self.hosts)]
        self._seq = 0
        for link in self.links:
            link.heard_at = link.parted_at = link.tried_at = self.now

    def say(self, host: int, *events: Event, attempt: int | None = None) -> Case:
        """A host, or the session, says these now, and is heard."""
        for event in events:
            self._seq += 1
            number = self.run.attempt if attempt is None else attempt
            if isinstance(event, Restarted):
                number += 1
            apply_record(self.run, Record(host, number, self._seq, self.now, event))
        if host >= 0:
            self.links[host].heard_at = self.now
        return self

    def all_say(self, *events: Event) -> Case:
        """Every host says these."""
        for host in range(self.hosts):
            self.say(host, *events)
        return self

    def reached(self) -> Case:
        """All hosts have told their facts, and are asked for nothing yet."""
        for host in range(self.hosts):
            self.say(host, HELLO)
            self.say(SESSION, HostPhaseChanged(host, Reach.READY))
        return self.kept()

    def kept(self) -> Case:
        """The hosts keep the plan."""
        for link in self.links:
            link.sent.add((Keep,))
        return self

    def prepared(self) -> Case:
        """All that is asked before a start has been answered."""
        self.reached().say(SESSION, Preparing(tuple(range(self.hosts))))
        return self.say(0, Reserved("127.0.0.1", 29_500)).say(SESSION, Prepared())

    def started(self) -> Case:
        """The ranks run."""
        self.prepared().say(SESSION, Starting())
        for host in range(self.hosts):
            self.say(host, Launched((host,), tuple(range(self.hosts))))
        return self

    def stepped(self, *ranks: int) -> Case:
        """These ranks make a step."""
        for rank in ranks:
            started = Started(rank, 1, 2, "cpu", "gloo", "2", 1, 10, 40, 10, 640, 100)
            self.say(rank, started, StepFinished(rank, 1, 1, 2.0, 0.1))
        return self

    def later(self, seconds: float) -> Case:
        """Time goes by; nothing is heard."""
        self.now += seconds
        return self

    def lives(self, seconds: int, *hosts: int) -> Case:
        """Time goes by; these hosts, or all, give signs of life."""
        for _ in range(seconds):
            self.later(1)
            for host in hosts or range(self.hosts):
                self.say(host, HostSample((), 1, 1))
        return self

    def heard(self) -> Case:
        """All hosts give a sign of life."""
        return self.all_say(HostSample((), 1, 1))

    def decide(self) -> list[Action]:
        """What is to be done next."""
        return decide(DecisionInput(self.run, self.links, {}, TIMES, self.now))


def events(actions: list[Action]) -> list[Event]:
    return [action.event for action in actions if isinstance(action, Say)]


def sent(actions: list[Action]) -> list[tuple[int, type]]:
    return [(action.host, type(action.command)) for action in actions if isinstance(action, Send)]


def kinds(actions: list[Action]) -> list[type]:
    """What is done, by kind: an event that is said, a command that is sent, or another action."""
    return [
        type(action.event)
        if isinstance(action, Say)
        else type(action.command)
        if isinstance(action, Send)
        else type(action)
        for action in actions
    ]


def with_before() -> Case:
    """A script with a command before its ranks, all of whose hosts are checked."""
    case = Case()
    case.plan = replace(case.plan, work=Script(("train.py",), before="mkdir -p {host}"))
    case.run = RunState(case.plan)
    return case.prepared()


def unreached() -> Case:
    case = Case()
    for link in case.links:
        link.is_open = link.met = False
        link.tried_at = 0.0
    return case


def failed(case: Case) -> Case:
    """Rank 1 has failed, and the launcher has noticed."""
    return case.started().say(1, Exited(1, 1)).say(SESSION, AttemptFailing())


def restartable(*, hosts: int = 2, **policy: object) -> Case:
    chosen = Policy(doctor=False, max_restarts=1, **policy)  # type: ignore[arg-type]
    return Case(chosen, hosts)


def abandoned(case: Case) -> Case:
    """No launcher came back to host 1 before its ranks were started, and so it is lost."""
    case.say(1, AgentEnded(EndReason.NO_LAUNCHER, "60 s"))
    return case.say(SESSION, HostLost(1, "no launcher", True))


def returned_without_word(policy: Policy = Policy(doctor=False, keep=True)) -> Case:  # noqa: B008
    """A launcher has returned to three hosts. Of the last one it has a connection alone."""
    case = Case(policy, hosts=3).kept()
    for host in (0, 1):
        case.say(host, HELLO, Launched((host,), (0, 1, 2)))
        case.say(SESSION, HostPhaseChanged(host, Reach.READY))
    return case.say(SESSION, Attached())


def unheard(case: Case, phase: Phase = Phase.TRAINING) -> Case:
    """The host that says nothing is lost."""
    for rank in (0, 1):
        case.say(rank, Entered(rank, phase))
    return case.say(SESSION, HostLost(2, "it has sent nothing", False))


def both_exited(case: Case) -> Case:
    return failed(case).say(0, Exited(0, 1))


def stopping(case: Case, **how: bool) -> Case:
    return case.started().say(SESSION, Stopping("stopped", by_person=True, **how))


def closing(case: Case) -> Case:
    case.started()
    case.say(0, Finished(0, 1, 10, 1.0), Exited(0, 0)).say(1, Finished(1, 1, 10, 1.0), Exited(1, 0))
    return case.say(SESSION, SessionClosing())


def without(case: Case, host: int) -> Case:
    """The connection to a host is broken."""
    case.links[host].is_open = False
    return case


def behind(case: Case, seconds: float) -> Case:
    """What came in these last seconds is still to be taken in."""
    for link in case.links:
        link.behind = seconds
    return case


def joining(policy: Policy = UNCHECKED) -> Case:
    """Rank 0 of a script has called `init_process_group`, and rank 1 has not."""
    case = Case(policy, script=True).started()
    for rank in (0, 1):
        case.say(rank, Spawned(rank, 100 + rank))
    return case.say(0, Entered(0, Phase.JOINING, "init_process_group"))


def met(address: str = "10.10.1.1:9955", policy: Policy = UNCHECKED) -> Case:
    """Both ranks of a script have called it, and do not come out of it."""
    case = Case(policy, script=True).started()
    for rank in (0, 1):
        joins = Entered(rank, Phase.JOINING, "init_process_group", address)
        case.say(rank, Spawned(rank, 100 + rank), joins)
    return case


def halted(policy: Policy = UNCHECKED) -> Case:
    """Both ranks of a script have met, and make their first step."""
    case = met("", policy)
    for rank in (0, 1):
        case.say(rank, Entered(rank, Phase.TRAINING))
    return case


def stalled(case: Case) -> Case:
    case.started().stepped(0, 1).lives(60)
    return case.say(SESSION, Stalled((0, 1), 60.0), StacksAsked())


def exchanging() -> Case:
    """Ranks of a script have exchanged something, a while ago."""
    case = Case(script=True).started()
    for rank in range(2):
        case.say(rank, Spawned(rank, 1), Collectives(rank, 1, 8, name="recv"))
    return case.lives(40)


TABLE: dict[str, tuple[Callable[[], Case], list[type]]] = {
    # Reaching
    "hosts are reached at once": (unreached, [Open, Open]),
    "a host that answers is ready, and keeps the plan": (
        lambda: (
            Case()
            .all_say(HELLO)
            .say(SESSION, *(HostPhaseChanged(n, Reach.STARTING) for n in (0, 1)))
        ),
        [HostPhaseChanged, HostPhaseChanged],
    ),
    "each host keeps the plan": (
        lambda: (
            Case().all_say(HELLO).say(SESSION, *(HostPhaseChanged(n, Reach.READY) for n in (0, 1)))
        ),
        [Keep, Keep],
    ),
    "hosts that are not known yet are waited for": (
        lambda: Case().kept().say(0, HELLO),
        [HostPhaseChanged],
    ),
    "once all are known, the start is prepared": (lambda: Case().reached(), [Preparing]),
    "a host that is lost before the start ends it": (
        lambda: (
            Case()
            .kept()
            .say(SESSION, HostLost(1, "gone", False))
            .say(0, HELLO)
            .say(SESSION, HostPhaseChanged(0, Reach.READY))
        ),
        [SessionClosing],
    ),
    "an agent that says nothing for long is lost": (lambda: Case().later(60), [HostLost, HostLost]),
    "a start that takes too long is stopped": (
        lambda: (
            Case(Policy(doctor=False, start_timeout=5.0))
            .say(SESSION, RemarkMade(SESSION, "begun"))
            .later(6)
        ),
        [Stopping],
    ),
    # Starting
    "the first host reserves the port": (
        lambda: Case().reached().say(SESSION, Preparing((0, 1))),
        [Reserve],
    ),
    "with checks every host does": (
        lambda: Case(Policy()).reached().say(SESSION, Preparing((0, 1))),
        [Reserve, Reserve],
    ),
    "a host is asked once": (
        lambda: asked(Case().reached().say(SESSION, Preparing((0, 1)))),
        [],
    ),
    "then hosts try connections": (
        lambda: (
            Case(Policy())
            .reached()
            .say(SESSION, Preparing((0, 1)))
            .say(0, Reserved("127.0.0.1", 1))
            .say(1, Reserved("127.0.0.2", 2))
        ),
        [Connect, Connect],
    ),
    "without checks all is answered then": (
        lambda: Case().reached().say(SESSION, Preparing((0, 1))).say(0, Reserved("127.0.0.1", 1)),
        [Prepared],
    ),
    "a refused start is closed": (
        lambda: Case().prepared().say(SESSION, StartRefused(SESSION, "no")),
        [SessionClosing],
    ),
    "a start waits for the upload": (
        lambda: Case().prepared().say(SESSION, Transferring("upload")),
        [],
    ),
    "a command before the ranks runs on each host": (with_before, [RunBefore, RunBefore]),
    "it runs once": (lambda: asked(with_before()), []),
    "but after the upload": (
        lambda: with_before().say(SESSION, Transferring("upload")),
        [],
    ),
    "ranks wait for it on all hosts": (
        lambda: asked(with_before().all_say(BeforeStarted()).say(0, BeforeEnded(0, 9.0))),
        [],
    ),
    "then it is done": (
        lambda: with_before().all_say(BeforeStarted(), BeforeEnded(0, 9.0)),
        [Starting],
    ),
    "a start is refused if it fails": (
        lambda: with_before().all_say(BeforeStarted()).say(1, BeforeEnded(1, 9.0)),
        [StartRefused],
    ),
    "one that was stopped has not failed": (
        lambda: asked(
            with_before().all_say(BeforeStarted()).say(1, BeforeEnded(-15, 9.0, stopped=True))
        ),
        [],
    ),
    "a restart does not run it again": (
        lambda: (
            with_before()
            .all_say(BeforeStarted(), BeforeEnded(0, 9.0))
            .say(SESSION, Starting())
            .say(0, Launched((0,), (0, 1)))
            .say(1, Launched((1,), (0, 1)))
            .say(SESSION, Restarted((0, 1), "x"))
            .say(SESSION, Preparing((0, 1)))
            .say(0, Reserved("127.0.0.1", 29_500))
            .say(SESSION, Prepared())
        ),
        [Starting],
    ),
    "then the ranks are started": (lambda: Case().prepared(), [Starting]),
    "each host is told": (
        lambda: Case().prepared().say(SESSION, Starting()),
        [StartAttempt, StartAttempt],
    ),
    "a host whose connection broke gets another one first": (
        lambda: without(Case().prepared().say(SESSION, Starting()), 1),
        [Open],
    ),
    "a host that has started is not told again": (lambda: Case().started(), []),
    "a host that is lost after it was reached costs an attempt": (
        lambda: (
            restartable(min_nodes=1, hosts=3)
            .reached()
            .say(SESSION, HostLost(1, "no sign of life", True))
        ),
        [Restarted],
    ),
    "so does an agent to which no launcher came back before its ranks were started": (
        lambda: abandoned(restartable(min_nodes=1).prepared()),
        [Restarted],
    ),
    "and one whose start had been sent": (
        lambda: (
            restartable(min_nodes=1)
            .prepared()
            .say(SESSION, Starting())
            .say(0, Launched((0,), (0, 1)))
            .say(1, AgentEnded(EndReason.NO_LAUNCHER, "60 s"))
        ),
        [AttemptFailing],
    ),
    "without enough hosts the run ends": (
        lambda: abandoned(restartable().prepared()),
        [RemarkMade, SessionClosing],
    ),
    "and without a restart left": (lambda: abandoned(Case().prepared()), [SessionClosing]),
    "a host that was never reached ends the run all the same": (
        lambda: (
            restartable(min_nodes=1, hosts=3)
            .kept()
            .say(0, HELLO)
            .say(1, HELLO)
            .say(SESSION, HostPhaseChanged(0, Reach.READY), HostPhaseChanged(1, Reach.READY))
            .say(SESSION, HostLost(2, "refused", False))
        ),
        [SessionClosing],
    ),
    "an agent that ends during a start loses its host": (
        lambda: Case().prepared().say(1, AgentEnded(EndReason.TERMINATED)),
        [HostLost],
    ),
    # Connections
    "a host that is silent gets another connection": (
        lambda: Case().started().later(10),
        [Open, HostSilent, Open, HostSilent],
    ),
    "a host that is silent for long is lost": (
        lambda: Case().started().later(60).say(0, HostSample((), 1, 1)),
        [HostLost],
    ),
    "a host that is away for long is lost": (
        lambda: without(Case().started().later(10), 1).say(0, HostSample((), 1, 1)),
        [HostLost],
    ),
    "not so where the run is kept": (
        lambda: without(
            kept_run().started().later(10).say(0, HostSample((), 1, 1)),
            1,
        ),
        [Open, HostSilent],
    ),
    "where no host of a kept run is heard, none is lost": (
        lambda: kept_run().started().later(60),
        [HostSilent, HostSilent, Open, Open],
    ),
    "after ten minutes it is left": (
        lambda: kept_run().started().later(600),
        [RemarkMade, Detached],
    ),
    # Failures
    "a failure is noticed": (lambda: Case().started().say(1, Exited(1, 1)), [AttemptFailing]),
    "so is an end before the last step": (
        lambda: Case().started().say(1, Exited(1, 0)),
        [AttemptFailing],
    ),
    "so is an agent that was killed": (
        lambda: Case().started().say(1, AgentEnded(EndReason.AGENT_DIED)),
        [AttemptFailing],
    ),
    "so is a host that is lost": (
        lambda: Case().started().say(SESSION, HostLost(1, "gone", True)),
        [AttemptFailing],
    ),
    "last words are waited for": (lambda: failed(Case()).later(0.5), []),
    "then the others are stopped": (lambda: failed(Case()).later(1), [Stopping]),
    "a loss that is no number stops the run where that is wanted": (
        lambda: (
            Case(Policy(doctor=False, on_nan=OnNan.STOP))
            .started()
            .stepped(1)
            .say(0, StepFinished(0, 1, 1, float("nan"), 0.1))
        ),
        [AttemptFailing],
    ),
    # Stopping
    "a stop goes to every host": (lambda: stopping(Case()), [Stop, Stop]),
    "a stop goes over the next connection, too": (lambda: stopping_again(), [Stop]),
    "before the start there is nothing to stop": (
        lambda: Case().prepared().say(SESSION, Stopping("stopped", True)),
        [SessionClosing],
    ),
    "a stop that another launcher was asked for counts": (
        lambda: Case().started().say(1, StopHeard(by_person=True)),
        [Stopping],
    ),
    "hosts that do not end are lost": (
        lambda: asked(stopping(Case())).later(8).heard(),
        [HostLost, HostLost],
    ),
    "a host that is not heard is waited for less": (
        lambda: asked(stopping(Case())).later(3).say(0, HostSample((), 1, 1)),
        [HostLost],
    ),
    "who asks twice waits for nobody": (
        lambda: asked(stopping(Case()).say(SESSION, Stopping("stopped", True))),
        [HostLost, HostLost],
    ),
    "who stops an upload has it ended": (
        lambda: (
            Case()
            .reached()
            .say(SESSION, Transferring("upload"), Preparing((0, 1)), Stopping("stopped", True))
        ),
        [StopTransfers, Transferring],
    ),
    # Restarting
    "without restarts a failed run is closed": (lambda: both_exited(Case()), [SessionClosing]),
    "with restarts it is restarted": (lambda: both_exited(restartable()), [Restarted]),
    "not while a rank still runs": (lambda: failed(restartable()), []),
    "not after a person's stop": (
        lambda: both_exited(restartable()).say(SESSION, Stopping("stopped", True)),
        [Stop, Stop],
    ),
    "not more often than wanted": (
        lambda: again(both_exited(restartable())),
        [SessionClosing],
    ),
    "not without a host": (
        lambda: failed(restartable()).say(0, Exited(0, 1)).say(SESSION, HostLost(1, "gone", True)),
        [RemarkMade, SessionClosing],
    ),
    "but so where fewer are enough": (
        lambda: (
            failed(restartable(min_nodes=1))
            .say(0, Exited(0, 1))
            .say(SESSION, HostLost(1, "gone", True))
        ),
        [Restarted],
    ),
    "where a checkpoint is lost with its host, that is said": (
        lambda: (
            failed(restartable(min_nodes=1))
            .say(1, Saved(1, 1, 1, 0.1, 1))
            .say(0, Exited(0, 1))
            .say(SESSION, HostLost(1, "gone", True))
        ),
        [RemarkMade, Restarted],
    ),
    "a restart is prepared as a start is": (
        lambda: both_exited(restartable()).say(SESSION, Restarted((0, 1), "why")),
        [Preparing],
    ),
    "what is left on a host that comes back later ends": (
        lambda: failed(restartable(min_nodes=1)).say(
            SESSION, HostLost(1, "gone", True), Restarted((0,), "why")
        ),
        [RemarkMade, Close, Release],
    ),
    # Stalls
    "a stall is told, and stacks are asked for": (
        lambda: Case().started().stepped(0, 1).lives(40),
        [Stalled, StacksAsked, Stacks, Stacks],
    ),
    "ranks that hold up the start have a moment": (lambda: joining().lives(3), []),
    "where they are is asked for": (lambda: joining().lives(4), [StacksAsked, Stacks, Stacks]),
    "not at once again": (lambda: joining().lives(4).say(SESSION, StacksAsked()).lives(3), []),
    "later it is, as they go on": (
        lambda: joining().lives(4).say(SESSION, StacksAsked()).lives(4),
        [StacksAsked, Stacks, Stacks],
    ),
    "ranks that do not meet have a moment": (lambda: met().lives(3), []),
    "hosts try where they should meet": (lambda: met().lives(4), [Connect, Connect]),
    "if that is an address": (
        lambda: met("node0:9955").lives(4),
        [StacksAsked, Stacks, Stacks],
    ),
    "where all are inside, a stack may be of a rank that is stopped": (
        lambda: met("").lives(4),
        [StacksAsked, Stacks, Stacks],
    ),
    "one that is stopped for long is a stall": (
        lambda: halted().lives(32).say(1, dumps.by(dumps.STOPPED, 1)),
        [Stalled, StacksAsked, Stacks, Stacks],
    ),
    "which stops the run as well": (
        lambda: (
            halted(Policy(doctor=False, on_stall=OnStall.STOP))
            .lives(32)
            .say(1, dumps.by(dumps.STOPPED, 1))
            .say(SESSION, Stalled((0, 1), 32.0), StacksAsked())
            .lives(5)
        ),
        [Stopping],
    ),
    "before the first step, ranks have half a minute": (lambda: halted().lives(29), []),
    "then stacks tell if one is stopped": (
        lambda: halted().lives(30),
        [StacksAsked, Stacks, Stacks],
    ),
    "after a minute it is a stall": (
        lambda: joining().lives(60),
        [Stalled, StacksAsked, Stacks, Stacks],
    ),
    "which stops the run where that is wanted": (
        lambda: (
            joining(Policy(doctor=False, on_stall=OnStall.STOP))
            .lives(60)
            .say(SESSION, Stalled((0, 1), 60.0), StacksAsked())
            .lives(5)
        ),
        [Stopping],
    ),
    "where only collectives are seen, stacks tell if ranks wait": (
        exchanging,
        [StacksAsked, Stacks, Stacks],
    ),
    "they are asked for once": (lambda: exchanging().say(SESSION, StacksAsked()).lives(9), []),
    "stacks are waited for": (lambda: stalled(Case()), []),
    "a stall is explained once they should have come": (
        lambda: stalled(Case()).lives(5),
        [StallExplained],
    ),
    "a stall stops the run where that is wanted": (
        lambda: stalled(Case(Policy(doctor=False, on_stall=OnStall.STOP))).lives(5),
        [Stopping],
    ),
    "not while a host is silent": (
        lambda: (
            stalled(Case(Policy(doctor=False, on_stall=OnStall.STOP)))
            .say(SESSION, HostSilent(1, 11.0))
            .later(5)
        ),
        [],
    ),
    # Leaving
    "a launcher leaves once the ranks run": (
        lambda: Case().prepared().say(SESSION, DetachRequested()),
        [Starting],
    ),
    "it tells every host": (
        lambda: Case().started().say(SESSION, DetachRequested()),
        [Keep, OnDisconnect, Keep, OnDisconnect, Detached],
    ),
    "not where a host cannot be told": (
        lambda: without(Case().started().say(SESSION, DetachRequested()), 1),
        [Open],
    ),
    "who has left decides nothing": (lambda: both_exited(Case()).say(SESSION, Detached()), []),
    # Closing
    "once no rank runs, all is closed": (
        lambda: (
            Case()
            .started()
            .say(0, Finished(0, 1, 10, 1.0), Exited(0, 0))
            .say(1, Finished(1, 1, 10, 1.0), Exited(1, 0))
        ),
        [SessionClosing],
    ),
    "agents are told to end": (lambda: closing(Case()), [Close, Close]),
    "the end waits for them": (lambda: asked(closing(Case())).say(0, END), []),
    "as long as what came in time is still to be read": (
        lambda: behind(asked(closing(Case())).later(TIMES.closing + 1), 2),
        [],
    ),
    "but not for ever, whatever comes": (
        lambda: behind(asked(closing(Case())).later(TIMES.closing + 3), 2),
        [HostLost, HostLost],
    ),
    "a second stop waits for what had come before it": (
        lambda: behind(asked(stopping(Case())).say(SESSION, STOPPED_AGAIN).later(1), 2),
        [],
    ),
    "and for no more": (
        lambda: behind(asked(stopping(Case())).say(SESSION, STOPPED_AGAIN).later(3), 2),
        [HostLost, HostLost],
    ),
    "then the session is closed": (
        lambda: asked(closing(Case(Policy(doctor=False, fetch=False)))).all_say(END),
        [SessionClosed],
    ),
    "results are fetched first": (
        lambda: asked(closing(Case().stepped(0, 1))).all_say(END),
        [Transferring, Fetch],
    ),
    "and waited for": (
        lambda: (
            asked(closing(Case().stepped(0, 1))).all_say(END).say(SESSION, Transferring("fetch"))
        ),
        [],
    ),
    "then the session is closed, too": (
        lambda: (
            asked(closing(Case().stepped(0, 1)))
            .all_say(END)
            .say(SESSION, Transferring("fetch"), Transferring("fetch", over=True))
        ),
        [SessionClosed],
    ),
    "a host that was never reached is not waited for": (
        lambda: without(Case().say(SESSION, Stopping("stopped", True), SessionClosing()), 1),
        [Close, Release],
    ),
    # Returning
    "whoever returns to a person's stop goes on with it": (
        lambda: stopping(Case()).say(SESSION, Attached()),
        [Stop, Stop],
    ),
    "whoever returns to a failed run gives last words a moment": (
        lambda: failed(Case()).later(100).heard().say(SESSION, Attached()),
        [],
    ),
    "a start that is returned to goes on": (
        lambda: Case().reached().say(SESSION, Attached()),
        [Preparing],
    ),
    "a host that says nothing to who returns is waited for": (
        lambda: returned_without_word().lives(59, 0, 1),
        [],
    ),
    "as long as any, and then lost": (lambda: returned_without_word().lives(60, 0, 1), [HostLost]),
    "the others go on": (lambda: unheard(returned_without_word()).lives(10, 0, 1), []),
    "unless they wait for it": (
        lambda: unheard(returned_without_word(), Phase.JOINING).lives(60, 0, 1),
        [AttemptFailing],
    ),
    "once they have ended, all is over": (
        lambda: (
            unheard(returned_without_word())
            .say(0, Finished(0, 1, 10, 1.0), Exited(0, 0), AgentEnded(EndReason.ALL_ENDED))
            .say(1, Finished(1, 1, 10, 1.0), Exited(1, 0), AgentEnded(EndReason.ALL_ENDED))
        ),
        [SessionClosing],
    ),
    "no run is restarted with a host that has said nothing yet": (
        lambda: asked(
            returned_without_word(Policy(doctor=False, keep=True, max_restarts=1))
            .say(0, Exited(0, 1))
            .say(1, Exited(1, 1))
            .say(SESSION, AttemptFailing(), Stopping("a rank or host failed", by_person=False))
            .lives(9, 0, 1)
        ),
        [],
    ),
    "hosts of a run that is returned to are reached": (
        lambda: without(without(Case().started().say(SESSION, Attached()), 0), 1),
        [Open, Open],
    ),
}
END = AgentEnded(EndReason.CLOSED)
STOPPED_AGAIN = Stopping("stopped", by_person=True)


def kept_run() -> Case:
    return Case(Policy(doctor=False, keep=True))


def asked(case: Case) -> Case:
    """What is to be sent has been sent."""
    for action in case.decide():
        if isinstance(action, Send):
            case.links[action.host].sent.add(action.key)
    return case


def test_a_command_before_the_ranks_is_that_of_each_host() -> None:
    commands = [action.command for action in with_before().decide() if isinstance(action, Send)]
    placements = [command.placement for command in commands if isinstance(command, RunBefore)]
    assert [placement.argv for placement in placements] == [
        ("sh", "-c", "mkdir -p node1"),
        ("sh", "-c", "mkdir -p node2"),
    ]
    names = {name for name, _ in placements[0].env}
    assert "GROUP_RANK" in names
    assert names.isdisjoint({"RANK", "WORLD_SIZE", "LOCAL_RANK", "ROLE_RANK", "RANKBOARD_WATCH"})


def test_a_command_before_the_ranks_that_fails_is_told_with_its_last_words() -> None:
    case = with_before().all_say(BeforeStarted())
    case.say(1, OutputText(AGENT, "stderr", "mkdir: no permission\n"), BeforeEnded(1, 9.0))
    [refused] = events(case.decide())
    assert refused == StartRefused(
        1, "node2: --before 'mkdir -p {host}' failed: exit code 1: mkdir: no permission"
    )


def again(case: Case) -> Case:
    """The run was restarted, and has failed again."""
    case.say(SESSION, Restarted((0, 1), "why"), Preparing((0, 1)), Prepared(), Starting())
    for host in (0, 1):
        case.say(host, Launched((host,), (0, 1)), attempt=1)
        case.say(host, Exited(host, 1), attempt=1)
    return case.say(SESSION, AttemptFailing())


def stopping_again() -> Case:
    """A stop was sent to both hosts; then the connection to the second one was replaced."""
    case = asked(stopping(Case()))
    case.links[1].sent.clear()
    return case


@pytest.mark.parametrize("case", TABLE)
def test_what_is_done_next(case: str) -> None:
    given, expected = TABLE[case]
    assert kinds(given().decide()) == expected


def test_what_is_uploaded_begins_with_the_run() -> None:
    case = unreached()
    case.run.plan = replace(case.plan, uploads=(Upload("/x", "x"),))
    for link in case.links:
        link.is_opening = True
    assert kinds(case.decide()) == [Transferring, BeginUpload]


def test_a_stop_says_how_it_is_meant() -> None:
    gentle = stopping(Case()).decide()[0]
    hard = stopping(Case(), now=True).decide()[0]
    may_restart = restartable().started().say(SESSION, Stopping("why", by_person=False)).decide()[0]
    assert isinstance(gentle, Send)
    assert isinstance(hard, Send)
    assert isinstance(may_restart, Send)
    assert gentle.command == Stop(TIMES.grace, by_person=True)
    assert hard.command == Stop(0.0, by_person=True)
    assert may_restart.command == Stop(TIMES.grace, again=True)


def test_a_host_that_was_lost_is_named_with_what_may_go_on_there() -> None:
    policy = Policy(doctor=False, keep=True)
    lost = asked(stopping(Case(policy))).later(8).heard().decide()[0]
    assert isinstance(lost, Say)
    assert isinstance(lost.event, HostLost)
    assert f"rankboard stop {histories.plan().run}" in lost.event.reason


def test_deciding_changes_nothing() -> None:
    for given, _ in TABLE.values():
        case = given()
        first, before = case.decide(), repr(case.links)
        assert kinds(case.decide()) == kinds(first)
        assert repr(case.links) == before


def test_a_failed_run_of_which_a_host_was_given_up_has_not_ended() -> None:
    """Its ranks may live on there, where the run is kept: whoever returns ends them."""
    plan = histories.plan(2)
    history = histories.History(plan)
    history.say(0, Launched((0,))).say(1, Launched((1,)))
    history.say(0, Exited(0, 1), AgentEnded(EndReason.CLOSED))
    history.session(Stopping("a rank or host failed", by_person=False))
    history.session(
        HostLost(1, "node2: did not end within 8 s", reached=True),
        SessionClosing(),
        SessionClosed(),
    )
    records: Any = None
    controller = Controller(plan, records, {}, TIMES)
    controller.recall(history.records)
    assert controller.state.verdict is Verdict.FAILED
    assert not controller.state.is_settled


def got_going(history: histories.History) -> bool:
    records: Any = None
    controller = Controller(history.plan, records, {}, TIMES)
    controller.recall(record for one in history.records for record in expander(history.plan)(one))
    return controller.is_under_way


def test_a_job_has_got_going_once_all_its_ranks_have_made_a_step() -> None:
    history = histories.History(histories.plan(2)).training().rank(0, histories.stepped(0, 1))
    assert not got_going(history)
    assert got_going(history.rank(1, histories.stepped(1, 1)))


def test_a_script_has_got_going_with_a_step_or_after_a_while_without_a_failure() -> None:
    assert not got_going(started(script()))
    assert got_going(started(script(watch=True)).say(0, seen(0, 1, 0.5)))
    later = started(script()).say(0, SAMPLE, after=TIMES.settling)
    assert got_going(later)
    assert not got_going(started(script()).say(0, Exited(1, 2), SAMPLE, after=TIMES.settling))
    assert got_going(started(script()).say(0, Exited(1, 0)).say(1, SAMPLE, after=TIMES.settling))


def test_a_start_that_takes_too_long_names_the_ranks_without_a_step() -> None:
    case = Case(Policy(doctor=False, start_timeout=5.0)).started().stepped(0).lives(6)
    (said,) = events(case.decide())
    assert isinstance(said, Stopping)
    assert said.reason == "rank 1 had made no step 5 s after the start"


START_LIMIT = Policy(doctor=False, start_timeout=5.0)


def late_script(*events_of_rank_0: Event) -> Case:
    case = Case(START_LIMIT, script=True).started()
    for rank in (0, 1):
        case.say(rank, Spawned(rank, 100 + rank))
    return case.say(0, *events_of_rank_0).lives(6)


@pytest.mark.parametrize(
    ("case", "reason"),
    [
        (
            Case(START_LIMIT, script=True).started().lives(6),
            "ranks 0 and 1 had not been started 5 s after the start",
        ),
        (late_script(), "the script had shown no step 5 s after the start"),
        (
            joining(START_LIMIT).lives(6).say(SESSION, StacksAsked()),
            "rank 1 had not called init_process_group 5 s after the start",
        ),
        (
            joining(START_LIMIT)
            .lives(4)
            .say(1, dumps.by(dumps.LOADS, 1))
            .say(SESSION, StacksAsked())
            .lives(2),
            "rank 1 had not called init_process_group 5 s after the start; "
            "rank 1 is in train.py:41, load_batch",
        ),
        (
            met("", START_LIMIT)
            .lives(4)
            .say(1, dumps.by(dumps.STOPPED, 1))
            .say(SESSION, StacksAsked())
            .lives(2),
            "the script had shown no step 5 s after the start; "
            "rank 1 is stopped, by SIGSTOP or a debugger",
        ),
    ],
)
def test_a_script_that_shows_no_step_in_time_is_stopped(case: Case, reason: str) -> None:
    (said,) = events(case.decide())
    assert isinstance(said, Stopping)
    assert said.reason == reason


@pytest.mark.parametrize(
    "shown",
    [
        StepFinished(0, 1, 1, 2.0, 0.1),
        ScriptMetrics(0, 0, 0, (("loss", 1.0),)),
        Parsed(0, "", unread=1),
    ],
)
def test_a_script_that_shows_a_step_or_may_train_unseen_goes_on(shown: Event) -> None:
    assert not late_script(shown).decide()


@pytest.mark.parametrize("shown", [Parsed(1, "", unread=1), Collectives(1, 1)])
def test_what_is_no_step_is_none_where_torch_is_watched(shown: Event) -> None:
    case = joining(START_LIMIT).say(1, Entered(1, Phase.JOINING, "init_process_group"))
    case.say(1, shown).lives(6)
    (said,) = events(case.decide())
    assert isinstance(said, Stopping)

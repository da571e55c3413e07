"""From the facts of all hosts to the start of their ranks: the checks, the rendezvous port, the
connections, the placements.

Two rounds over each host's line: its facts, which come by themselves, then a port and connections
to the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from remote.doctor import doctor
from remote.plan.place import master_address, place
from remote.plan.plan import Plan, PlanError
from remote.session.connection import Link
from training.job import Job
from training.wire.commands import Start
from training.wire.events import SESSION, Checked, Connected, Event, Hello, Refused, Reserved


class Startup:
    """One attempt to start the ranks on these hosts, `plan.hosts`, reached by these links. What it
    finds it tells `say`.

    `over` turns true where there is nothing left to do: the ranks have been told to start
    (`started`), or are not to be.
    """

    def __init__(
        self,
        plan: Plan,
        links: Sequence[Link],
        say: Callable[[Event], None],
        forwarded: Mapping[str, str],
        attempt: int = 0,
        *,
        waits: Callable[[], bool] = lambda: False,
    ) -> None:
        """`forwarded`: variables for the ranks, see `remote.plan.environment`. `waits`: whether
        what they need is still being uploaded."""
        self._plan, self._links, self._say, self._forwarded = plan, links, say, forwarded
        self._attempt = attempt
        self._wanted: list[bool] = []
        self._reserved: list[Reserved | None] = [None] * len(links)
        self._connected: list[list[Connected]] = [[] for _ in links]
        self._waits, self._refused, self._checked = waits, False, False
        self.over = self.started = False

    @property
    def _facts(self) -> list[Hello | None]:
        return [None if link.done else link.hello for link in self._links]

    def begin(self) -> None:
        """The hosts have told their facts, or cannot be reached: check them, and ask for ports."""
        facts, checked = self._facts, self._plan.policy.doctor
        if checked:
            offsets, problems = (
                [link.clock.offset for link in self._links],
                [link.problem for link in self._links],
            )
            self._report(doctor.check_facts(self._plan, facts, offsets, problems))
        else:
            self._need_master(facts)
        wanted = doctor.reservations(self._plan, facts)
        if not checked or len(self._links) == 1:
            wanted[1:] = [None] * (len(wanted) - 1)
        self._wanted = [bool(reserve) for reserve in wanted]
        self.over = self._refused or not any(wanted)
        if not self.over:
            for link, reserve in zip(self._links, wanted, strict=True):
                if reserve:
                    link.ask(reserve)

    def _need_master(self, facts: Sequence[Hello | None]) -> None:
        try:
            master_address(self._plan, [hello for hello in facts if hello])
        except PlanError as error:
            self._refuse(SESSION, str(error))

    def reserved(self, link: Link, event: Reserved) -> None:
        """A host has bound its port, or could not."""
        if (
            self.over
            or link not in self._links
            or self._reserved[position := self._links.index(link)]
        ):
            return
        self._reserved[position] = event
        if not self._all_reserved:
            return
        asked = doctor.connects(self._reserved)
        for one, connect in zip(self._links, asked, strict=True):
            if connect:
                one.ask(connect)
        if not any(asked):
            self._finish()

    @property
    def _all_reserved(self) -> bool:
        return sum(map(bool, self._reserved)) >= sum(self._wanted)

    def connected(self, link: Link, event: Connected) -> None:
        """A host has tried one of its connections."""
        if self.over or link not in self._links or not self._all_reserved:
            return
        position = self._links.index(link)
        found, asked = self._connected[position], doctor.connects(self._reserved)
        wanted = connect.targets if (connect := asked[position]) else ()
        tried = {(one.address, one.port) for one in found}
        if (event.address, event.port) not in wanted or (event.address, event.port) in tried:
            return  # of the attempt before
        found.append(event)
        if sum(map(len, self._connected)) == sum(
            len(connect.targets) for connect in asked if connect
        ):
            self._finish()

    def _finish(self) -> None:
        """All that was asked has been answered."""
        found = doctor.check_connections(self._plan, self._facts, self._reserved, self._connected)
        self._report(
            [check for check in found if self._plan.policy.doctor or check.outcome == doctor.FAILED]
        )
        self._checked = True
        self.start_if_ready()

    def start_if_ready(self) -> None:
        """Start the ranks, once all has been checked and is there, unless a check refuses that."""
        self.over = self._checked and (self._refused or not self._waits())
        if self.over and not self._refused:
            self._start()

    def _start(self) -> None:
        master = self._reserved[0]
        assert master, "nothing is refused, so the master has its port"
        try:
            placements = place(
                self._plan, self._facts, master.address, master.port, self._forwarded
            )
        except PlanError as error:
            self._refuse(SESSION, str(error))
            return
        self.started = True
        hosts, again = (
            tuple(link.index for link in self._links),
            self._plan.policy.max_restarts > self._attempt,
        )
        for link, placed in zip(self._links, placements, strict=True):
            link.running, link.launched = {placement.rank for placement in placed}, True
            link.ask(Start(self._attempt, isinstance(self._plan.work, Job), placed, hosts, again))

    def _report(self, checks: Sequence[Checked]) -> None:
        """Say what was found, and refuse the start where something has failed. A check's `on` is a
        position in the plan."""
        named = self._plan.named
        found = doctor.grouped(
            [replace(one, text=named(one.text), advice=named(one.advice)) for one in checks]
        )
        for check in found:
            self._say(self._indexed(check))
        names = [host.name for host in self._plan.hosts]
        for check in found:
            if check.outcome == doctor.FAILED and doctor.is_told(check):
                self._refuse(
                    SESSION if check.same else self._indexed(check).on, doctor.refusal(names, check)
                )

    def _indexed(self, check: Checked) -> Checked:
        """The check with its hosts' numbers in the run, some of whose hosts may have been left
        out."""
        if check.on == SESSION:
            return check
        number = [link.index for link in self._links]
        return replace(check, on=number[check.on], same=tuple(number[on] for on in check.same))

    def _refuse(self, on: int, reason: str) -> None:
        self._say(Refused(on, self._plan.named(reason)))
        self._refused = True

"""Makes plans, and begins, attaches and checks: the one entry for both front ends."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from msgspec import structs

from remote.cluster.hosts import Cluster
from remote.cluster.rules import rules_for
from remote.format import count
from remote.host_commands.kept_plan import KeptPlan
from remote.plan import needs, placeholders
from remote.plan import plan as planning
from remote.plan.environment import forwarded
from remote.plan.main_program import MainProgram, find_main_program
from remote.plan.plan import Plan, PlanError, Policy, Script, Upload
from remote.record import marks, resume
from remote.record.events_file import Remark, read_records
from remote.record.layout import EVENTS, NODE
from remote.record.lock import launcher
from remote.record.snapshots import RunMoment, find_newest
from remote.record.tape import Tape
from remote.record.write import Recorder
from remote.run.output.script_readings import Expand, expander
from remote.run.run_state import RunState
from remote.transport import Transport
from remote.transport.registry import is_here
from training import registry
from training.job import Job
from training.mistake import Mistake
from training.wire.events import Record

if TYPE_CHECKING:  # a list of runs, or a form, is shown before any of this is needed
    from remote.doctor.host_facts import HostFinding
    from remote.plan.pasted.line import PastedLine, ReadSource
    from remote.session.examination import Examination
    from remote.session.notify import Notifier
    from remote.session.session import Session


@dataclass(frozen=True)
class Launcher:
    """Makes plans and sessions, for either front end."""

    transport: Transport
    runs_dir: Path
    policy: Policy = field(default_factory=Policy)
    remark: Remark | None = None
    """Is called with what is wrong with a record."""
    notifier: Notifier | None = None
    """Notifies the user if a run stalls or has ended."""

    def plan(self, cluster: Cluster, work: Job | Script, policy: Policy | None = None) -> Plan:
        """Make the plan of a new run, with another `policy` than the launcher's if one is given. A
        relative path is relative to this directory; `~` is the home on each host. Raises:
        PlanError."""
        local = is_here(cluster.hosts)
        uploads, project = _uploads(cluster)
        if local:  # its ranks work with the files themselves
            uploads, project = (), ""
        if isinstance(work, Job):
            work = self._located(cluster, work, uploads)
        else:
            work = replace(work, rules=rules_for(cluster))
            cluster = _with_cwd(cluster, uploads)
        run = planning.new_run(work, datetime.now())
        hosts = cluster.hosts
        if isinstance(work, Script):
            hosts = tuple(replace(host, env=(*host.env, *work.variables)) for host in hosts)
        # with --local, one folder holds the whole run
        if local:
            hosts = tuple(replace(host, workdir=str(self.runs_dir / run / NODE)) for host in hosts)
        policy = policy or self.policy
        is_looked_for = isinstance(work, Script) and bool(work.fetch)  # to say what is missing
        policy = replace(policy, fetch=policy.fetch and (is_looked_for or not local))
        plan = Plan(run, hosts, work, policy, uploads, project)
        planning.check(plan)
        plan = planning.with_folders(plan)
        _check_uploaded(plan)
        if policy.min_nodes > len(hosts):
            problem = f"the run has only {count(len(hosts), 'host')}"
            raise PlanError(Mistake("--min-hosts", str(policy.min_nodes), problem))
        return plan

    def _located(self, cluster: Cluster, job: Job, uploads: Sequence[Upload]) -> Job:
        """Return the job with its paths as its ranks understand them. Raises: PlanError."""
        local = is_here(cluster.hosts)
        given_job = job
        job = _with_paths_on_hosts(job, uploads)
        if local or needs.path_of(job)[:1] not in ("", "/", "~"):
            check_data(given_job)
        ranks = sum(host.slots for host in cluster.hosts)
        return resume.located(job, self.runs_dir, local, rank_count=ranks)

    def begin(self, plan: Plan, name: str = "") -> Session:
        """Make the session of a new run. `name`: what a person calls it. Raises: OSError;
        PlanError, if a variable of `env_from` is not in the environment, or this is no name."""
        from remote.session.session import Session

        values = forwarded(plan, os.environ)
        plan = replace(plan, label=marks.checked_name(name))
        recorder = Recorder(self.runs_dir, plan)
        session = Session(_with_script_facts(plan), self.transport, recorder, _cwd(plan), values)
        session.notifier = self.notifier
        return session

    def attach(self, kept_plan: KeptPlan) -> Session:
        """Make the session that attaches to a run and continues its record.

        Raises: PlanError, also where its hosts have to be reached and cannot be; RunFolderError.
        """
        from remote.session.returning import ReturningSession
        from remote.session.session import Session

        plan = kept_plan.plan
        recorder = Recorder(self.runs_dir, plan, continues=True)  # from here on nobody else records
        values = {
            name: os.environ[name]
            for host in plan.hosts
            for name in host.env_from
            if name in os.environ
        }
        cwd = _cwd(plan)
        session: Session
        if not (recorder.folder / EVENTS).exists():
            session = ReturningSession(
                plan, self.transport, recorder, cwd, values, kept_plan.offsets
            )
        else:
            past = find_newest(recorder.folder, plan)
            session = Session(plan, self.transport, recorder, cwd, values, past=past)
            session.catch_up(self.recorded(plan, session.expand, after=past))
            if past:
                recorder.continue_from(past)
        session.notifier = self.notifier
        if kept_plan.refusal and not session.has_ended:
            recorder.release()
            raise PlanError(kept_plan.refusal)
        return session

    def recorded(
        self, plan: Plan, expand: Expand | None = None, after: RunMoment | None = None
    ) -> Iterator[Record]:
        """Yield the records of a run on this machine, perhaps none, or those after a moment.
        `expand` reads what a script prints; None: a new one of this run. Raises: RunFolderError."""
        folder = self.runs_dir / plan.run
        if not (folder / EVENTS).exists():
            return iter(())
        expand = expand or expander(plan)
        return read_records(folder, len(plan.hosts), self.remark, expand, after=after)

    def read_state(self, plan: Plan) -> RunState:
        """Return the state that the records of a run on this machine come to. Raises:
        RunFolderError."""
        folder = self.runs_dir / plan.run
        with closing(Tape(folder, plan, rewinds=False)) as tape:
            tape.advance(math.inf, sys.maxsize)
            tape.remark_on_left_out(self.remark)
            if launcher(folder) is None:
                tape.save()
            return tape.state

    def check(self, plan: Plan) -> Examination:
        """Prepare the checks of the plan's hosts, as its start makes them. Nothing is started or
        kept."""
        from remote.session.examination import Examination

        return Examination(_with_script_facts(plan), self.transport)


def find_pasted_ranks(plan: Plan) -> PastedLine | None:
    """Return how the command line of a script reads for all ranks, if it was typed for one node.

    The source of the script says what its options mean, if the file is on this machine, too.
    """
    if not plan.script or plan.world_size < 2:
        return None
    from remote.plan.pasted.line import find_pasted_line

    is_one_per_host = all(host.slots == 1 for host in plan.hosts)
    read_source = _make_source_reader(plan)
    return find_pasted_line(plan.script.words, read_source, is_one_per_host=is_one_per_host)


def _with_script_facts(plan: Plan) -> Plan:
    """Return the plan with what its script says of what the hosts are to check."""
    if not plan.script or not plan.policy.doctor:
        return plan
    from remote.plan.script_checks import find_fixed_place, imports_torch

    words = plan.script.words
    read_source = _make_source_reader(plan)
    return replace(
        plan,
        fixed_place=find_fixed_place(words, read_source),
        imports_torch=imports_torch(words, read_source),
    )


def _make_source_reader(plan: Plan) -> ReadSource:
    """Return what reads the sources of a script, as far as they are on this machine."""
    from remote.plan.pasted.script_facts import LARGEST_SOURCE

    folders = (Path(plan.rank_cwd(plan.first_slot(0))), Path.cwd())

    def read_source(path: str) -> str:
        for folder in folders:
            source_path = folder / path
            with suppress(OSError, ValueError):
                if source_path.is_file() and source_path.stat().st_size <= LARGEST_SOURCE:
                    return source_path.read_text(encoding="utf-8", errors="replace")
        return ""

    return read_source


def _cwd(plan: Plan) -> str:
    """Return the folder of ranks that see the files of this machine; "" if the plan says where they
    work."""
    if not is_here(plan.hosts):
        return ""
    named_folder = plan.hosts[0].cwd
    if plan.script and named_folder:
        return ""  # each host may have its own
    return named_folder or os.getcwd()


def _check_uploaded(plan: Plan) -> None:
    """Raises: PlanError, where a file of the program is not among those that go to the hosts."""
    if not plan.script or not plan.uploads:
        return
    program = find_main_program(plan.script.words)
    names: dict[str, None] = {}
    for host_index in range(len(plan.hosts)):
        names |= dict.fromkeys(needs.names_on_host(plan, host_index, program.name))
    for name in names:
        if not placeholders.has_any(name):  # the address of the master is not known yet
            _check_uploaded_program(structs.replace(program, name=name), plan.uploads)


def _check_uploaded_program(program: MainProgram, uploads: Sequence[Upload]) -> None:
    kind, name = program.kind, program.name
    here = Path(program.folder, name).absolute()
    if len(name.split()) > 1 and not here.exists():
        raise PlanError(f"there is no program '{name}': leave out the quotes: -- {name}")
    is_path = bool(name) if kind == "file" else kind == "command" and "/" in name
    if not is_path or name.startswith(("/", "~")):
        return
    if kind == "command" and here.is_dir():
        raise PlanError(f"{name} is a folder: name the program in it")
    if not here.exists():
        folder = Path(program.folder).absolute()
        raise PlanError(f"there is no {name} in {folder}, whose files --upload sends")
    if not any(here.is_relative_to(upload.source) for upload in uploads):
        raise PlanError(f"--upload does not send {name}: add --upload .")


def _with_cwd(cluster: Cluster, uploads: Sequence[Upload]) -> Cluster:
    """Return the hosts with the folder in which a script works: by default the path of this one, as
    if all hosts share their files."""
    if uploads:
        return cluster
    hosts = (replace(host, cwd=host.cwd or os.getcwd()) for host in cluster.hosts)
    return replace(cluster, hosts=tuple(hosts))


def _uploads(cluster: Cluster) -> tuple[tuple[Upload, ...], str]:
    """Return the uploads, and the name of their folder on the hosts. Raises: PlanError."""
    if not cluster.sync:
        return (), ""
    from remote.upload import sources  # of which most runs need nothing

    here = Path.cwd()
    return sources.resolve_uploads(cluster.sync, here), sources.project_name(here)


def check_data(job: Job) -> HostFinding:
    """Check the data on this machine, which reads or uploads them. Raises: PlanError."""
    from remote.doctor.host_facts import FAILED
    from remote.doctor.work import judge_data
    from training.agent.local_api import check_needs

    job = _with_paths_on_hosts(job)
    finding = judge_data(job, **check_needs(needs.needs_of_job(replace(job, resume="")), ""))
    if finding.outcome == FAILED:
        problem = f"{finding.text}; {finding.advice}"
        raise PlanError(Mistake("--dataset", job.dataset, problem))
    return finding


def _with_paths_on_hosts(job: Job, uploads: Sequence[Upload] = ()) -> Job:
    """Return the job with the paths of its data as its ranks understand them."""
    where = partial(_on_hosts, uploads=uploads)
    dataset = registry.with_path("datasets", job.dataset, where)
    return replace(job, data_dir=where(job.data_dir), dataset=dataset)


def _on_hosts(path: str, uploads: Sequence[Upload]) -> str:
    """Return the path on the hosts of a local path. An uploaded one is relative to the folder that
    the ranks work in."""
    if path.startswith("~"):
        return path
    here = Path(os.path.abspath(path))
    for upload in uploads:
        if here.is_relative_to(upload.source):
            inner = here.relative_to(upload.source)
            return PurePosixPath(upload.target, inner).as_posix()
    return str(here)

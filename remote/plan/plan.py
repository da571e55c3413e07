"""The plan of a run: what is done, on which hosts, and what happens when something fails. Pure: it
does no I/O."""

from __future__ import annotations

import math
import posixpath
import re
import secrets
import shlex
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from remote.cluster.hosts import HOSTS, HOSTS_FILE, LOCAL_NAME, RANKS, Host, hosts_option
from remote.formats.rules import Rule
from remote.lab.spec import is_of_lab
from remote.plan import placeholders
from remote.plan.main_program import NO_PYTHON, PYTHONS, find_main_program
from remote.plan.placeholders import Placeholder, Values
from remote.plan.python_line import python_line
from remote.plan.variables import HIDDEN, is_secret
from training.agent.layout import LAST, NODE, UPLOADS, run_folder
from training.job import Job, JobError
from training.mistake import Mistake, MistakeError

RESTARTS = 10_000
"""How often a run restarts at most."""
LONGEST_LABEL = 60
"""Characters of the name that a person gives a run."""
LOG_FILES = "log-files"
"""The name of a run that log files are shown as, see `remote.record.log_files`."""


class PlanError(MistakeError):
    """A plan that cannot be carried out; its mistakes say what to change."""


@dataclass(frozen=True)
class Script:
    """A program of the user, started once per rank with torchrun's environment.

    Patterns are globs, below the folder that the ranks work in.
    """

    words: tuple[str, ...]
    """As a person types them, see `argv`."""
    watch: bool = True
    """Watch torch in its processes."""
    follow: tuple[str, ...] = ()
    """Patterns of files to read as they grow."""
    fetch: tuple[str, ...] = ()
    """Patterns of files to copy from the hosts at the end."""
    before: str = ""
    """A command for the shell of each host, which runs once before the ranks; "" if there is
    none."""
    rules: tuple[Rule, ...] = ()
    """Read its output."""
    variables: tuple[tuple[str, str], ...] = ()
    """Those that are typed before it, as in `LR=0.1 train.py`. The hosts of a plan have them, too,
    in their `env`, which sets them."""

    def argv(self, python: str, values: Values) -> tuple[str, ...]:
        """Return what to execute for a rank, as torchrun would: `-m MODULE` and a file of Python
        with `python`, the host's own; any other program, and what follows NO_PYTHON, as it is.
        `values` are those of the placeholders in its words."""
        first_word, *other_words = placeholders.fill_words(self.words, values)
        if first_word == NO_PYTHON:
            return tuple(other_words)
        if first_word in PYTHONS:
            # Unbuffered, as torchrun does: lines come as they are printed, and the last ones of a
            # rank that dies are not lost.
            return python, "-u", *other_words
        if first_word == "-m" or first_word.endswith(".py"):
            return python, "-u", first_word, *other_words
        return first_word, *other_words

    @property
    def stem(self) -> str:
        """Name the script in one plain word, such as `train` of `scripts/train.py`."""
        python_words = python_line([word for word in self.words if word != NO_PYTHON])
        program = python_words or find_main_program(self.words)
        program_name = posixpath.basename(program.name)
        program_name = program_name.removesuffix(".py").removesuffix(".sh")
        return re.sub(r"[^A-Za-z0-9_]+", "-", program_name).strip("-")[:24] or "script"

    @property
    def typed_words(self) -> tuple[str, ...]:
        """Return the variables, the script and its arguments, as a person would type them."""
        return (*(f"{name}={value}" for name, value in self.variables), *self.words)

    def command_line(self) -> str:
        """Return the same in one line."""
        return shlex.join(self.typed_words)

    @property
    def description(self) -> str:
        """Return the same without the values of secrets."""
        shown_variables = (
            f"{name}={HIDDEN if is_secret(name) else shlex.quote(value)}"
            for name, value in self.variables
        )
        return " ".join((*shown_variables, shlex.join(self.words)))


class Slot(Struct, frozen=True):
    """The place of one rank."""

    rank: int
    local_rank: int
    """Its number on its host."""
    host: int
    """The number of the host."""


class OnStall(StrEnum):
    """What happens when a rank makes no progress."""

    REPORT = "report"
    STOP = "stop"
    RESTART = "restart"


class OnNan(StrEnum):
    """What happens when the loss of a rank is NaN or infinite."""

    WARN = "warn"
    STOP = "stop"


@dataclass(frozen=True)
class Policy:
    """What a run does when something happens to it."""

    keep: bool = False
    """It continues without its operator."""
    doctor: bool = True
    """The hosts are checked before the start."""
    start_timeout: float = 0.0
    """Seconds that the ranks have from the command to their first step; 0: no limit."""
    on_stall: OnStall = OnStall.REPORT
    on_nan: OnNan = OnNan.WARN
    max_restarts: int = 0
    """How often a failed run restarts at most."""
    min_nodes: int = 0
    """It restarts without lost hosts as long as so many are left; 0: only with all."""
    fetch: bool = True
    """Checkpoints and reports come back from the hosts."""

    def __post_init__(self) -> None:
        """Refuse values out of bounds, wherever they come from. Raises: PlanError."""
        if not 0 <= self.start_timeout < math.inf:
            hint = "give a finite number of seconds (0: wait)"
            raise PlanError(Mistake("--start-timeout", str(self.start_timeout), hint=hint))
        for flag_name, flag_value, highest_value in (
            ("--max-restarts", self.max_restarts, RESTARTS),
            ("--min-hosts", self.min_nodes, HOSTS),
        ):
            if not 0 <= flag_value <= highest_value:
                hint = f"give a number from 0 to {highest_value}"
                raise PlanError(Mistake(flag_name, str(flag_value), hint=hint))


@dataclass(frozen=True)
class Upload:
    """A file or folder of the operator's machine that goes to every host."""

    source: str
    """Its absolute path."""
    target: str
    """Where it lands below the folder that the ranks work in; "" if it is that folder."""


class FixedPort(Struct, frozen=True):
    """A port on the first host that rank 0 binds whatever rankboard chooses."""

    number: int
    argument: str = ""
    """What names it in the command line, such as `--master-port 6585`; "" if only the source does,
    which may not come to use it."""


class FixedPlace(Struct, frozen=True):
    """Where the ranks of a script meet, whatever rankboard chooses."""

    ports: tuple[FixedPort, ...] = ()
    addresses: tuple[str, ...] = ()
    """Those in the source, which may not come to use them."""


NOWHERE = FixedPlace()


@dataclass(frozen=True)
class Plan:
    """One run: `work` done by one rank per slot of the hosts, in their order."""

    run: str
    hosts: tuple[Host, ...]
    work: Job | Script
    policy: Policy = Policy()
    uploads: tuple[Upload, ...] = ()
    """They land on each host in the folder `<workdir>/files/<project>`, where the ranks then
    work."""
    project: str = ""
    """"" if nothing is uploaded."""
    label: str = ""
    """The name that a person gave the run at its start."""
    fixed_place: FixedPlace = NOWHERE
    """Where the ranks meet if a script fixes it, for the checks before a start; not recorded."""
    imports_torch: bool = False
    """The source of a script that the host's own Python runs imports torch, for the same checks;
    not recorded."""
    rules_left_out: int = 0
    """How many rules for its output the recorded plan has that are not used, as somebody else may
    have written them."""

    @property
    def job(self) -> Job | None:
        """Return the work, if it is a job and not a script."""
        return self.work if isinstance(self.work, Job) else None

    @property
    def script(self) -> Script | None:
        """Return the work, if it is a script and not a job."""
        return self.work if isinstance(self.work, Script) else None

    @property
    def what(self) -> str:
        """Describe what the ranks do, in a few words."""
        return what(self.work)

    @property
    def is_local(self) -> bool:
        """Return True if the hosts are this machine, as with `--local`: their files then lie in the
        directory of the run."""
        # A recorded plan does not say how it was launched; this place of the workdir has no other
        # reason.
        return all(host.workdir.endswith(f"/{self.run}/{NODE}") for host in self.hosts)

    @property
    def hosts_file(self) -> str:
        """Return the file that the hosts come from."""
        return self.hosts[0].hosts_file if self.hosts else HOSTS_FILE

    @property
    def hosts_option(self) -> str:
        """Return what a command that we advise needs to find the hosts."""
        return hosts_option(self.hosts_file)

    @property
    def selection_option(self) -> str:
        """Return what a command that starts or checks ranks needs to select the same hosts."""
        if self.hosts_option or not (self.is_local and self.has_hosts_of_flag):
            return self.hosts_option
        first_host = self.hosts[0]
        # A lab has a host for each rank by itself; without one, all ranks are on one host.
        has_slots = first_host.slots > 1 or not is_of_lab(first_host)
        slots_option = f" --slots {first_host.slots}" if len(self.hosts) > 1 and has_slots else ""
        return f" --local {self.world_size}{slots_option}"

    @property
    def has_hosts_of_flag(self) -> bool:
        """Return True if `--local` made the hosts. A hosts file may list this machine, too."""
        # A recorded plan does not have the hosts file.
        return all(LOCAL_NAME.fullmatch(host.name) or is_of_lab(host) for host in self.hosts)

    def __post_init__(self) -> None:
        """Refuse sizes out of bounds, wherever they come from. Raises: PlanError."""
        if len(self.hosts) > HOSTS:
            raise PlanError(f"the run has {len(self.hosts)} hosts: {HOSTS} at most")
        if self.world_size > RANKS:
            raise PlanError(f"the run has {self.world_size} ranks: {RANKS} at most")

    @property
    def world_size(self) -> int:
        """Return the number of ranks."""
        return sum(host.slots for host in self.hosts)

    @property
    def slots(self) -> tuple[Slot, ...]:
        """Return the place of every rank, in rank order."""
        rank_places = [
            (host_index, local_rank)
            for host_index, host in enumerate(self.hosts)
            for local_rank in range(host.slots)
        ]
        return tuple(
            Slot(rank, local_rank, host_index)
            for rank, (host_index, local_rank) in enumerate(rank_places)
        )

    def first_slot(self, host_index: int) -> Slot:
        """Return the place of the first rank of host number `host_index`."""
        first_rank = sum(host.slots for host in self.hosts[:host_index])
        return Slot(first_rank, 0, host_index)

    @property
    def keeps_copies(self) -> bool:
        """Return True if every host keeps a copy of the model in a checkpoint, since the run may
        restart without some of them."""
        return self.policy.max_restarts > 0 and 0 < self.policy.min_nodes < len(self.hosts)

    def folder(self, host_index: int) -> str:
        """Return the folder of the run on host number `host_index`."""
        return run_folder(self.hosts[host_index].workdir, self.run, host_index)

    def cwd(self, host_index: int) -> str:
        """Return the folder in which the ranks of host number `host_index` work; the one that has
        their folders if each rank has its own."""
        host = self.hosts[host_index]
        if self.project:
            return f"{host.workdir}/{UPLOADS}/{self.project}"
        if self.job:
            return host.workdir
        folder = host.cwd or host.workdir
        while placeholders.is_of_rank(folder):
            folder = posixpath.dirname(folder)
        return folder

    def rank_cwd(self, slot: Slot) -> str:
        """Return the folder in which a rank works."""
        host = self.hosts[slot.host]
        if self.job or self.project or not placeholders.is_of_rank(host.cwd):
            return self.cwd(slot.host)
        return placeholders.fill(host.cwd, self.place_values(slot))

    def place_values(self, slot: Slot) -> dict[Placeholder, int | str]:
        """Return the values of placeholders for a rank, without those of the master's address,
        which is found once the hosts are reached."""
        host = self.hosts[slot.host]
        return {
            placeholders.RANK: slot.rank,
            placeholders.LOCAL_RANK: slot.local_rank,
            placeholders.WORLD_SIZE: self.world_size,
            placeholders.LOCAL_WORLD_SIZE: host.slots,
            placeholders.NODE_RANK: slot.host,
            placeholders.NODES: len(self.hosts),
            placeholders.HOST: host.name,
        }


def with_seed(work: Job | Script, seed: int) -> Job | Script:
    """Return a job that begins again, with this seed. A script remains as it is: its settings are
    its own."""
    return replace(work, seed=seed, resume="") if isinstance(work, Job) else work


def with_setting(job: Job, name: str, value: float) -> Job:
    """Return a job that begins again, with another value of a setting."""
    changes: dict[str, Any] = {name: value}
    return replace(job, resume="", **changes)


def with_folders(plan: Plan) -> Plan:
    """Return the plan with values for the placeholders in the folders of its hosts. Those that tell
    apart the ranks of a host stay if it has several."""
    hosts: list[Host] = []
    for host_index, host in enumerate(plan.hosts):
        values = plan.place_values(plan.first_slot(host_index))
        if host.slots > 1:
            del values[placeholders.RANK], values[placeholders.LOCAL_RANK]
        hosts.append(replace(host, cwd=placeholders.fill(host.cwd, values)))
    return replace(plan, hosts=tuple(hosts))


def what(work: Job | Script) -> str:
    """Describe what ranks do, in a few words: "ddp, lenet5 on digits", or the command line of a
    script."""
    if isinstance(work, Job):
        return f"{work.sync}, {work.model} on {work.dataset}"
    return work.description


def new_run(work: Job | Script, now: datetime) -> str:
    """Make a name for a run: the time, the work and four random letters, as in
    `20261120-093000-ddp-lenet5-3f9a`."""
    work_name = (
        f"{work.sync}-{work.model.replace('/', '-')}" if isinstance(work, Job) else work.stem
    )
    # Sorted by name, runs are in order of time; the letters tell apart what starts in the same
    # second.
    return f"{now:%Y%m%d-%H%M%S}-{work_name}-{secrets.token_hex(2)}"


def is_label(text: str) -> bool:
    """Return whether a person can give a run this name."""
    if not 0 < len(text) <= LONGEST_LABEL or text != text.strip():
        return False
    is_path = "/" in text
    return text.isprintable() and not is_path and text != LAST


def check(plan: Plan) -> None:
    """Raises: PlanError, where the work does not fit the ranks."""
    if not plan.hosts:
        raise PlanError(
            "no host is left to run on: choose one, or see --num-hosts, --only and --exclude"
        )
    if plan.job:
        try:
            plan.job.check_world(plan.world_size)
        except JobError as error:
            raise PlanError(*error.mistakes) from None

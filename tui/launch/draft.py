"""What stands in the launch form, as texts, and the run that it amounts to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Any

from remote.cluster.hosts import Cluster, Host, HostsError, with_slots
from remote.plan.plan import Plan, Policy, Script
from training import job as jobs
from training import options
from training.job import Job, JobError
from training.mistake import Mistake, MistakeError
from training.registry import UnknownName
from tui.flags.script import with_cwd
from tui.kit.messages import RunRequest
from tui.kit.open_runs import MakePlan
from tui.launch import script_fields
from tui.launch.form_fields import (
    OFF,
    ON,
    OPTION_FLAG,
    OPTIONS,
    SWITCH,
    FormField,
    format_option,
    format_policy,
    format_value,
    method_fields,
    parse_policy,
    policy_fields,
    setting_fields,
)

MAIN = "what to train"
HOSTS = "hosts"
METHOD_OPTIONS = "options of the method"
POLICY = "failures and disconnects"
"""The names of groups that are not called as those of `Job`."""
MAIN_SETTINGS = ("model", "dataset", "sync", "epochs", "batch_size", "lr")
"""What most users change, which comes first."""
RANKS = "ranks"
"""The field that takes the place of the list of hosts if there is only one, and no hosts file, in
which its ranks are written."""


@dataclass(frozen=True)
class FieldMistake:
    """A mistake that keeps the run from starting, and where it is."""

    field: str
    """The name of its field or group; "" if it has none."""
    mistake: Mistake
    label: str = ""
    """What its row is called; "" if it has none, or if the mistake names several fields."""
    value: str = ""
    """What stands in the field."""

    @property
    def text(self) -> str:
        """Return the mistake in words, with its field: "epochs is 0: must be at least 1"."""
        if not self.label or not self.mistake.without_flag:
            return str(self.mistake)
        return f"{self.label} is {self.value or 'empty'}: {self.mistake.without_flag}"

    @property
    def short(self) -> str:
        """Return the words beside its field, which shows flag and value itself."""
        return self.mistake.without_flag if self.field else self.text


@dataclass(frozen=True)
class ReadyRun(RunRequest):
    """A run that can be started. Its work is as the form says it; in the plan, a run to resume may
    be replaced by its folder."""

    plan: Plan


@dataclass(frozen=True)
class CheckedDraft:
    """What the texts amount to: a run, or mistakes."""

    ready: ReadyRun | None = None
    mistakes: tuple[FieldMistake, ...] = ()


class LaunchDraft:
    """The texts of the launch form."""

    def __init__(self, cluster: Cluster, keep: bool = False) -> None:
        """`keep` is the default of --on-disconnect."""
        self.cluster = cluster
        """All hosts that can be chosen."""
        self.keep = keep
        self.texts: dict[str, str] = {}
        """The texts of the fields that differ from their defaults, by the names of the fields."""
        self.hosts = {f"host.{number}": host for number, host in enumerate(cluster.hosts)}
        """The hosts, by the names of their fields."""
        if len(cluster.hosts) == 1 and not cluster.file:
            self.hosts = {RANKS: cluster.hosts[0]}
        self._host_fields = tuple(starmap(_make_host_field, self.hosts.items()))
        fields = (*self._host_fields, *script_fields.FIELDS, *policy_fields(keep).values())
        self._fields = setting_fields() | {field.name: field for field in fields}

    @classmethod
    def create(
        cls,
        cluster: Cluster,
        selected: Cluster,
        work: Job | Script,
        policy: Policy,
        keep: bool,
        cwd: str = "",
    ) -> LaunchDraft:
        """Fill a form with work on the `selected` hosts. `cwd` is the folder of a script."""
        draft = cls(cluster, keep)
        draft.fill_work(work)
        if isinstance(work, Script):
            draft.set_text(script_fields.CWD, cwd)
        draft.fill_policy(policy)
        if RANKS in draft.hosts:
            draft.set_text(RANKS, str(selected.hosts[0].slots))
            return draft
        for name, host in draft.hosts.items():
            draft.set_text(name, ON if host in selected.hosts else OFF)
        return draft

    def fill_work(self, work: Job | Script) -> None:
        """Take over a script, or the settings of a job."""
        # As long as a program stands there, the form is one of a script.
        self.texts.pop(script_fields.WORDS, None)
        if isinstance(work, Script):
            self._set_texts(script_fields.format_script(work))
            return
        # In order: the default of the learning rate depends on the model.
        self._set_texts({name: format_value(getattr(work, name)) for name in setting_fields()})
        for name, value in vars(work.sync_options()).items():
            self.set_text(f"{work.sync}.{name}", format_value(value))

    def fill_policy(self, policy: Policy) -> None:
        """Take over a policy."""
        self._set_texts(format_policy(policy))

    # Fields

    @property
    def is_script(self) -> bool:
        """Return True if a script is to run in place of a job."""
        return bool(self.get_text(script_fields.WORDS).strip())

    def groups(self) -> dict[str, tuple[FormField, ...]]:
        """Return the fields that are shown, by the names of their groups."""
        policy = tuple(policy_fields(self.keep).values())
        if self.is_script:
            script = script_fields.FIELDS
            return {script_fields.GROUP: script, HOSTS: self._host_fields, POLICY: policy}
        main = tuple(self._fields[name] for name in MAIN_SETTINGS)
        groups = {MAIN: main, HOSTS: self._host_fields}
        groups[METHOD_OPTIONS] = tuple(self._option_fields())
        for name, settings in jobs.field_groups().items():
            groups[name] = self._other_fields(settings)
        groups[POLICY] = policy
        # The other fields of a script have no effect without one.
        groups[script_fields.NO_SCRIPT] = script_fields.FIELDS[:1]
        return {name: fields for name, fields in groups.items() if fields}

    def _other_fields(self, settings: Iterable[dataclasses.Field[Any]]) -> tuple[FormField, ...]:
        """Return the fields of a group of settings but for those that stand elsewhere."""
        elsewhere = (*MAIN_SETTINGS, OPTIONS)
        return tuple(
            self._fields[setting.name] for setting in settings if setting.name not in elsewhere
        )

    def _option_fields(self) -> list[FormField]:
        """Return the options of the chosen method that have an effect, or are changed."""
        method = self.get_text("sync")
        with suppress(UnknownName):
            pairs = zip(method_fields(method), options.declared_options(method), strict=True)
            return [
                field
                for field, option in pairs
                if field.name in self.texts or self._has_effect(method, option)
            ]
        return []

    def _has_effect(self, method: str, option: options.Option) -> bool:
        """Return True if the values of other options let this one have an effect."""
        return all(
            self.get_text(f"{method}.{other}") in map(format_value, values)
            for other, values in option.requires.items()
        )

    def get_default(self, name: str) -> str:
        """Return the text that a field has if nobody changes it."""
        if name == "lr":
            with suppress(UnknownName):
                return format_value(jobs.usual_lr(self.get_text("model")))
        if name not in self._fields:
            method = name.partition(".")[0]
            self._fields |= {field.name: field for field in method_fields(method)}
        return self._fields[name].default

    def get_text(self, name: str) -> str:
        """Return the text of a field."""
        return self.texts[name] if name in self.texts else self.get_default(name)

    def set_text(self, name: str, text: str) -> None:
        """Change the text of a field."""
        self.texts.pop(name, None)
        if text != self.get_default(name):
            self.texts[name] = text

    def _set_texts(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            self.set_text(name, text)

    def count_changed(self, group: str) -> int:
        """Return how many fields of a group are changed."""
        return sum(field.name in self.texts for field in self.groups().get(group, ()))

    # What they amount to

    def check(self, make_plan: MakePlan) -> CheckedDraft:
        """Return the run that the form describes, or all mistakes that are found."""
        mistakes: list[FieldMistake] = []
        # Each part by itself, so that all mistakes are shown at once.
        with self._collecting(mistakes):
            cluster = self._parse_hosts()
        with self._collecting(mistakes):
            work = self.parse_work()
        with self._collecting(mistakes):
            policy = parse_policy(self.get_policy_texts(), self.keep)
        if not mistakes:
            with self._collecting(mistakes):
                plan = make_plan(cluster, work, policy)
                return CheckedDraft(ReadyRun(cluster, work, policy, plan))
        return CheckedDraft(mistakes=tuple(sorted(mistakes, key=self._rank_by_row)))

    def _rank_by_row(self, mistake: FieldMistake) -> int:
        """Return the place of the field of a mistake in the form; others come last."""
        names = []
        for group, fields in self.groups().items():
            names += [group, *(field.name for field in fields)]
        return names.index(mistake.field) if mistake.field in names else len(names)

    @contextmanager
    def _collecting(self, mistakes: list[FieldMistake]) -> Iterator[None]:
        """Add the mistakes of an error to a list, each with its field, and go on."""
        try:
            yield
        except MistakeError as error:
            mistakes += map(self._place, error.mistakes)

    def _place(self, mistake: Mistake) -> FieldMistake:
        """Find the field of a mistake by its flag."""
        # A switch has two flags, but one field.
        flag = mistake.field_flag.replace("--no-", "--", 1)
        if flag.endswith(OPTION_FLAG):
            option = mistake.value.partition("=")[0]
            flag = f"{OPTION_FLAG} {option}"
        fields = [field for fields in self.groups().values() for field in fields]
        # The first field of a flag counts. A host has none.
        by_flag = {field.flag: field for field in reversed(fields) if field.flag}
        if flag in by_flag:
            field = by_flag[flag]
            label = field.label if mistake.flag else ""
            return FieldMistake(field.name, mistake, label, self.get_text(field.name).strip())
        return FieldMistake(HOSTS if flag == HOSTS else "", mistake)

    def parse_work(self) -> Job | Script:
        """Return the script or the job of the form. Raises: JobError, PlanError."""
        if self.is_script:
            return script_fields.parse_script(self.get_text)
        mistakes: list[Mistake] = []
        values: dict[str, Any] = {OPTIONS: self._format_options()}
        for name, field in setting_fields().items():
            try:
                values[name] = field.parse(self.get_text(name))
            except JobError as error:
                mistakes += error.mistakes
        mistakes += jobs.find_mistakes(values)
        if mistakes:
            raise JobError(*mistakes)
        return Job(**values)

    def _format_options(self) -> tuple[str, ...]:
        """Return the options of the method that are changed, as `Job` has them."""
        changed = [field for field in self._option_fields() if field.name in self.texts]
        return tuple(format_option(field.label, self.texts[field.name]) for field in changed)

    def get_policy_texts(self) -> dict[str, str]:
        """Return the texts of the fields of the policy, by name."""
        names = [field.name for field in policy_fields(self.keep).values()]
        return {name: self.get_text(name) for name in names}

    def _parse_hosts(self) -> Cluster:
        """Return the hosts that are chosen. Raises: HostsError, PlanError."""
        if RANKS in self.hosts:
            chosen = [self._parse_ranks(self.hosts[RANKS])]
        else:
            chosen = [host for name, host in self.hosts.items() if self.get_text(name) == ON]
        if not chosen:
            hint = "choose one, with space"
            raise HostsError(Mistake(problem="no host is chosen", hint=hint, about=HOSTS))
        cwd = self.get_text(script_fields.CWD).strip() if self.is_script else ""
        return with_cwd(replace(self.cluster, hosts=tuple(chosen)), cwd)

    def _parse_ranks(self, host: Host) -> Host:
        text = self.get_text(RANKS).strip()
        if not text.isdecimal() or not int(text):
            raise HostsError(Mistake(RANKS, repr(text), hint="write a whole number, at least 1"))
        try:
            return with_slots(host, int(text))
        except HostsError as error:
            # The mistake is about a host, which has no field of its own here.
            raise HostsError(replace(error.mistakes[0], about=RANKS)) from None


def _make_host_field(name: str, host: Host) -> FormField:
    """Return the switch of a host; of the only one without a file, the number of its ranks."""
    if name == RANKS:
        help = f"number of ranks on {host.name}"
        return FormField(RANKS, RANKS, help, str(host.slots), kind=int, flag=RANKS)
    return FormField(name, host.name, "whether the host takes part", ON, SWITCH, bool)

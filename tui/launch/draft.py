"""What stands in the launch form, as texts, and the run that it amounts to."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from remote.cluster.hosts import Cluster, Host, HostsError, with_slots
from remote.plan.plan import Plan, Policy, Script
from training import job as jobs
from training import options
from training.job import Job, JobError
from training.mistake import Mistake, MistakeError
from training.registry import UnknownName
from tui.flags.script import with_cwd
from tui.kit.runs import MakePlan
from tui.launch import script_fields
from tui.launch.form_fields import (
    OFF,
    ON,
    OPTION_FLAG,
    OPTIONS,
    SETTINGS,
    SWITCH,
    FormField,
    format_option,
    format_policy,
    format_value,
    make_method_fields,
    make_policy_fields,
    make_setting_field,
    parse_policy,
    parse_setting,
)

HOSTS = "hosts"
POLICY = "failures and disconnects"
"""The names of the first group and of the last."""
RANKS = "ranks"
"""The field that takes the place of the list of hosts if there is only one."""


@dataclass(frozen=True)
class FieldMistake:
    """A mistake that keeps the run from starting, and where it is."""

    field: str
    """The name of its field or group; "" if it has none."""
    mistake: Mistake

    @property
    def text(self) -> str:
        """Return the mistake in words."""
        return str(self.mistake)

    @property
    def short(self) -> str:
        """Return the words beside its field, which shows flag and value itself."""
        return self.mistake.without_flag if self.field else self.text


@dataclass(frozen=True)
class ReadyRun:
    """A run that can be started."""

    plan: Plan
    cluster: Cluster
    """The hosts that are chosen."""
    work: Job | Script
    """The work as the form says it; in the plan, a run to resume may be replaced by its folder."""
    policy: Policy


@dataclass(frozen=True)
class CheckedDraft:
    """What the texts amount to: a run, or mistakes."""

    ready: ReadyRun | None = None
    mistakes: tuple[FieldMistake, ...] = ()


@dataclass
class LaunchDraft:
    """The texts of the launch form."""

    cluster: Cluster
    """All hosts that can be chosen."""
    keep: bool = False
    """The default of --on-disconnect."""
    texts: dict[str, str] = dataclasses.field(default_factory=dict)
    """The texts of the fields that differ from their defaults, by the names of the fields."""

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
        if len(cluster.hosts) == 1:
            draft.set_text(RANKS, str(selected.hosts[0].slots))
            return draft
        for number, host in enumerate(cluster.hosts):
            draft.set_text(f"host.{number}", ON if host in selected.hosts else OFF)
        return draft

    def fill_work(self, work: Job | Script) -> None:
        """Take over a script, or the settings of a job."""
        self.texts.pop(script_fields.WORDS, None)
        if isinstance(work, Script):
            for name, text in script_fields.format_script(work).items():
                self.set_text(name, text)
            return
        names = [name for name in SETTINGS if name != OPTIONS]
        for name in names:
            self.texts.pop(name, None)
        for name in names:  # in order: the default of the learning rate depends on the model
            self.set_text(name, format_value(getattr(work, name)))
        for name, value in vars(work.sync_options()).items():
            self.set_text(f"{work.sync}.{name}", format_value(value))

    def fill_policy(self, policy: Policy) -> None:
        """Take over a policy."""
        for name, text in format_policy(policy).items():
            self.set_text(name, text)

    # Fields

    @property
    def is_script(self) -> bool:
        """Return True if a script is to run in place of a job."""
        return bool(self.get_text(script_fields.WORDS).strip())

    def groups(self) -> dict[str, tuple[FormField, ...]]:
        """Return the fields that are shown, by the names of their groups."""
        if self.is_script:
            groups = {HOSTS: self._host_fields(), script_fields.GROUP: script_fields.FIELDS}
        else:
            # All but the first have no effect without a script.
            groups = {HOSTS: self._host_fields(), script_fields.GROUP: script_fields.FIELDS[:1]}
            for name, settings in jobs.field_groups().items():
                groups[name] = self._setting_fields(settings)
        groups[POLICY] = make_policy_fields(self.keep)
        return groups

    def _setting_fields(self, settings: tuple[Any, ...]) -> tuple[FormField, ...]:
        """Return the fields of a group of settings; the options of a method follow it."""
        fields: list[FormField] = []
        for setting in settings:
            if setting.name == OPTIONS:
                fields += self._option_fields()
            else:
                fields.append(make_setting_field(setting))
        return tuple(fields)

    def _host_fields(self) -> tuple[FormField, ...]:
        """Return a switch per host; for a single host, the number of its ranks."""
        hosts = self.cluster.hosts
        if len(hosts) == 1:
            help = f"number of ranks on {hosts[0].name}"
            default = str(hosts[0].slots)
            return (FormField(RANKS, RANKS, help, default, is_numeric=True, flag=RANKS),)
        return tuple(
            FormField(f"host.{number}", host.name, "whether the host takes part", ON, SWITCH)
            for number, host in enumerate(hosts)
        )

    def find_host(self, name: str) -> Host | None:
        """Return the host that a field is about, if it is about one."""
        if name.startswith("host."):
            return self.cluster.hosts[int(name.removeprefix("host."))]
        return self.cluster.hosts[0] if name == RANKS else None

    def _option_fields(self) -> list[FormField]:
        """Return the options of the chosen method that have an effect, or are changed."""
        method = self.get_text("sync")
        fields: list[FormField] = []
        with suppress(UnknownName):
            pairs = zip(make_method_fields(method), options.declared_options(method), strict=True)
            for field, option in pairs:
                if field.name in self.texts or self._has_effect(method, option):
                    fields.append(field)
        return fields

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
        return self._find_field(name).default

    def _find_field(self, name: str) -> FormField:
        """Return a field by its name, also if it is not shown."""
        if name in SETTINGS:
            return make_setting_field(SETTINGS[name])
        prefix = name.partition(".")[0]
        if prefix == "policy":
            fields = make_policy_fields(self.keep)
        elif prefix in ("host", RANKS):
            fields = self._host_fields()
        elif prefix == "program":
            fields = script_fields.FIELDS
        else:
            fields = make_method_fields(prefix)
        return next(field for field in fields if field.name == name)

    def get_text(self, name: str) -> str:
        """Return the text of a field."""
        return self.texts[name] if name in self.texts else self.get_default(name)

    def set_text(self, name: str, text: str) -> None:
        """Change the text of a field."""
        self.texts.pop(name, None)
        if text != self.get_default(name):
            self.texts[name] = text

    def count_changed(self, group: str) -> int:
        """Return how many fields of a group are changed."""
        fields = self.groups().get(group, ())
        return sum(field.name in self.texts for field in fields)

    # What they amount to

    def check(self, make_plan: MakePlan) -> CheckedDraft:
        """Return the run that the form describes, or all mistakes that are found."""
        mistakes: list[FieldMistake] = []
        with self._collecting(mistakes):
            cluster = self._parse_hosts()
        with self._collecting(mistakes):
            work = self.parse_work()
        with self._collecting(mistakes):
            policy = parse_policy(self.get_policy_texts(), self.keep)
        if not mistakes:
            with self._collecting(mistakes):
                plan = make_plan(cluster, work, policy)
                return CheckedDraft(ReadyRun(plan, cluster, work, policy))
        return CheckedDraft(mistakes=tuple(mistakes))

    @contextmanager
    def _collecting(self, mistakes: list[FieldMistake]) -> Iterator[None]:
        """Add the mistakes of an error to a list, each with its field, and go on."""
        try:
            yield
        except MistakeError as error:
            mistakes += [self._place(mistake) for mistake in error.mistakes]

    def _place(self, mistake: Mistake) -> FieldMistake:
        """Find the field of a mistake by its flag."""
        flag = mistake.field_flag.replace("--no-", "--", 1)
        if flag == HOSTS:
            return FieldMistake(HOSTS, mistake)
        if flag.endswith(OPTION_FLAG):
            option = mistake.value.partition("=")[0]
            flag = f"{OPTION_FLAG} {option}"
        for fields in self.groups().values():
            for field in fields:
                if flag and field.flag == flag:
                    return FieldMistake(field.name, mistake)
        return FieldMistake("", mistake)

    def parse_work(self) -> Job | Script:
        """Return the script or the job of the form. Raises: JobError, PlanError."""
        if self.is_script:
            return script_fields.parse_script(self.get_text)
        mistakes: list[Mistake] = []
        values: dict[str, Any] = {OPTIONS: self._format_options()}
        for name, setting in SETTINGS.items():
            if name == OPTIONS:
                continue
            try:
                values[name] = parse_setting(setting, self.get_text(name))
            except JobError as error:
                mistakes += error.mistakes
        mistakes += jobs.find_mistakes(values)
        if mistakes:
            raise JobError(*sorted(mistakes, key=_rank_by_field))
        return Job(**values)

    def _format_options(self) -> tuple[str, ...]:
        """Return the options of the method that are changed, as `Job` has them."""
        return tuple(
            format_option(field.label, self.get_text(field.name))
            for field in self._option_fields()
            if field.name in self.texts
        )

    def get_policy_texts(self) -> dict[str, str]:
        """Return the texts of the fields of the policy, by name."""
        return {field.name: self.get_text(field.name) for field in make_policy_fields(self.keep)}

    def _parse_hosts(self) -> Cluster:
        """Return the hosts that are chosen. Raises: HostsError, PlanError."""
        hosts = self.cluster.hosts
        chosen = [self._parse_ranks(hosts[0])] if len(hosts) == 1 else self._parse_ticks()
        cluster = replace(self.cluster, hosts=tuple(chosen))
        return with_cwd(cluster, self.get_text(script_fields.CWD).strip() if self.is_script else "")

    def _parse_ticks(self) -> list[Host]:
        hosts = enumerate(self.cluster.hosts)
        ticked = [host for number, host in hosts if self.get_text(f"host.{number}") == ON]
        if not ticked:
            problem = "no host is chosen"
            raise HostsError(Mistake(problem=problem, hint="choose one, with space", about=HOSTS))
        return ticked

    def _parse_ranks(self, host: Host) -> Host:
        text = self.get_text(RANKS).strip()
        if not text.isdecimal() or not int(text):
            raise HostsError(Mistake(RANKS, repr(text), hint="write a whole number, at least 1"))
        try:
            return with_slots(host, int(text))
        except HostsError as error:
            raise HostsError(replace(error.mistakes[0], about=RANKS)) from None


def _rank_by_field(mistake: Mistake) -> int:
    """Return the place of the field of a mistake in the form; others come last."""
    flags = [jobs.flag(setting) for setting in SETTINGS.values()]
    return flags.index(mistake.flag) if mistake.flag in flags else len(flags)

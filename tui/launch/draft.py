"""What stands in the launch form, as texts, and what they amount to. Pure."""

from __future__ import annotations

import re
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from remote.cluster.hosts import Cluster, Host, with_slots
from remote.plan.plan import Plan, PlanError, Policy, Script
from training import job as jobs
from training import options
from training.job import Job, JobError
from training.options import OptionError
from training.registry import UnknownName
from tui.flags.script import with_cwd
from tui.kit.runs import MakePlan
from tui.launch import program
from tui.launch.field import (
    OFF,
    ON,
    OPTIONS,
    SETTINGS,
    SWITCH,
    Field,
    of_method,
    of_policy,
    of_setting,
    option_word,
    read_policy,
    read_setting,
    write,
    write_policy,
)

HOSTS = "hosts"
POLICY = "failures and disconnects"
"""The names of the first group and of the last."""
RANKS = "ranks"
"""The field that takes the place of the list of hosts where there is only one."""
FLAG = re.compile(r"--([a-z][a-z-]*)")
OPTION = re.compile(r"--sync-option (\w+)")
GIVEN = re.compile(r"(--sync \S+ --sync-option \S+|--[\w-]+ ('[^']*'|\S+)|\w+=\S*): ")
"""What an error begins with that only repeats the field and its text."""


@dataclass(frozen=True)
class FieldMistake:
    """What hinders the start. `field` is the field where it is, "" where it is in none."""

    field: str
    text: str

    @property
    def short(self) -> str:
        """The text, without the field and the value that it stands beside."""
        found = GIVEN.match(self.text) if self.field else None
        return self.text[found.end() :] if found else self.text


@dataclass(frozen=True)
class Checked:
    """What the texts amount to: a plan, or mistakes."""

    plan: Plan | None = None
    cluster: Cluster | None = None
    policy: Policy = field(default_factory=Policy)
    mistakes: tuple[FieldMistake, ...] = ()


@dataclass
class Draft:
    """The form. `texts` are those of the fields that differ from their defaults, by name. `keep` is
    the default of --on-disconnect."""

    cluster: Cluster
    keep: bool = False
    texts: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        selected: Cluster,
        work: Job | Script,
        policy: Policy,
        keep: bool,
        cwd: str = "",
    ) -> Draft:
        """The form of work on the `selected` hosts of a cluster. `cwd`: where a program works."""
        draft = cls(cluster, keep)
        draft.fill(work)
        draft.set(program.CWD, cwd if isinstance(work, Script) else "")
        draft.fill_policy(policy)
        if len(cluster.hosts) == 1:
            draft.set(RANKS, str(selected.hosts[0].slots))
        else:
            for number, host in enumerate(cluster.hosts):
                draft.set(f"host.{number}", ON if host in selected.hosts else OFF)
        return draft

    def fill(self, work: Job | Script) -> None:
        """Take a program, or the settings of a job."""
        self.texts.pop(program.WORDS, None)
        if isinstance(work, Script):
            for name, text in program.write(work).items():
                self.set(name, text)
            return
        job = work
        for name in SETTINGS.keys() - {OPTIONS}:
            self.texts.pop(name, None)
        for name in SETTINGS:  # the model before its learning rate
            if name != OPTIONS:
                self.set(name, write(getattr(job, name)))
        values = vars(job.sync_options())
        for name, value in values.items():
            self.set(f"{job.sync}.{name}", write(value))

    def fill_policy(self, policy: Policy) -> None:
        """Take the settings of a policy."""
        for name, text in write_policy(policy).items():
            self.set(name, text)

    # Fields

    def groups(self) -> dict[str, tuple[Field, ...]]:
        """The fields, by the names of their groups."""
        found = {HOSTS: self._hosts(), program.GROUP: program.of_program(self.is_program)}
        if self.is_program:
            return found | {POLICY: of_policy(self.keep)}
        for name, settings in jobs.groups().items():
            shown = [of_setting(setting) for setting in settings if setting.name != OPTIONS]
            at = next((at for at, one in enumerate(shown, 1) if one.name == "sync"), 0)
            found[name] = (*shown[:at], *(self._options() if at else ()), *shown[at:])
        return found | {POLICY: of_policy(self.keep)}

    @property
    def is_program(self) -> bool:
        """Whether a program of the user's own is to run."""
        return bool(self.text(program.WORDS).strip())

    def _hosts(self) -> tuple[Field, ...]:
        """One switch per host; where there is one host only, the number of its ranks."""
        hosts = self.cluster.hosts
        if len(hosts) == 1:
            help = f"number of ranks on {hosts[0].name}"
            return (Field(RANKS, RANKS, help, str(hosts[0].slots), numeric=True),)
        return tuple(
            Field(f"host.{number}", host.name, "whether the host takes part", ON, SWITCH)
            for number, host in enumerate(hosts)
        )

    def host(self, name: str) -> Host | None:
        """The host that a field is about; None of any other field."""
        if name.startswith("host."):
            return self.cluster.hosts[int(name.removeprefix("host."))]
        return self.cluster.hosts[0] if name == RANKS else None

    def _options(self) -> tuple[Field, ...]:
        """The options of the chosen method; those that have no effect only where they are
        changed."""
        method = self.text("sync")
        with suppress(UnknownName):
            return tuple(
                field
                for field, option in zip(of_method(method), options.declared(method), strict=True)
                if field.name in self.texts or self._has_effect(method, option)
            )
        return ()

    def _has_effect(self, method: str, option: options.Option) -> bool:
        """Whether the values of other options let this one have an effect."""
        return all(
            self.text(f"{method}.{other}") in map(write, values)
            for other, values in option.requires.items()
        )

    def default(self, name: str) -> str:
        """The text of a field that nobody has changed."""
        if name == "lr":
            with suppress(UnknownName):
                return write(jobs.usual_lr(self.text("model")))
        return self._field(name).default

    def _field(self, name: str) -> Field:
        if name in SETTINGS:
            return of_setting(SETTINGS[name])
        method = name.partition(".")[0]
        known = {
            "policy": of_policy(self.keep),
            "host": self._hosts(),
            RANKS: self._hosts(),
            "program": program.FIELDS,
        }
        fields = known[method] if method in known else of_method(method)
        return next(one for one in fields if one.name == name)

    def text(self, name: str) -> str:
        """The text of a field."""
        return self.texts[name] if name in self.texts else self.default(name)

    def set(self, name: str, text: str) -> None:
        """Change the text of a field."""
        self.texts.pop(name, None)
        if text != self.default(name):
            self.texts[name] = text

    def changed(self, group: str) -> int:
        """How many fields of a group are changed."""
        return sum(one.name in self.texts for one in self.groups().get(group, ()))

    # What they amount to

    def check(self, make_plan: MakePlan) -> Checked:
        """The plan of what the form says, or why there is none."""
        mistakes: dict[str, FieldMistake] = {}
        cluster = self._chosen(mistakes)
        settings = {} if self.is_program else self._settings(mistakes)
        policy = self._policy(mistakes)
        if mistakes or cluster is None or policy is None:
            return Checked(mistakes=tuple(mistakes.values()))
        try:
            if self.is_program:
                cluster = with_cwd(cluster, self.text(program.CWD).strip())
                plan = make_plan(cluster, program.read(self.text), policy)
            else:
                plan = make_plan(cluster, Job(**settings), policy)
        except (JobError, PlanError) as error:
            return Checked(mistakes=tuple(map(self._placed, str(error).splitlines())))
        return Checked(plan, cluster, policy)

    def work(self) -> Job | Script | None:
        """The program or the job of the form; None where something in it is wrong."""
        if not self.is_program:
            return self.job()
        with suppress(PlanError):
            return program.read(self.text)
        return None

    def job(self) -> Job | None:
        """The job of the form; None where a setting is wrong."""
        mistakes: dict[str, FieldMistake] = {}
        settings = self._settings(mistakes)
        with suppress(JobError):
            return None if mistakes else Job(**settings)
        return None

    def _settings(self, mistakes: dict[str, FieldMistake]) -> dict[str, Any]:
        """The settings of the job, each checked on its own."""
        found: dict[str, Any] = {OPTIONS: self._words(mistakes)}
        for name, setting in SETTINGS.items():
            if name == OPTIONS:
                continue
            try:
                found[name] = read_setting(setting, self.text(name))
            except JobError as error:
                mistakes[name] = FieldMistake(name, str(error))
        return found

    def _words(self, mistakes: dict[str, FieldMistake]) -> tuple[str, ...]:
        """The options of the method that are changed, as `Job` has them."""
        words = []
        for one in self._options():
            if one.name not in self.texts:
                continue
            word = option_word(one.label, self.text(one.name))
            try:
                options.parse(options.declared(self.text("sync")), (word,))
            except OptionError as error:
                mistakes[one.name] = FieldMistake(one.name, str(error))
            words.append(word)
        return tuple(words)

    def policy_texts(self) -> dict[str, str]:
        """The texts of the fields of the policy."""
        return {one.name: self.text(one.name) for one in of_policy(self.keep)}

    def _policy(self, mistakes: dict[str, FieldMistake]) -> Policy | None:
        try:
            return read_policy(self.policy_texts(), self.keep)
        except (JobError, PlanError) as error:
            for line in str(error).splitlines():
                placed = self._placed(line)
                mistakes.setdefault(placed.field, placed)
        return None

    def _chosen(self, mistakes: dict[str, FieldMistake]) -> Cluster | None:
        """The hosts of the form."""
        hosts = self.cluster.hosts
        if len(hosts) > 1:
            ticked = tuple(
                host for number, host in enumerate(hosts) if self.text(f"host.{number}") == ON
            )
            if not ticked:
                mistakes[HOSTS] = FieldMistake(HOSTS, "no host is chosen: choose one, with space")
            return replace(self.cluster, hosts=ticked)
        text = self.text(RANKS).strip()
        if not text.isdecimal() or not int(text):
            said = f"ranks {text!r}: write a whole number, at least 1"
            mistakes[RANKS] = FieldMistake(RANKS, said)
            return None
        try:
            return replace(self.cluster, hosts=(with_slots(hosts[0], int(text)),))
        except ValueError as error:
            mistakes[RANKS] = FieldMistake(RANKS, str(error))
            return None

    def _placed(self, text: str) -> FieldMistake:
        """A mistake in the field that its text names first."""
        shown = {one.name for fields in self.groups().values() for one in fields}
        found = OPTION.search(text)
        if found:
            name = f"{self.text('sync')}.{found[1]}"
            if name in shown:
                return FieldMistake(name, text)
        for found in FLAG.finditer(text):
            name = found[1].removeprefix("no-").replace("-", "_")
            name = {"program": "words", "min_hosts": "min_nodes"}.get(name, name)
            for known in (name, f"program.{name}", f"policy.{name}"):
                if known in shown:
                    return FieldMistake(known, text)
        return FieldMistake("", text)

"""A study in an archive, and how to repeat it where the archive is unpacked."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from remote.cluster.hosts import HOSTS_FILE, Host
from remote.cluster.shared_hosts import SharedHosts, share_hosts
from remote.format import count
from remote.record.read import load_plan
from remote.study.folder import StudyCall
from remote.study.repeat import FOLDER_OF_DATA, to_flags, write_study_as_run
from tui.report.subject import ReportSubject

CONFIGURATION = "configuration"
CODE = "code"
SLURM = "slurm"
LOCAL_OPTION = "local"
"""The option for hosts that are this machine."""


@dataclass(frozen=True)
class PackedStudy:
    """A study in an archive. Names of files are relative to `configuration/`."""

    name: str
    text: str
    """Its file, with all settings as it was run."""
    nodes: int
    """The most hosts of any of its runs."""
    host_options: tuple[str, ...] = ()
    """The options that choose its hosts; () if a hosts file does."""
    hosts_file: str = HOSTS_FILE
    hosts: tuple[Host, ...] = ()
    """The hosts of its runs, as far as they are known."""
    shared_hosts: SharedHosts | None = None
    """The hosts file; None if none is needed, or no run says what the hosts are."""
    is_of_script: bool = False
    has_script: bool = False
    """True if the archive has the script that the study starts."""
    names_data_folder: bool = False
    """True if the command line said where the data are."""

    @property
    def files(self) -> dict[str, str]:
        """Return the texts of its files by name."""
        texts = {f"{self.name}.toml": self.text}
        if self.shared_hosts:
            texts[self.hosts_file] = self.shared_hosts.text
        return texts

    @property
    def command(self) -> str:
        """Return the command that repeats it, for the folder into which the archive unpacks."""
        # A script is named by its path from the folder that the ranks work in.
        folder = f"../{CONFIGURATION}" if self.has_script else CONFIGURATION
        host_options = self.host_options or ("--hosts", f"{folder}/{self.hosts_file}")
        words = ["rankboard", "study", f"{folder}/{self.name}.toml", *host_options]
        command = shlex.join(words)
        return f"(cd {CODE} && {command})" if self.has_script else command

    def remarks(self) -> Iterator[str]:
        """Yield what there is to do before the command is entered."""
        hosts_path = f"{CONFIGURATION}/{self.hosts_file}"
        if SLURM in (option.removeprefix("--") for option in self.host_options):
            yield f"Start it in a Slurm job with {count(self.nodes, 'node')}."
        elif not self.host_options and self.shared_hosts is None:
            yield (
                f"No run says on which hosts it was made: write {hosts_path} with "
                f"{count(self.nodes, 'host')}."
            )
        elif self.shared_hosts:
            if self.shared_hosts.missing_keys:
                missing_keys = ", ".join(self.shared_hosts.missing_keys)
                yield (
                    f"What is private was left out of {hosts_path}: {missing_keys}. Write there "
                    "what your hosts need."
                )
            if len(self.hosts) < self.nodes:
                yield (
                    f"{hosts_path} has {len(self.hosts)} of {count(self.nodes, 'host')}: the runs "
                    "on more were not made. Add the others."
                )
        if self.names_data_folder:
            yield "The data were in a folder of their own: add --data-dir with yours."
        if self.has_script:
            yield (
                f"{CODE}/ has the script alone: put what it imports or reads beside it, as far as "
                "your hosts do not have it."
            )
        elif self.is_of_script:
            yield "The script is not in the archive: your hosts need it at the same path."


def pack_studies(
    subjects: Sequence[ReportSubject], calls: Mapping[str, StudyCall], packed_runs: set[str]
) -> list[PackedStudy]:
    """Return the studies among these subjects. `calls` has how each was called, by its name.

    `packed_runs` are the runs whose scripts the archive has.
    """
    studies = [
        _pack_study(subject, calls[subject.name], packed_runs)
        for subject in subjects
        if subject.name in calls
    ]
    hosts_texts = {study.shared_hosts.text for study in studies if study.shared_hosts}
    # A study may be called hosts, and then its own file has this name.
    if len(hosts_texts) > 1 or any(f"{study.name}.toml" == HOSTS_FILE for study in studies):
        studies = [replace(study, hosts_file=f"{study.name}-{HOSTS_FILE}") for study in studies]
    return studies


def _pack_study(subject: ReportSubject, call: StudyCall, packed_runs: set[str]) -> PackedStudy:
    study = subject.study
    has_script = any(run.name in packed_runs for run in subject.runs)
    packed_study = PackedStudy(
        name=subject.name,
        text=write_study_as_run(call),
        nodes=study.most_nodes if study else 1,
        is_of_script=study is not None and study.is_of_script,
        has_script=has_script,
        names_data_folder=FOLDER_OF_DATA in call.given,
    )
    if LOCAL_OPTION in call.places:
        return replace(packed_study, host_options=tuple(to_flags(call.places)))
    hosts, has_uploads = _find_hosts(subject)
    if SLURM in call.places or (hosts and all(host.transport == SLURM for host in hosts)):
        return replace(packed_study, host_options=(f"--{SLURM}",))
    if not hosts:
        return packed_study
    sync = [f"../{CODE}"] if has_script and has_uploads else []
    return replace(packed_study, hosts=hosts, shared_hosts=share_hosts(hosts, sync))


def _find_hosts(subject: ReportSubject) -> tuple[tuple[Host, ...], bool]:
    """Return the hosts of the runs in rank order, and whether files were uploaded to them."""
    hosts: dict[str, Host] = {}
    has_uploads = False
    # The order of the hosts is that of the largest run, which has most of them.
    for run in sorted(subject.runs, key=lambda run: run.nodes, reverse=True):
        plan = load_plan(run.folder)
        has_uploads |= bool(plan.uploads)
        for host in plan.hosts:
            hosts.setdefault(host.name, host)
    return tuple(hosts.values()), has_uploads

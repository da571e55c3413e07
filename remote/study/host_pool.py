"""The hosts on which the cells of a study run: those of a hosts file, or labs and processes of this
machine."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from types import TracebackType

from remote.cluster.hosts import Cluster, Host
from remote.format import count
from remote.lab.lab import Lab
from remote.lab.spec import LabError, parse
from remote.launch import check_data
from remote.plan.place import is_loopback
from remote.study.study import Cell, CellPlace, Study, StudyError
from remote.transport import Transport
from remote.transport.registry import Transports, is_here
from remote.transport.warm import WarmTransport
from training.agent.local_api import usable_cores

AS_IT_IS = "as it is"
"""The label of an axis that only a lab can vary."""
WARM = 2
"""The labs whose hosts stay warm: each host keeps some 400 MB of this machine's memory."""
FASTEST = "10gbit"
"""The link of a lab where only its cores are limited."""


def without_labs(study: Study) -> Study:
    """The study on hosts of a file: links and cores are as they are, and cells that differ in
    nothing else are one."""
    cells: dict[str, Cell] = {}
    for cell in study.cells:
        place = replace(cell.place, link="", cpus="")
        labels = tuple(
            (axis, AS_IT_IS if _is_shape(study, axis) else label) for axis, label in cell.labels
        )
        fitted = replace(cell, labels=labels, place=place)
        cells.setdefault(fitted.key, fitted)
    return replace(study, cells=tuple(cells.values()))


@dataclass
class HostPool:
    """Finds hosts for each place. Transports and labs stay open until it is closed, so that the
    next run finds them, and finds its hosts warm.

    `cluster` are the selected hosts. `link` and `cpus` are those of a lab on this machine where the
    place names none; without either the hosts are reached as the cluster says.
    """

    cluster: Cluster
    link: str = ""
    cpus: str = ""
    _open: ExitStack = field(default_factory=ExitStack)
    _reached: dict[tuple[str, str], tuple[tuple[Host, ...], WarmTransport]] = field(
        default_factory=dict
    )

    def fitted(self, study: Study) -> Study:
        """The study as it can be made here."""
        return study if is_here(self.cluster.hosts) else without_labs(study)

    def check(self, study: Study) -> None:
        """Check that each cell can run here. Raises: StudyError, with all mistakes."""
        here = is_here(self.cluster.hosts)
        mistakes = []
        available = len(self.cluster.hosts)
        needed = max(cell.place.nodes for cell in study.cells)
        if needed > available:
            what = f"start it with --local {needed}" if here else f"add hosts to {self._file}"
            mistakes.append(
                f"{study.name} needs {count(needed, 'host')}, and there "
                f"{'is' if available == 1 else 'are'} {available}: {what}, or change nodes"
            )
        wires = {self._wires(cell.place) for cell in study.cells} - {("", "")}
        for link, cpus in sorted(wires):
            try:
                parse(available, link, cpus)
            except LabError as error:
                mistakes.append(f"{study.name}: {error}")
        if mistakes:
            raise StudyError("\n".join(mistakes))

    def find_data(self, study: Study) -> list[str]:
        """Look for the data sets of all cells, where they are to be on this machine. Returns what
        the runs will have to fetch, in words. Raises: PlanError, where one cannot be had."""
        if not is_here(self.cluster.hosts):
            return []
        jobs = {(job.dataset, job.data_dir): job for cell in study.cells if (job := cell.job)}
        findings = [(job, check_data(job)) for job in jobs.values()]
        return [
            f"{job.dataset} is not in {job.data_dir}: the first run has to {finding.text} for it"
            for job, finding in findings
            if finding.is_download
        ]

    def reach(self, place: CellPlace, most_nodes: int = 0) -> tuple[Cluster, Transport]:
        """The hosts of a place, and the transport to them. `most_nodes` are those of the largest
        run with which runs here are compared. Raises: LabError."""
        wires = self._wires(place)
        is_new = wires not in self._reached
        hosts, transport = self._reach(*wires) if is_new else self._reached.pop(wires)
        self._reached[wires] = hosts, transport  # the last one is the one used last
        for _, warm in list(self._reached.values())[:-WARM]:
            warm.cool()
        chosen = tuple(
            replace(
                host,
                slots=place.processes,
                threads=_threads(host, place.processes) or self._share(place, most_nodes),
            )
            for host in hosts[: place.nodes]
        )
        return replace(self.cluster, hosts=chosen), transport

    def _share(self, place: CellPlace, most_nodes: int) -> int:
        """The threads of a rank where all hosts are this machine: each host has the same share of
        the cores in all runs, so that more hosts have more cores, as separate machines would. 0
        where they are not, and the cores of each are its own."""
        if not self._is_this_machine:
            return 0
        hosts = max(place.nodes, most_nodes)
        return max(1, int(usable_cores()) // (hosts * place.processes))

    @property
    def _is_this_machine(self) -> bool:
        """Whether all hosts are this machine, as far as their addresses say."""
        hosts = self.cluster.hosts
        return is_here(hosts) or all(map(_is_loopback, hosts))

    def thread_remarks(self, study: Study) -> list[str]:
        """Say how many threads ranks have, where runs on one host and on several are compared, and
        what to write where their numbers differ."""
        counts = sorted({cell.place.nodes for cell in study.cells})
        has_quotas = any(self._wires(cell.place)[1] for cell in study.cells)
        if len(counts) < 2 or has_quotas:
            return []
        hosts = self.cluster.hosts[: counts[-1]]
        numbers = {host.threads for host in hosts}
        if len(numbers) > 1:
            said = ", ".join(f"{host.name} {host.threads or 'as many as cores'}" for host in hosts)
            return [
                "warning: runs on some of the hosts have other numbers of threads per rank than "
                f"runs on others ({said}): write the same threads = N for each host in {self._file}"
            ]
        if numbers != {0}:
            return []
        if self._is_this_machine:
            return [self._shares(study, len(hosts))]
        return [
            f"warning: {', '.join(names)} have one address, so they share the cores of a machine, "
            "and a rank has more threads in a run on fewer of them: write threads = N for each in "
            f"{self._file}, where N is its cores divided by {len(names)}"
            for names in _same_addresses(hosts)
        ]

    def _shares(self, study: Study, hosts: int) -> str:
        """Say what share of this machine each host has in all runs."""
        cores = usable_cores()
        threads = sorted({self._share(cell.place, hosts) for cell in study.cells})
        each = " or ".join(map(str, threads))
        return (
            f"all {hosts} hosts are this machine ({count(cores, 'core')}): a rank has {each} "
            f"{'thread' if threads == [1] else 'threads'} in every run, also on fewer hosts"
        )

    def _reach(self, link: str, cpus: str) -> tuple[tuple[Host, ...], WarmTransport]:
        if not link:
            return self.cluster.hosts, self._warm(Transports(self.cluster.hosts))
        lab = self._open.enter_context(Lab.start(parse(len(self.cluster.hosts), link, cpus)))
        return lab.hosts, self._warm(Transports(lab.hosts, lab.enter))

    def _warm(self, transport: Transport) -> WarmTransport:
        return self._open.enter_context(closing(WarmTransport(transport)))

    def _wires(self, place: CellPlace) -> tuple[str, str]:
        """Link and cores of the lab of a place; ("", "") without a lab."""
        link = place.link or self.link
        cpus = place.cpus or self.cpus
        return (link or FASTEST if cpus else link), cpus

    @property
    def _file(self) -> str:
        return self.cluster.file or self.cluster.name

    def __enter__(self) -> HostPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open.close()


def _is_loopback(host: Host) -> bool:
    """Whether the address of a host leads to this machine, and not to that of a jump host."""
    is_direct = not (host.jump or host.proxy_command or host.slurm_job)
    return is_direct and (host.address == "localhost" or is_loopback(host.address))


def _same_addresses(hosts: Sequence[Host]) -> list[list[str]]:
    """The names of hosts that have one address, for each such address."""
    found: dict[tuple[str, str, str], list[str]] = {}
    for host in hosts:
        found.setdefault((host.address, host.jump, host.proxy_command), []).append(host.name)
    return [names for names in found.values() if len(names) > 1]


def _threads(host: Host, processes: int) -> int:
    """The threads of a rank, where the host says how many one rank may have."""
    return max(1, host.threads * host.slots // processes) if host.threads else 0


def _is_shape(study: Study, name: str) -> bool:
    """Whether an axis varies nothing but links and cores."""
    axis = next((one for one in study.axes if one.name == name), None)
    return axis is not None and all(
        set(value.settings) <= {"link", "cpus"} for value in axis.values
    )

"""The hosts on which the cells of a study run: those of a hosts file, or labs and processes of this
machine."""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from types import TracebackType

from remote.cluster.hosts import Cluster, Host, is_loopback
from remote.format import count
from remote.lab.lab import Lab
from remote.lab.spec import LabError, parse
from remote.launch import check_data, find_pasted_ranks
from remote.plan.pasted.line import PastedLine
from remote.plan.plan import Plan
from remote.study.study import Cell, CellPlace, Study, StudyAxis, StudyError
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
    """Return the study on hosts of a file.

    Links and cores are as they are there, and cells that differ in nothing else are one.
    """
    lab_axes = [axis.name for axis in study.axes if _varies_only_labs(axis)]
    cells: dict[str, Cell] = {}
    for cell in study.cells:
        place = replace(cell.place, link="", cpus="")
        fitted_labels = []
        for axis, label in cell.labels:
            is_of_labs = axis in lab_axes
            fitted_labels.append((axis, AS_IT_IS if is_of_labs else label))
        fitted_cell = replace(cell, labels=tuple(fitted_labels), place=place)
        # The first cell of several that differ in links or cores only stands for all of them.
        cells.setdefault(fitted_cell.key, fitted_cell)
    return replace(study, cells=tuple(cells.values()))


@dataclass
class HostPool:
    """Finds hosts for the place of each cell.

    Transports and labs stay open until it is closed, so that the next run finds its hosts warm.
    """

    cluster: Cluster
    """The selected hosts."""
    link: str = ""
    """The rate of a lab on this machine, if the place names none; "" without such a lab."""
    cpus: str = ""
    """The cores of each host of such a lab."""
    _open_resources: ExitStack = field(default_factory=ExitStack)
    _reached_transports: dict[tuple[str, str], tuple[tuple[Host, ...], WarmTransport]] = field(
        default_factory=dict
    )

    def fitted(self, study: Study) -> Study:
        """Return the study as it can be made here."""
        return study if is_here(self.cluster.hosts) else without_labs(study)

    def check(self, study: Study) -> None:
        """Check that each cell can run here. Raises: StudyError, with all mistakes."""
        mistakes = []
        available = len(self.cluster.hosts)
        needed = max(cell.place.nodes for cell in study.cells)
        if needed > available:
            verb = "is" if available == 1 else "are"
            mistakes.append(
                f"{study.name} needs {count(needed, 'host')}, and there {verb} {available}: "
                f"{self._advise_more(needed)}, or write a study with fewer nodes"
            )
        elif available == 1 and {cell.is_on_all_hosts for cell in study.cells} == {True, False}:
            mistakes.append(
                f"{study.name} compares one host with all, and there is only one: "
                f"{self._advise_more(4)}"
            )
        # Mistakes in links and cores are found now, not after hours of other runs.
        lab_wires = {self._lab_settings(cell.place) for cell in study.cells} - {("", "")}
        for link, cpus in sorted(lab_wires):
            try:
                parse(available, link, cpus)
            except LabError as error:
                mistakes.append(f"{study.name}: {error}")
        if mistakes:
            raise StudyError("\n".join(mistakes))

    def _advise_more(self, needed: int) -> str:
        """Say how to start with so many hosts."""
        if is_here(self.cluster.hosts):
            return f"start it with --local {needed}"
        return f"add hosts to {self._hosts_file}"

    def find_data(self, study: Study) -> list[str]:
        """Return what the runs will have to fetch, in words, if they run on this machine.

        Raises: PlanError, if a data set cannot be had.
        """
        # Hosts of a file have data of their own, of which only the run can tell.
        if not is_here(self.cluster.hosts):
            return []
        jobs = [cell.job for cell in study.cells if cell.job]
        job_of_each_set = {(job.dataset, job.data_dir): job for job in jobs}
        download_lines = []
        for job in job_of_each_set.values():
            finding = check_data(job)
            if finding.is_download:
                missing_text = f"{job.dataset} is not in {job.data_dir}"
                download_lines.append(f"{missing_text}: the first run has to {finding.text} for it")
        return download_lines

    def find_pasted_line(self, study: Study) -> tuple[PastedLine, int] | None:
        """Return the first line of a script that was typed for one node, and how many ranks would
        get it; None if there is none."""
        for cell in study.cells:
            hosts = self.cluster.hosts[: cell.place.nodes]
            hosts = tuple(replace(host, slots=cell.place.processes) for host in hosts)
            pasted = find_pasted_ranks(Plan("", hosts, cell.work))
            if pasted:
                return pasted, cell.place.ranks
        return None

    def reach(self, place: CellPlace, most_nodes: int = 0) -> tuple[Cluster, Transport]:
        """Return the hosts of a place, and the transport to them. Raises: LabError.

        `most_nodes` are the hosts of the largest run with which runs here are compared.
        """
        wires = self._lab_settings(place)
        is_new = wires not in self._reached_transports
        hosts, transport = (
            self._open_hosts(*wires) if is_new else self._reached_transports.pop(wires)
        )
        self._reached_transports[wires] = hosts, transport  # the last one is the one used last
        # Cooled labs keep their hosts: only the warm interpreters end.
        for _, warm_transport in list(self._reached_transports.values())[:-WARM]:
            warm_transport.cool()
        chosen_hosts = tuple(
            replace(
                host,
                slots=place.processes,
                threads=_threads(host, place.processes)
                or self._share_of_threads(place, most_nodes),
            )
            for host in hosts[: place.nodes]
        )
        return replace(self.cluster, hosts=chosen_hosts), transport

    def _share_of_threads(self, place: CellPlace, most_nodes: int) -> int:
        """Return the threads of a rank if all hosts are this machine; 0 if they are not.

        Each host has the same share of the cores in all runs, so that more hosts have more cores,
        as separate machines would.
        """
        if not self._is_this_machine:
            return 0
        num_hosts = max(place.nodes, most_nodes)
        return max(1, int(usable_cores()) // (num_hosts * place.processes))

    @property
    def _is_this_machine(self) -> bool:
        """Return whether all hosts are this machine, as far as their addresses say."""
        hosts = self.cluster.hosts
        return is_here(hosts) or all(_is_loopback(host) for host in hosts)

    def thread_remarks(self, study: Study) -> list[str]:
        """Return how many threads ranks have, if runs on one host and on several are compared.

        If their numbers differ, this is a warning that says what to write.
        """
        node_counts = sorted({cell.place.nodes for cell in study.cells})
        has_quotas = any(self._lab_settings(cell.place)[1] for cell in study.cells)
        if len(node_counts) < 2 or has_quotas:
            return []
        hosts = self.cluster.hosts[: node_counts[-1]]
        thread_counts = {host.threads for host in hosts}
        if len(thread_counts) > 1:
            host_texts = [f"{host.name} {host.threads or 'as many as cores'}" for host in hosts]
            return [
                "warning: runs on some of the hosts have other numbers of threads per rank than "
                f"runs on others ({', '.join(host_texts)}): write the same threads = N for each "
                f"host in {self._hosts_file}"
            ]
        if thread_counts == {0} and self._is_this_machine:
            return [self._describe_shares(study, len(hosts))]
        return []

    def _describe_shares(self, study: Study, num_hosts: int) -> str:
        """Return what share of this machine each host has in all runs."""
        cores = usable_cores()
        thread_counts = sorted(
            {self._share_of_threads(cell.place, num_hosts) for cell in study.cells}
        )
        threads_text = " or ".join(map(str, thread_counts))
        return (
            f"all {num_hosts} hosts are this machine ({count(cores, 'core')}): a rank has "
            f"{threads_text} "
            f"{'thread' if thread_counts == [1] else 'threads'} in every run, also on fewer hosts"
        )

    def _open_hosts(self, link: str, cpus: str) -> tuple[tuple[Host, ...], WarmTransport]:
        if not link:
            return self.cluster.hosts, self._keep_warm(Transports(self.cluster.hosts))
        # All hosts of the pool are in the lab, so that later cells with more nodes find it warm.
        lab = self._open_resources.enter_context(
            Lab.start(parse(len(self.cluster.hosts), link, cpus))
        )
        return lab.hosts, self._keep_warm(Transports(lab.hosts, lab.enter))

    def _keep_warm(self, transport: Transport) -> WarmTransport:
        return self._open_resources.enter_context(closing(WarmTransport(transport)))

    def _lab_settings(self, place: CellPlace) -> tuple[str, str]:
        """Return link and cores of the lab of a place; ("", "") without a lab."""
        link = place.link or self.link
        cpus = place.cpus or self.cpus
        return (link or FASTEST if cpus else link), cpus

    @property
    def _hosts_file(self) -> str:
        return self.cluster.file or self.cluster.name

    def __enter__(self) -> HostPool:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._open_resources.close()


def _is_loopback(host: Host) -> bool:
    """Return whether the address of a host leads to this machine, not to that of a jump host."""
    is_direct = not (host.jump or host.proxy_command or host.slurm_job)
    return is_direct and (host.address == "localhost" or is_loopback(host.address))


def _threads(host: Host, processes: int) -> int:
    """Return the threads of a rank, if the host says how many one rank may have; else 0."""
    return max(1, host.threads * host.slots // processes) if host.threads else 0


def _varies_only_labs(axis: StudyAxis) -> bool:
    """Return whether an axis varies nothing but links and cores."""
    return all(set(value.settings) <= {"link", "cpus"} for value in axis.values)

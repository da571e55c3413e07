"""Command lines that were written for torchrun: what their flags mean here, or what to write
instead."""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import takewhile
from types import MappingProxyType

from remote.cluster.hosts import PLACE, Cluster, with_slots
from remote.cluster.load import has_usual
from remote.plan.main_program import NO_PYTHON, PYTHONS
from remote.plan.placeholders import LOCAL_RANK
from remote.plan.python_line import python_line
from tui.flags.common import HOSTS
from tui.flags.policy import PolicyFlags
from tui.flags.selection import HostFlags
from tui.kit.exit import UsageError
from tui.kit.narrate import narrate

SWITCHES = (
    "--standalone",
    "--module",
    "--no-python",
    "--run-path",
    "--virtual-local-rank",
    "--use-env",
)
VALUES = (
    *("--nnodes", "--nproc-per-node", "--node-rank", "--master-addr", "--master-port"),
    *("--rdzv-backend", "--rdzv-endpoint", "--rdzv-id", "--rdzv-conf", "--max-restarts", "--role"),
    *("--tee", "--redirects", "--log-dir", "--local-ranks-filter", "--local-addr"),
    *("--monitor-interval", "--start-method", "--event-log-handler", "--log-line-prefix-template"),
    *("--duplicate-stdout-filters", "--duplicate-stderr-filters", "--logs-specs", "--numa-binding"),
    *("--signals-to-handle", "--shutdown-timeout"),
)
SHORT = {"-m": "--module", "-r": "--redirects", "-t": "--tee"}
LAUNCH = "torch.distributed.launch"
TORCHRUN = ("torchrun", "torch.distributed.run", LAUNCH)
FABRIC = (["fabric", "run", "model"], ["fabric", "run"], ["lightning", "run", "model"])
"""Launchers of Lightning Fabric: they execute a line of torchrun, with more variables."""
FABRIC_FLAGS = {
    "--devices": "--nproc-per-node",
    "--num-nodes": "--nnodes",
    "--node-rank": "--node-rank",
    "--main-address": "--master-addr",
    "--main-port": "--master-port",
}
"""The flags of torchrun that those of Fabric become."""
FABRIC_VARIABLES = {
    "--accelerator": "LT_ACCELERATOR",
    "--strategy": "LT_STRATEGY",
    "--precision": "LT_PRECISION",
}
"""The variables that its other flags become."""
FABRIC_PLACE = ("LT_CLI_USED=1", "LT_DEVICES={local_world_size}", "LT_NUM_NODES={nodes}")
"""What its ranks have in any case."""
OTHERS = (
    *("accelerate", "deepspeed", "horovodrun", "mpiexec", "mpirun", "srun"),
    *("accelerate.commands.launch", "deepspeed.launcher.launch", "deepspeed.launcher.runner"),
    "horovod.runner.launch",
)
"""Other programs and modules that start ranks."""
STARTERS = (["env"], ["uv", "run"])
"""What may stand before a program that starts ranks."""
LOGS = "every rank's output is shown, and recorded in logs/ of the run"
NO_FLAGS: Mapping[str, str] = MappingProxyType({})
VARIABLE = re.compile(r"[A-Za-z_]\w*=")
DIGITS = 9
"""Of the longest number that a flag may have."""
PET = {
    "PET_NNODES": "--nnodes",
    "PET_NPROC_PER_NODE": "--nproc-per-node",
    "PET_MAX_RESTARTS": "--max-restarts",
}
"""Variables from which torchrun takes a flag that is not typed. The others tell its nodes how to
find each other, or belong to flags that have no use here."""
LEAVE_OUT = {
    "--redirects": LOGS,
    "--log-dir": f"{LOGS}; --runs-dir names the folder of all runs",
    "--local-ranks-filter": f"{LOGS}; rankboard logs RUN --rank 0 prints that of one",
    "--local-addr": "interface in hosts.toml says which network a host uses",
    "--rdzv-conf": "--start-timeout limits the time until the first step",
    "--signals-to-handle": "Ctrl+C and rankboard stop end all ranks with SIGTERM",
    "--shutdown-timeout": "ranks that do not end within seconds after SIGTERM are killed",
}
"""Why a flag has no use here."""
UNSUPPORTED = "rankboard does not support it"


@dataclass(frozen=True)
class ScriptLine:
    """A command line: the `words` of the program, the flags of torchrun and the variables `env`
    before them. `is_torchrun`: torchrun itself stands there."""

    words: tuple[str, ...] = ()
    flags: Mapping[str, str] = field(default_factory=dict)
    env: tuple[tuple[str, str], ...] = ()
    is_torchrun: bool = False
    typed: tuple[str, ...] = ()
    """All words of the command line of rankboard in which it stands."""

    @property
    def variables(self) -> tuple[tuple[str, str], ...]:
        """Return the variables that are for the program."""
        return tuple(
            (name, value) for name, value in self.env if name not in PLACE and name not in PET
        )


def find_flag(word: str) -> str:
    """Return the flag of torchrun that a word names; "" if it names none."""
    flag_name = word.partition("=")[0]
    # torchrun takes --nproc_per_node as well as --nproc-per-node.
    flag_name = SHORT.get(flag_name, flag_name.replace("_", "-"))
    return flag_name if flag_name in (*SWITCHES, *VALUES) else ""


def _pop_flag(words: list[str]) -> tuple[str, str]:
    """Take a flag of torchrun, and its value, from the beginning of these words. Raises:
    UsageError."""
    word = words.pop(0)
    flag_name = find_flag(word)
    typed_flag, equals, value = word.partition("=")
    if not flag_name:
        raise UsageError(
            f"{typed_flag} is not a flag of torchrun: write your script after --, and its "
            "arguments after its name"
        )
    if flag_name in VALUES and not equals:
        if not words:
            raise UsageError(f"{word} needs a value")
        value = words.pop(0)
    return flag_name, value


def take_out_flags(words: Sequence[str], own: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Return the words without the flags of torchrun that are not `own` flags of rankboard; and
    these. Raises: UsageError."""
    other_words: list[str] = []
    flags: dict[str, str] = {}
    remaining_words = list(words)
    while remaining_words:
        word = remaining_words[0]
        is_own = not word.startswith("-") or word.partition("=")[0] in own
        if is_own or not find_flag(word):
            other_words.append(remaining_words.pop(0))
        else:
            flags |= [_pop_flag(remaining_words)]
    return other_words, flags


def parse_script_line(words: Sequence[str], before: Mapping[str, str] = NO_FLAGS) -> ScriptLine:
    """Parse the words after `--`, which may begin with variables, torchrun or its flags.

    `before` are its flags that stand before `--`. Raises: UsageError.
    """
    variables, remaining_words = _split_variables(words)
    inner_variables, inner_words = _unwrap_starters(remaining_words)
    launcher, arguments = _find_program(inner_words)
    if launcher in OTHERS:
        raise UsageError(_refuse_launcher(launcher, arguments))
    for start in FABRIC:
        if [launcher, *arguments][: len(start)] == start:
            launcher = "torchrun"
            fabric_variables, arguments = _translate_fabric(arguments[len(start) - 1 :])
            inner_variables += fabric_variables
            break
    is_torchrun = launcher in TORCHRUN
    if is_torchrun:
        # Those of `env` itself are the program's words, unless torchrun follows.
        variables += inner_variables
        remaining_words = arguments
    env = dict(word.split("=", 1) for word in variables)
    flags: dict[str, str] = {}
    if is_torchrun:
        environment = {**os.environ, **env}
        flags = {flag: environment[name] for name, flag in PET.items() if environment.get(name)}
    # As with torchrun, what is typed counts more than a variable.
    flags |= before
    while remaining_words and remaining_words[0].startswith("-"):
        if remaining_words[0] == "--":
            del remaining_words[0]
            break
        flags |= [_pop_flag(remaining_words)]
    if not remaining_words or not remaining_words[0]:
        raise UsageError("write your own script after --, as in rankboard --run -- train.py")
    program_words = _make_program(remaining_words, flags, gets_rank=launcher == LAUNCH)
    return ScriptLine(program_words, flags, tuple(env.items()), is_torchrun)


def _split_variables(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the variables that the words begin with, and the other words."""
    variables = list(takewhile(VARIABLE.match, words))
    return variables, list(words[len(variables) :])


def _unwrap_starters(words: list[str]) -> tuple[list[str], list[str]]:
    """Return what these words start in the end: `env A=b torchrun x.py` has variables, then
    torchrun."""
    first_names = [os.path.basename(word) for word in words[:2]]
    for starter in STARTERS:
        if first_names[: len(starter)] == starter:
            variables, remaining_words = _split_variables(words[len(starter) :])
            inner_variables, inner_words = _unwrap_starters(remaining_words)
            return variables + inner_variables, inner_words
    return [], words


def _find_program(words: list[str]) -> tuple[str, list[str]]:
    """Return the program, or the module of Python, that the words start, and its arguments."""
    python_command = python_line(words)
    if python_command:
        return os.path.basename(python_command.name), list(python_command.rest)
    first_word, *other_words = words or [""]
    return os.path.basename(first_word), other_words


def _translate_fabric(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the variables that Fabric sets for these arguments of it, and those of the line of
    torchrun. Raises: UsageError."""
    variables = list(FABRIC_PLACE)
    torchrun_words: list[str] = []
    script_words: list[str] = []
    remaining_words = list(words)
    while remaining_words:
        word = remaining_words.pop(0)
        typed_flag, equals, value = word.partition("=")
        flag_name = typed_flag.replace("_", "-")
        # Its flags may stand after the script as well.
        if flag_name not in FABRIC_FLAGS and flag_name not in FABRIC_VARIABLES:
            script_words.append(word)
            continue
        if not equals:
            if not remaining_words:
                raise UsageError(f"{word} needs a value")
            value = remaining_words.pop(0)
        if flag_name in FABRIC_VARIABLES:
            variables.append(f"{FABRIC_VARIABLES[flag_name]}={value}")
        elif flag_name != "--devices" or value.isdigit():  # else it names them, or says "auto"
            torchrun_words += [FABRIC_FLAGS[flag_name], value]
    return variables, torchrun_words + script_words


def _make_program(rest: list[str], flags: Mapping[str, str], *, gets_rank: bool) -> tuple[str, ...]:
    """Return the words of the program. `gets_rank`: it gets its local rank as an argument."""
    program_words = list(rest)
    # torch.distributed.launch passes the local rank as an argument, torchrun does not.
    if gets_rank and "--use-env" not in flags:
        program_words.insert(1, f"--local-rank={LOCAL_RANK}")
    if "--no-python" in flags and rest[0].endswith((".py", *PYTHONS)):
        program_words.insert(0, NO_PYTHON)
    if "--module" in flags:
        program_words.insert(0, "-m")
    return tuple(program_words)


def _refuse_launcher(launcher: str, words: list[str]) -> str:
    # The flags of another launcher mean nothing here, but the script after them does.
    while words and not words[0].endswith(".py"):
        del words[0]
    return (
        f"{launcher} starts ranks itself, as rankboard does: write the program alone, "
        f"-- {' '.join(words or ['train.py'])}"
    )


def apply_to_host_flags(line: ScriptLine, flags: HostFlags) -> HostFlags:
    """Return the flags that select hosts, with what those of torchrun add. Raises: UsageError."""
    if not (line.flags or line.is_torchrun):
        return flags
    nodes_text = line.flags.get("--nnodes", "")
    if nodes_text and not all(_is_number(node_bound, 1) for node_bound in nodes_text.split(":", 1)):
        raise UsageError(f"--nnodes {nodes_text}: write a number from 1, or MIN:MAX")
    # Of MIN:MAX, the larger number: the smaller one is for restarts.
    num_hosts = int(nodes_text.rpartition(":")[2] or 0)
    is_standalone = "--standalone" in line.flags
    names_hosts = flags.hosts or flags.host or flags.slurm or has_usual()
    is_alone = num_hosts <= 1 and not names_hosts
    ranks_text = line.flags.get("--nproc-per-node", "")
    ranks_per_host = 0
    if ranks_text and (is_standalone or is_alone or flags.local):
        ranks_per_host = _count_local_ranks(ranks_text, {**os.environ, **dict(line.env)})
    # torchrun without hosts runs on this machine.
    if is_standalone or (is_alone and not flags.local):
        return replace(flags, local=flags.local or ranks_per_host or 1)
    if flags.local:
        return _split_local_ranks(flags, flags.local, num_hosts, ranks_per_host, line)
    return replace(flags, num_hosts=flags.num_hosts or num_hosts or None)


def _split_local_ranks(
    flags: HostFlags, local: int, num_hosts: int, ranks_per_host: int, line: ScriptLine
) -> HostFlags:
    """Return the flags with the slots into which the ranks of --local are split. A number that is 0
    is not given. Raises: UsageError."""
    if num_hosts and local % num_hosts:
        raise UsageError(f"--nnodes {line.flags['--nnodes']}: does not divide the ranks of --local")
    if ranks_per_host and local % ranks_per_host:
        raise UsageError(
            f"--nproc-per-node {line.flags['--nproc-per-node']} does not divide the ranks of "
            f"--local {local}: leave one of them out"
        )
    slots = flags.slots or ranks_per_host
    if not slots and num_hosts:
        slots = local // num_hosts
    return replace(flags, slots=slots or None)


def apply_to_policy_flags(line: ScriptLine, flags: PolicyFlags) -> PolicyFlags:
    """Return the flags of the policy, with what those of torchrun add. Raises: UsageError."""
    restarts_text = line.flags.get("--max-restarts")
    if restarts_text:
        flags = replace(flags, max_restarts=_parse_number("--max-restarts", restarts_text))
    least_nodes, _, most_nodes = line.flags.get("--nnodes", "").partition(":")
    # MIN:MAX of torchrun says how many nodes a restart needs: --min-hosts here.
    if most_nodes and least_nodes != most_nodes and not flags.min_nodes:
        flags = replace(flags, min_nodes=int(least_nodes))
    return flags


def apply_to_hosts(line: ScriptLine, cluster: Cluster, *, local: bool) -> Cluster:
    """Return the hosts, with what the other flags say of them. Print what of a line of torchrun is
    ignored. Raises: UsageError."""
    flags = line.flags
    _check_flags(line, cluster, local)
    # torchrun would set these variables for each rank.
    variables = [
        (variable_name, flags[flag])
        for flag, variable_name in (("--role", "ROLE_NAME"), ("--rdzv-id", "TORCHELASTIC_RUN_ID"))
        if flag in flags
    ]
    hosts = [replace(host, env=(*host.env, *variables)) for host in cluster.hosts]
    ranks_text = "" if local else flags.get("--nproc-per-node", "")
    if ranks_text in ("auto", "gpu", "cpu", "xpu"):
        raise UsageError(
            f"--nproc-per-node {ranks_text}: rankboard places the ranks before it contacts a host: "
            "leave the flag out, and write slots = 8, or another number of ranks, for each host in "
            f"{cluster.file or HOSTS}"
        )
    if ranks_text:
        slots = _parse_number("--nproc-per-node", ranks_text, 1)
        hosts = [with_slots(host, slots) for host in hosts]
    port_text = flags.get("--master-port") or flags.get("--rdzv-endpoint", "").partition(":")[2]
    if hosts and port_text:
        # The ranks meet on the first host.
        hosts[0] = replace(hosts[0], master_port=_parse_number("--master-port", port_text))
    return replace(cluster, hosts=tuple(hosts))


def _check_flags(line: ScriptLine, cluster: Cluster, local: bool) -> None:
    """Print what of a line of torchrun is ignored. Raises: UsageError, with all flags that mean
    nothing here where torchrun itself is not typed."""
    words_by_reason: dict[str, list[str]] = defaultdict(list)
    for flag, value in line.flags.items():
        flag_text = f"{flag} {value}".strip()
        if flag in REFUSED:
            raise UsageError(f"{flag_text}: {UNSUPPORTED}: leave it out")
        reason = _why_useless(flag, value, line.flags, cluster, local)
        if reason:
            words_by_reason[reason].append(flag_text)
    for variable_name, value in line.env:
        if variable_name in PLACE:
            words_by_reason["it follows from a rank's place"].append(f"{variable_name}={value}")
    if not words_by_reason:
        return
    separator = ": " if line.is_torchrun else ": leave it out: "
    reason_notes = [
        f"{', '.join(words)}{separator}{reason}" for reason, words in words_by_reason.items()
    ]
    if not line.is_torchrun:
        raise UsageError("\n".join(reason_notes))
    narrate(f"ignored: {'; '.join(reason_notes)}")


def _why_useless(
    flag: str, value: str, flags: Mapping[str, str], cluster: Cluster, local: bool
) -> str:
    """Say why a flag of this value has no use here; "" where it has one, or is so anyway."""
    first_host = cluster.hosts[0]
    first_names = {first_host.name, first_host.address, *(["localhost", ""] if local else [])}
    is_one_node = flags.get("--nnodes", "1") in ("1", "1:1")
    is_useless = {
        "--node-rank": value != "0" or not is_one_node,
        "--rdzv-backend": value not in ("c10d", "static"),
        "--master-addr": value not in first_names,
        "--rdzv-endpoint": value.partition(":")[0] not in first_names,
    }
    if is_useless.get(flag):
        return (
            f"rankboard starts all nodes from here, and the ranks meet on the first host of "
            f"{cluster.file or HOSTS}, {first_host.name}"
        )
    if flag in LEAVE_OUT:
        return LEAVE_OUT[flag]
    return "" if flag in KNOWN else UNSUPPORTED


KNOWN = (
    *("--standalone", "--module", "--no-python", "--use-env", "--nnodes", "--nproc-per-node"),
    *("--node-rank", "--master-addr", "--master-port", "--rdzv-backend", "--rdzv-endpoint"),
    *("--rdzv-id", "--max-restarts", "--role", "--tee"),
)
"""The flags that mean something here."""
REFUSED = ("--run-path", "--virtual-local-rank")
"""The flags without which the program would be another one."""


def _count_local_ranks(ranks: str, env: Mapping[str, str]) -> int:
    """Return the number of ranks on this machine, for programs with these variables."""
    from training.agent.local_api import (  # of which other commands need nothing
        list_gpus,
        usable_cores,
    )

    if ranks in ("gpu", "auto"):
        visible_devices = env.get("CUDA_VISIBLE_DEVICES")
        # Set to nothing, the variable hides all GPUs: only its absence shows them.
        if visible_devices is None:
            num_gpus = len(list_gpus())
        else:
            num_gpus = _count_visible_gpus(visible_devices)
        if num_gpus:
            return num_gpus
    if ranks in ("cpu", "auto"):
        return max(1, int(usable_cores()))
    if ranks == "gpu":
        raise UsageError("--nproc-per-node gpu: this machine has no NVIDIA GPU: write a number")
    return _parse_number("--nproc-per-node", ranks, 1)


def _count_visible_gpus(devices: str) -> int:
    """Count the GPUs that CUDA_VISIBLE_DEVICES names: CUDA sees none from the first non-device."""
    return len([*takewhile(re.compile(r"\d|GPU-|MIG-").match, devices.split(","))])


def _parse_number(flag: str, text: str, least: int = 0) -> int:
    if not _is_number(text, least):
        raise UsageError(f"{flag} {text}: write a number" + (f" from {least}" if least else ""))
    return int(text)


def _is_number(text: str, least: int) -> bool:
    return text.isdecimal() and len(text) <= DIGITS and int(text) >= least

"""The namespaces of a lab: how they are made and entered, with util-linux's `unshare` and
`nsenter`, and why that may fail.

A lab is one PID namespace, with the mounts that it needs (its own /proc) and, for an ordinary user,
a user namespace in which that user is root. Its first process is `remote.lab.init`, which ends with
its stdin; then the kernel kills all the others.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from remote.lab import init
from remote.lab.spec import LabError

PATH = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"
"""An ordinary user's PATH often leaves out where ip and tc are."""
TOOLS = {"unshare": "util-linux", "nsenter": "util-linux", "ip": "iproute2", "tc": "iproute2"}
OBSTACLES = (
    ("kernel/unprivileged_userns_clone", "0", "1"),
    ("kernel/apparmor_restrict_unprivileged_userns", "1", "0"),
    ("user/max_user_namespaces", "0", "15000"),
    ("user/max_net_namespaces", "0", "15000"),
)
"""Settings below /proc/sys, the value that forbids a lab, and one that allows it."""


@dataclass(frozen=True)
class Space:
    """A lab's namespaces: `pid` is its first process, seen from outside; `user` whether it has a
    user namespace."""

    pid: int
    user: bool

    def hub(self) -> tuple[str, ...]:
        """Return what to put before a command so that it runs in the hub's network."""
        return ("nsenter", "--target", str(self.pid), *self._credentials(), "--net")

    def host(self, pid: int) -> tuple[str, ...]:
        """Return what to put before a command so that it runs on the host of process `pid`."""
        spaces = ("--mount", "--uts", "--net", "--pid")
        return ("nsenter", "--target", str(pid), *self._credentials(), *spaces)

    def _credentials(self) -> tuple[str, ...]:
        return ("--user", "--preserve-credentials") if self.user else ()


def check(platform: str = sys.platform, search_path: str = PATH) -> None:
    """Raises: LabError, if this is not Linux or a tool is missing."""
    if platform != "linux":
        raise LabError(
            "a lab (--link) is made of Linux network namespaces: use a Linux machine, or --local "
            "N without --link"
        )
    missing_tools = [
        tool_name for tool_name in TOOLS if not shutil.which(tool_name, path=search_path)
    ]
    if missing_tools:
        package_names = " ".join(sorted({TOOLS[tool_name] for tool_name in missing_tools}))
        raise LabError(
            f"a lab (--link) needs {', '.join(missing_tools)}: apt install {package_names}"
        )


def begin(init_arguments: Sequence[str]) -> tuple[subprocess.Popen[bytes], Space, tuple[int, ...]]:
    """Start a lab's first process with the arguments `init_arguments` (see `remote.lab.init`).

    Returns the process to hold (it ends with the lab), the lab's namespaces, and the processes that
    hold each host, in order, as seen from outside. Raises: LabError.
    """
    # In a container, root may not be allowed what a user is.
    user_space_tries = [False, True] if os.geteuid() == 0 else [True]
    last_line = ""
    for has_user_space in user_space_tries:
        process = _unshare(has_user_space, init_arguments)
        last_line = _read_last_line(process)
        if last_line == init.READY:
            # The number that the lab's first process knows of itself is 1; others need the one
            # outside.
            (pid,) = children(process.pid)
            return process, Space(pid, has_user_space), children(pid)
        end(process)
    raise LabError(refusal(last_line))


def _unshare(has_user_space: bool, init_arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    user_options = ("--user", "--map-root-user") if has_user_space else ()
    space_options = ("--net", "--mount", "--uts", "--pid", "--fork", "--kill-child", "--mount-proc")
    argv = (
        "unshare",
        *user_options,
        *space_options,
        sys.executable,
        "-IS",
        str(init.__file__),
        *init_arguments,
    )
    output_pipe = subprocess.PIPE
    variables = {**os.environ, "PATH": PATH}
    return subprocess.Popen(
        argv,
        stdin=output_pipe,
        stdout=output_pipe,
        stderr=subprocess.STDOUT,
        env=variables,
        bufsize=0,
        # Ctrl+C must not reach the lab before the run in it has ended.
        start_new_session=True,
    )


def _read_last_line(process: subprocess.Popen[bytes]) -> str:
    """Return the last line that it printed before it was ready or ended."""
    assert process.stdout
    last_line = ""
    while last_line != init.READY and (raw_line := process.stdout.readline()):
        last_line = raw_line.decode(errors="replace").strip() or last_line
    return last_line


def end(process: subprocess.Popen[bytes]) -> None:
    """End the lab and wait until every process in it is gone."""
    assert process.stdin
    assert process.stdout
    process.stdin.close()
    process.wait()
    process.stdout.close()


def children(pid: int) -> tuple[int, ...]:
    """Return the children of a process, oldest first."""
    return tuple(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def run(enter_prefix: Sequence[str], tool: str, batch_lines: Sequence[str]) -> None:
    """Run `batch_lines` in `ip` or `tc`, in the namespaces that `enter_prefix` enters. Raises:
    LabError, with the error."""
    argv = (*enter_prefix, tool, "-batch", "-")
    batch_text = "".join(f"{line}\n" for line in batch_lines)
    finished_process = subprocess.run(
        argv,
        input=batch_text,
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": PATH},
        check=False,
    )
    if finished_process.returncode:
        error_text = (
            finished_process.stderr.strip() or f"exit code {finished_process.returncode}"
        ).splitlines()[0]
        if "netem" in batch_text and "nknown" in finished_process.stderr:
            advice = "give --link the rate alone, or as root, modprobe sch_netem"
            raise LabError(f"this kernel has no netem, so a link can have no delay: {advice}")
        if "nknown" in finished_process.stderr or "not supported" in finished_process.stderr:
            error_text += "; the kernel lacks a module: as root, modprobe veth bridge sch_tbf"
        raise LabError(f"{tool} in the lab: {error_text}")


def refusal(last_line: str, settings_folder: Path = Path("/proc/sys")) -> str:
    """Say why the kernel does not allow a lab. `last_line`: what `unshare` printed in place of
    READY."""
    for setting_name, forbidding_value, allowing_value in OBSTACLES:
        with suppress(OSError):
            if (settings_folder / setting_name).read_text().strip() == forbidding_value:
                sysctl_key = setting_name.replace("/", ".")
                return (
                    f"the kernel forbids a lab (--link): {sysctl_key} is {forbidding_value}; "
                    f"as root, sysctl -w {sysctl_key}={allowing_value}, or run as root"
                )
    return (
        f"the system forbids a lab (--link): {last_line or 'no reason given'}; it needs to make "
        "namespaces: "
        "run as root, and in a container with --privileged"
    )

"""Which files a user's own program has written on hosts, and the option that brings them."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from collections.abc import Collection

from msgspec import Struct

from remote.format import count, listed
from remote.run.run_state import RunState
from remote.sanitise import one_line
from training.agent.find_files import matches
from training.agent.layout import UPLOADS, workdir_of

MAX_NAMED_FILES = 2
"""Files of a host that are named."""
MAX_NAMED_HOSTS = 3
"""Hosts that are named, each with its files."""
MAX_PATTERNS = 3
"""Patterns that are proposed."""


class HostFiles(Struct, frozen=True):
    """Files on one host that are not fetched: some of them, and how many there are, or if `is_cut`
    at least are."""

    host: str
    folder: str
    paths: tuple[str, ...]
    count: int
    is_cut: bool


def describe_unfetched_files(state: RunState) -> list[str]:
    """Say which files are left on the hosts, in a line; nothing where there are none."""
    host_files = [_files_on_host(state, index) for index in range(len(state.hosts))]
    unfetched = [files for files in host_files if files]
    if not unfetched:
        return []
    host_texts = [_name_files(files) for files in unfetched[:MAX_NAMED_HOSTS]]
    other_counts = [files.count for files in unfetched[MAX_NAMED_HOSTS:]]
    if other_counts:
        host_texts.append(
            f"{count(sum(other_counts), 'file')} on {count(len(other_counts), 'other host')}"
        )
    folders = {files.folder for files in unfetched}
    place_text = f"in {unfetched[0].folder}" if len(folders) == 1 else "there"
    at_least = "at least " if any(files.is_cut for files in unfetched) else ""
    patterns = _fetch_patterns({path for files in unfetched for path in files.paths})
    fetch_options = " ".join(f"--fetch {shlex.quote(pattern)}" for pattern in patterns)
    written_text = f"wrote {at_least}{listed(host_texts)}; they stay {place_text}"
    return [f"{written_text}; with {fetch_options}, a run brings such files at its end"]


def _files_on_host(state: RunState, index: int) -> HostFiles | None:
    """Return what a host has that is neither fetched nor on this machine as well."""
    ended = state.hosts[index].ended
    script = state.plan.script
    if ended is None or not script:
        return None
    work_folder = _work_folder(state, index)
    fetch_patterns = script.fetch if state.plan.policy.fetch else ()
    paths = tuple(path for path in ended.written if not matches(path, fetch_patterns))
    # One file stands for all: a folder is shared as a whole, or not.
    if not paths or _is_shared(state.plan.project, work_folder, paths[0]):
        return None
    num_unnamed = max(0, ended.written_count - len(ended.written))
    host_name = state.host_name(index)
    return HostFiles(host_name, work_folder, paths, len(paths) + num_unnamed, ended.written_cut)


def _work_folder(state: RunState, index: int) -> str:
    """Return where the program of a host worked. Of an upload, the host has told where its workdir
    is: a recorded plan does not."""
    plan = state.plan
    hello = state.hosts[index].hello
    if plan.project and hello and hello.folder:
        return one_line(f"{workdir_of(hello.folder)}/{UPLOADS}/{plan.project}")
    return plan.cwd(index)


def _is_shared(project: str, folder: str, path: str) -> bool:
    """Return True if a host that may share its files with this machine wrote what is here, too."""
    # A path from the home leads to another folder here, and an upload is a copy.
    may_be_shared = not project and folder.startswith("/")
    return may_be_shared and os.path.exists(os.path.join(folder, path))


def _name_files(files: HostFiles) -> str:
    file_names = [one_line(path) for path in files.paths[:MAX_NAMED_FILES]]
    if files.count > len(file_names):
        file_names.append("…")
    return f"{count(files.count, 'file')} on {files.host} ({', '.join(file_names)})"


def _fetch_patterns(paths: Collection[str]) -> list[str]:
    """Return patterns of `--fetch` that bring these files: each folder with all that is in it, and
    files outside of folders by name, or by their ending where several share one."""
    folders = {f"{path.partition('/')[0]}/*" for path in paths if "/" in path}
    files = [path for path in paths if "/" not in path]
    endings = Counter(os.path.splitext(file)[1] for file in files)
    name_patterns = set[str]()
    for file in files:
        ending = os.path.splitext(file)[1]
        name_patterns.add(f"*{ending}" if ending and endings[ending] > 1 else file)
    return [
        one_line(pattern) for pattern in (*sorted(folders), *sorted(name_patterns))[:MAX_PATTERNS]
    ]

"""Telling a command or a URL of the user that a run stalls or has ended.

It is asked only by options of this launcher: what a recorded plan says never makes anything run.
"""

from __future__ import annotations

import base64
import http.client
import json
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.error import HTTPError
from urllib.parse import unquote, urlsplit

from remote.format import duration, percent
from remote.record import marks
from remote.record.summary import to_strict_json
from remote.run.findings.flaws import find_flaws
from remote.run.run_state import RunState
from remote.sanitise import one_line

LIMIT = 15.0
"""Seconds that a command or an answer may take."""
STALLED = "stalled"
LOST = "lost"
WORDS = 4096
"""Bytes of a command's stderr that are looked at."""
_PLAIN = re.compile(r"[\w./~+-]+")
"""A first word of a command that the shell takes as it is."""


class NotifyError(ValueError):
    """The target of --notify is wrong; the text says why, and what to write."""


@dataclass(frozen=True)
class Webhook:
    """A URL that gets a POST with JSON."""

    url: str
    """Without user and password: they would be looked up as a part of the host's name."""
    authorization: str = ""
    """The header that has user and password instead; "" where the target has none."""

    @property
    def name(self) -> str:
        """Return the URL without its path, which may be secret."""
        url_parts = urlsplit(self.url)
        return f"{url_parts.scheme}://{url_parts.netloc}"

    @property
    def shareable(self) -> str:
        """Return the URL, with placeholders for user and password."""
        if not self.authorization:
            return self.url
        return self.url.replace("://", "://USER:PASSWORD@", 1)

    def send(self, facts: Mapping[str, Any], time_limit: float) -> None:
        """Post these facts. Raises: OSError, ValueError."""
        headers = {"Content-Type": "application/json", "User-Agent": "rankboard"}
        if self.authorization:
            headers["Authorization"] = self.authorization
        body = json.dumps(facts).encode()
        request = urllib.request.Request(self.url, body, headers, method="POST")
        try:
            urllib.request.build_opener(_RedirectRefuser).open(request, timeout=time_limit).close()
        except http.client.HTTPException:
            raise ValueError("the answer is not HTTP") from None


@dataclass(frozen=True)
class ShellCommand:
    """A command that gets the facts on stdin, and as variables."""

    shareable: str
    """The command as the user wrote it."""

    @property
    def name(self) -> str:
        """Return the command without its arguments, which may be secret."""
        first_word = _PLAIN.match(self.shareable)
        return first_word[0] if first_word else "the command"

    def send(self, facts: Mapping[str, Any], time_limit: float) -> None:
        """Run the command. Raises: OSError, SubprocessError."""
        fact_values = {
            fact_name: "" if fact_value is None else fact_value
            for fact_name, fact_value in facts.items()
        }
        fact_values["hosts"] = ",".join(facts["hosts"])
        variables = {
            f"RANKBOARD_{fact_name.upper()}": str(value_text)
            for fact_name, value_text in fact_values.items()
        }
        # Files, not pipes, which what a command leaves in the background would hold open.
        with tempfile.TemporaryFile() as input_file, tempfile.TemporaryFile() as error_file:
            input_file.write(json.dumps(facts).encode() + b"\n")
            input_file.seek(0)
            process = subprocess.Popen(
                ("sh", "-c", self.shareable),
                stdin=input_file,
                stdout=subprocess.DEVNULL,
                stderr=error_file,
                env=os.environ | variables,
                # So that a timeout can kill all that the command has started, and Ctrl+C does not
                # reach it.
                start_new_session=True,
            )
            try:
                exit_code = process.wait(time_limit)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)  # it is there until it is waited for
                process.wait()
                raise
            if exit_code:
                error_file.seek(max(0, error_file.tell() - WORDS))
                error_lines = error_file.read().decode(errors="replace").strip().splitlines()
                raise OSError("; ".join([f"exit code {exit_code}", *error_lines[-1:]]))


class Notifier:
    """Tells `target` of runs, in the background: a URL gets a POST with JSON; a command, which the
    shell runs, gets the same on stdin, and as variables.

    Raises: NotifyError, where `target` is no command and no URL.
    """

    def __init__(self, target: str, time_limit: float = LIMIT) -> None:
        self._limit = time_limit
        self._target = _parse(target.strip())
        self._threads: list[threading.Thread] = []
        self._has_failed = False
        self._failure = ""

    @property
    def shareable_target(self) -> str:
        """Return the target for a command line that others may see: without user and password."""
        return self._target.shareable

    def observe(self, state: RunState, folder: Path) -> Observer:
        """Begin to look at a run that is recorded in a folder."""
        return Observer(self, state, folder)

    def send(self, facts: Mapping[str, Any]) -> None:
        """Send these facts; returns at once."""
        thread = threading.Thread(target=self._deliver, args=(facts,), name="notify", daemon=True)
        self._threads.append(thread)
        thread.start()

    def failure(self) -> str:
        """Say why the first notification that failed did so, once; else ""."""
        first_failure = self._failure
        self._failure = ""
        return first_failure

    def wait(self) -> None:
        """Wait for notifications that are under way, at most as long as one may take."""
        deadline = time.monotonic() + self._limit
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _deliver(self, facts: Mapping[str, Any]) -> None:
        try:
            self._target.send(facts, self._limit)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if not self._has_failed:
                self._has_failed = True
                reason = one_line(_explain(error, self._limit))
                self._failure = f"--notify: {self._target.name}: {reason}"


class Observer:
    """Notices what happens in a run from now on, and has the notifier send it."""

    def __init__(self, notifier: Notifier, state: RunState, folder: Path) -> None:
        self._notifier = notifier
        self._folder = folder
        self.failure = notifier.failure
        self._stalls = len(state.stalls)
        self._is_over = state.verdict is not None

    def look(self, state: RunState) -> None:
        """Send what is new."""
        if len(state.stalls) > self._stalls:
            self._stalls = len(state.stalls)
            self._notify(state, STALLED, f"{STALLED}: {state.stalls[-1].text}")
        if self._is_over:
            return
        if state.verdict is not None:
            self._is_over = True
            word = state.verdict.word
            self._notify(state, word, f"{word} {_ending(state)}")
        elif state.launcher.cut_off:
            self._is_over = True
            self._notify(state, LOST, f"{LOST}: no host answers any more")

    def _notify(self, state: RunState, event: str, event_text: str) -> None:
        self._notifier.send(facts(state, event, event_text, self._folder))


def facts(state: RunState, event_name: str, event_text: str, folder: Path) -> dict[str, Any]:
    """Return the facts of a run: `event_name` is its verdict or "stalled", `event_text` what
    follows its name in a sentence for people. Seconds, shares; None is unknown."""
    plan = state.plan
    evaluations = state.progress.evaluations
    run_name = one_line(marks.name(folder))
    fact_values = {
        "event": event_name,
        "run": plan.run,
        "name": run_name or None,
        "text": one_line(f"{run_name or plan.run} {event_text}"),
        "what": plan.what,
        "hosts": [host.name for host in plan.hosts],
        "ranks": plan.world_size,
        "exit_code": state.verdict.value if state.verdict else None,
        "cause": one_line(state.cause.text()) if state.cause else None,
        "step": state.step,
        "steps": state.progress.steps or None,
        "elapsed": round(state.elapsed, 3),
        "test_accuracy": evaluations[-1].accuracy if evaluations else None,
        "test_loss": evaluations[-1].loss if evaluations else None,
        "folder": str(folder),
    }
    strict_facts: dict[str, Any] = to_strict_json(fact_values)
    return strict_facts


def _ending(state: RunState) -> str:
    """After which time a run has ended, at which step, why, and with which accuracy."""
    progress = state.progress
    text_parts = [f"after {duration(state.elapsed)} at step {state.step}/{progress.steps or '?'}"]
    if state.cause:
        text_parts.append(state.cause.text())
    text_parts += [flaw.text for flaw in find_flaws(state)]
    if progress.evaluations:
        text_parts.append(f"test accuracy {percent(progress.evaluations[-1].accuracy, 1)}")
    return "; ".join(text_parts)


def _parse(notify_target: str) -> Webhook | ShellCommand:
    """Raises: NotifyError."""
    scheme = notify_target.partition("://")[0].lower()
    if "://" in notify_target and scheme.isalpha():
        return _parse_url(notify_target, scheme)
    if not notify_target:
        raise NotifyError("--notify: give a command, or a URL such as https://example.org/hook")
    first_word = notify_target.split(maxsplit=1)[0]
    lookup_command = ("sh", "-c", 'command -v -- "$1"', "sh", os.path.expanduser(first_word))
    # Only a plain word can be looked up: the shell may make anything of another one.
    if (
        _PLAIN.fullmatch(first_word)
        and subprocess.run(lookup_command, capture_output=True).returncode
    ):
        raise NotifyError(f"--notify: there is no command {first_word}")
    return ShellCommand(notify_target)


def _parse_url(notify_target: str, scheme: str) -> Webhook:
    """Take user and password out of a URL. Raises: NotifyError, which shows no more of it than its
    scheme: what cannot be parsed may have a password anywhere."""
    try:
        url_parts = urlsplit(notify_target)
        is_address = (
            bool(url_parts.hostname) and url_parts.port != 0 and not re.search(r"\s", notify_target)
        )
    except ValueError:
        is_address = False
    if scheme not in ("http", "https") or not is_address:
        raise NotifyError(
            f"--notify {scheme}://…: give a URL such as https://example.org/hook, or a command"
        )
    credentials, _, address = url_parts.netloc.rpartition("@")
    if not credentials:
        return Webhook(notify_target)
    user, _, password = credentials.partition(":")
    encoded_credentials = base64.b64encode(f"{unquote(user)}:{unquote(password)}".encode()).decode()
    return Webhook(url_parts._replace(netloc=address).geturl(), f"Basic {encoded_credentials}")


class _RedirectRefuser(urllib.request.HTTPRedirectHandler):
    """Fails where a URL sends us elsewhere: the usual handler would go there with GET, and without
    the facts."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> NoReturn:
        """Raises: OSError, which does not say where: that may be secret."""
        fp.close()
        raise OSError("redirected; give the address where it leads")

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


def _explain(error: Exception, time_limit: float) -> str:
    if isinstance(error, subprocess.TimeoutExpired | TimeoutError):
        return f"did not end within {time_limit:g} s"
    if isinstance(error, HTTPError):
        return str(error)  # such as "HTTP Error 404: Not Found"
    reason = getattr(error, "reason", error)
    return str(getattr(reason, "strerror", "") or reason)

"""Telling a command or a URL of the user that a run stalls or has ended.

It is asked only by options of this launcher: what a recorded plan says never makes anything run.
"""

from __future__ import annotations

import json
import math
import os
import re
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from remote.format import duration, percent
from remote.record import marks
from remote.run.state import RunState
from remote.sanitise import one_line

LIMIT = 15.0
"""Seconds that a command or an answer may take."""
PREFIX = "RANKBOARD_"
"""Begins the names of the variables for a command."""
STALLED, LOST = "stalled", "lost"
WORDS = 4096
"""Bytes of a command's stderr that are looked at."""
_SCHEMES = ("http", "https")
_PLAIN = re.compile(r"[\w./~+-]+")
"""A first word of a command that the shell takes as it is."""


class NotifyError(ValueError):
    """The target of --notify is wrong; the text says why, and what to write."""


class Notifier:
    """Tells `target` of runs, in the background: a URL gets a POST with JSON; a command, which the
    shell runs, gets the same on stdin, and as variables.

    Raises: NotifyError, where `target` is no command and no URL.
    """

    def __init__(self, target: str, limit: float = LIMIT) -> None:
        self.target, self._limit = target.strip(), limit
        self._is_url = _checked(self.target)
        self._threads: list[threading.Thread] = []
        self._failure: str | None = None
        self._is_taken = False

    def observe(self, state: RunState, folder: Path) -> Observer:
        """Begin to look at a run that is recorded in a folder."""
        return Observer(self, state, folder)

    def send(self, facts: Mapping[str, Any]) -> None:
        """Send these facts; returns at once."""
        thread = threading.Thread(target=self._deliver, args=(facts,), name="notify", daemon=True)
        self._threads.append(thread)
        thread.start()

    def failure(self) -> str:
        """Why the first notification that failed did so, once; else ""."""
        if self._failure is None or self._is_taken:
            return ""
        self._is_taken = True
        return self._failure

    def wait(self) -> None:
        """Wait for notifications that are under way, at most as long as one may take."""
        until = time.monotonic() + self._limit
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))

    def _deliver(self, facts: Mapping[str, Any]) -> None:
        try:
            (_post if self._is_url else _execute)(self.target, facts, self._limit)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if self._failure is None:
                what = one_line(_reason(error, self._limit))
                self._failure = f"--notify: {_shortened(self.target, self._is_url)}: {what}"


class Observer:
    """Notices what happens in a run from now on, and has the notifier send it."""

    def __init__(self, notifier: Notifier, state: RunState, folder: Path) -> None:
        self._notifier, self._folder = notifier, folder
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
        elif state.course.cut_off:
            self._is_over = True
            self._notify(state, LOST, f"{LOST}: no host answers any more")

    def _notify(self, state: RunState, event: str, text: str) -> None:
        self._notifier.send(facts(state, event, text, self._folder))


def facts(state: RunState, event: str, text: str, folder: Path) -> dict[str, Any]:
    """The facts of a run: `event` is its verdict or "stalled", `text` what follows its name in a
    sentence for people. Seconds, fractions; None is unknown."""
    tests, name = state.progress.evaluations, one_line(marks.name(folder))
    values = {
        "event": event,
        "run": state.plan.run,
        "name": name or None,
        "text": one_line(f"{name or state.plan.run} {text}"),
        "what": state.plan.what,
        "hosts": [host.name for host in state.plan.hosts],
        "ranks": state.plan.world_size,
        "exit_code": state.verdict.value if state.verdict else None,
        "cause": one_line(state.cause.text()) if state.cause else None,
        "step": state.step,
        "steps": state.progress.steps or None,
        "elapsed": round(state.elapsed, 3),
        "test_accuracy": tests[-1].accuracy if tests else None,
        "test_loss": tests[-1].loss if tests else None,
        "folder": str(folder),
    }
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in values.items()
    }


def _ending(state: RunState) -> str:
    """After which time a run has ended, at which step, why, and with which accuracy."""
    step = f"step {state.step}/{state.progress.steps or '?'}"
    parts = [f"after {duration(state.elapsed)} at {step}"]
    if state.cause:
        parts.append(state.cause.text())
    elif state.progress.diverged:
        parts.append(state.progress.diverged.text)
    if state.progress.evaluations:
        parts.append(f"test accuracy {percent(state.progress.evaluations[-1].accuracy, 2)}")
    return "; ".join(parts)


def _checked(target: str) -> bool:
    """Whether a target is a URL, else it is a command. Raises: NotifyError."""
    scheme = target.partition("://")[0].lower()
    if "://" in target and scheme.isalpha():
        if scheme not in _SCHEMES or not _is_address(target):
            raise NotifyError(
                f"--notify {target}: give a URL such as https://example.org/hook, or a command"
            )
        return True
    word = target.split(maxsplit=1)[0] if target else ""
    if not word:
        raise NotifyError("--notify: give a command, or a URL such as https://example.org/hook")
    looks_up = ("sh", "-c", 'command -v -- "$1"', "sh", os.path.expanduser(word))
    if _PLAIN.fullmatch(word) and subprocess.run(looks_up, capture_output=True).returncode:
        raise NotifyError(f"--notify: there is no command {word}")
    return False


def _is_address(url: str) -> bool:
    """Whether a URL has a host, a port that is a number, and no blanks."""
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", url)
    except ValueError:
        return False


def _post(url: str, facts: Mapping[str, Any], limit: float) -> None:
    """Raises: OSError, ValueError."""
    import http.client  # of which most runs need nothing
    import urllib.request

    head = {"Content-Type": "application/json", "User-Agent": "rankboard"}
    request = urllib.request.Request(url, json.dumps(facts).encode(), head, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=limit):
            pass
    except http.client.HTTPException:
        raise ValueError("the answer is not HTTP") from None


def _execute(command: str, facts: Mapping[str, Any], limit: float) -> None:
    """Raises: OSError, SubprocessError."""
    # Files, not pipes, which what a command leaves in the background would hold open.
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as words:
        given.write(json.dumps(facts).encode() + b"\n")
        given.seek(0)
        process = subprocess.Popen(
            ("sh", "-c", command),
            stdin=given,
            stdout=subprocess.DEVNULL,
            stderr=words,
            env=os.environ | _variables(facts),
            start_new_session=True,
        )
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # it is there until it is waited for
            process.wait()
            raise
        if code:
            words.seek(max(0, words.tell() - WORDS))
            raise subprocess.CalledProcessError(code, command, stderr=words.read())


def _variables(facts: Mapping[str, Any]) -> dict[str, str]:
    """The facts as environment variables; "" is unknown."""
    return {f"{PREFIX}{name.upper()}": _text(value) for name, value in facts.items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, list) else str(value)


def _shortened(target: str, is_url: bool) -> str:
    """A target without what may be secret: the path of a URL, or the arguments of a command."""
    if is_url:
        parts = urlsplit(target)
        return f"{parts.scheme}://{parts.hostname}"
    word = _PLAIN.match(target)
    return word[0] if word else "the command"


def _reason(error: Exception, limit: float) -> str:
    match error:
        case subprocess.TimeoutExpired() | TimeoutError():
            return f"did not end within {limit:g} s"
        case subprocess.CalledProcessError(returncode=code, stderr=words):
            last = words.decode(errors="replace").strip().splitlines()[-1:]
            return "; ".join([f"exit code {code}", *last])
        case _:  # of HTTP, such as "HTTP Error 404: Not Found", or of the network
            reason = getattr(error, "reason", error)
            is_answer = hasattr(error, "code")
            return str(error) if is_answer else str(getattr(reason, "strerror", "") or reason)

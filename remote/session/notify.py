"""Telling a command or a URL of the user that a run stalls or has ended.

It is asked only by options of this launcher: what a recorded plan says never makes anything run.
"""

from __future__ import annotations

import base64
import http.client
import json
import math
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
from urllib.parse import SplitResult, unquote, urljoin, urlsplit

from remote.format import duration, percent
from remote.record import marks
from remote.run.run_state import RunState
from remote.sanitise import one_line

LIMIT = 15.0
"""Seconds that a command or an answer may take."""
PREFIX = "RANKBOARD_"
"""Begins the names of the variables for a command."""
STALLED = "stalled"
LOST = "lost"
WORDS = 4096
"""Bytes of a command's stderr that are looked at."""
_SCHEMES = ("http", "https")
_PLAIN = re.compile(r"[\w./~+-]+")
"""A first word of a command that the shell takes as it is."""
_LONGEST_HOST = 253
"""Characters of a host's name that are shown, the most that a name server knows."""


class NotifyError(ValueError):
    """The target of --notify is wrong; the text says why, and what to write."""


class RedirectError(OSError):
    """A URL sends us elsewhere. `place` is the scheme, the host and the port, "" where they are not
    known; `is_other_path`: its path or query is another one, too."""

    def __init__(self, place: str, *, is_other_path: bool = False) -> None:
        super().__init__(place)
        self.place = place
        self.is_other_path = is_other_path


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
        return _place(urlsplit(self.url))

    @property
    def shareable(self) -> str:
        """Return the URL, with placeholders for user and password."""
        scheme, _, rest = self.url.partition("://")
        return f"{scheme}://USER:PASSWORD@{rest}" if self.authorization else self.url

    def send(self, facts: Mapping[str, Any], limit: float) -> None:
        """Post these facts. Raises: OSError, ValueError."""
        head = {"Content-Type": "application/json", "User-Agent": "rankboard"}
        if self.authorization:
            head["Authorization"] = self.authorization
        body = json.dumps(facts).encode()
        request = urllib.request.Request(self.url, body, head, method="POST")
        opener = urllib.request.build_opener(_RedirectRefuser)
        try:
            with opener.open(request, timeout=limit):
                pass
        except http.client.HTTPException:
            raise ValueError("the answer is not HTTP") from None


@dataclass(frozen=True)
class ShellCommand:
    """A command that gets the facts on stdin, and as variables."""

    text: str

    @property
    def name(self) -> str:
        """Return the command without its arguments, which may be secret."""
        word = _PLAIN.match(self.text)
        return word[0] if word else "the command"

    @property
    def shareable(self) -> str:
        """Return the command as the user wrote it."""
        return self.text

    def send(self, facts: Mapping[str, Any], limit: float) -> None:
        """Run the command. Raises: OSError, SubprocessError."""
        _execute(self.text, facts, limit)


class Notifier:
    """Tells `target` of runs, in the background: a URL gets a POST with JSON; a command, which the
    shell runs, gets the same on stdin, and as variables.

    Raises: NotifyError, where `target` is no command and no URL.
    """

    def __init__(self, target: str, limit: float = LIMIT) -> None:
        self._limit = limit
        self._target = _parse(target.strip())
        self._threads: list[threading.Thread] = []
        self._failure: str | None = None
        self._is_taken = False

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
            self._target.send(facts, self._limit)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            if self._failure is None:
                what = one_line(_reason(error, self._limit))
                self._failure = f"--notify: {self._target.name}: {what}"


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

    def _notify(self, state: RunState, event: str, text: str) -> None:
        self._notifier.send(facts(state, event, text, self._folder))


def facts(state: RunState, event: str, text: str, folder: Path) -> dict[str, Any]:
    """Return the facts of a run: `event` is its verdict or "stalled", `text` what follows its name
    in a sentence for people. Seconds, shares; None is unknown."""
    tests = state.progress.evaluations
    name = one_line(marks.name(folder))
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


def _parse(target: str) -> Webhook | ShellCommand:
    """Raises: NotifyError."""
    scheme = target.partition("://")[0].lower()
    if "://" in target and scheme.isalpha():
        return _parse_url(target, scheme)
    word = target.split(maxsplit=1)[0] if target else ""
    if not word:
        raise NotifyError("--notify: give a command, or a URL such as https://example.org/hook")
    looks_up = ("sh", "-c", 'command -v -- "$1"', "sh", os.path.expanduser(word))
    if _PLAIN.fullmatch(word) and subprocess.run(looks_up, capture_output=True).returncode:
        raise NotifyError(f"--notify: there is no command {word}")
    return ShellCommand(target)


def _parse_url(target: str, scheme: str) -> Webhook:
    """Take user and password out of a URL. Raises: NotifyError, which shows no more of it than its
    scheme: what cannot be parsed may have a password anywhere."""
    try:
        parts = urlsplit(target)
        is_address = bool(parts.hostname) and parts.port != 0 and not re.search(r"\s", target)
    except ValueError:
        is_address = False
    if scheme not in _SCHEMES or not is_address:
        raise NotifyError(
            f"--notify {scheme}://…: give a URL such as https://example.org/hook, or a command"
        )
    if parts.username is None:
        return Webhook(target)
    user = unquote(parts.username)
    if ":" in user:
        raise NotifyError(f"--notify {scheme}://…: the user's name in a URL has no colon")
    password = unquote(parts.password or "")
    credentials = base64.b64encode(f"{user}:{password}".encode()).decode()
    bare = parts._replace(netloc=parts.netloc.rpartition("@")[2])
    return Webhook(bare.geturl(), f"Basic {credentials}")


def _place(parts: SplitResult) -> str:
    """Return the scheme, the host and the port of a URL. Raises: ValueError, if its port cannot be
    one."""
    host = (parts.hostname or "")[:_LONGEST_HOST]
    if ":" in host:
        host = f"[{host}]"
    port = "" if parts.port is None else f":{parts.port}"
    return f"{parts.scheme}://{host}{port}"


class _RedirectRefuser(urllib.request.HTTPRedirectHandler):
    """Fails where a URL sends us elsewhere: the usual handler would go there with GET, and without
    the facts."""

    def http_error_302(self, req: Any, fp: Any, code: int, msg: str, headers: Any) -> NoReturn:
        """Raises: RedirectError."""
        fp.close()
        location = headers.get("Location") or ""
        asked = urlsplit(req.full_url)
        try:
            target = urlsplit(urljoin(req.full_url, location))
            place = _place(target) if location and target.hostname else ""
        except ValueError:
            raise RedirectError("") from None
        is_other_path = (target.path, target.query) != (asked.path, asked.query)
        raise RedirectError(place, is_other_path=is_other_path)

    http_error_301 = http_error_303 = http_error_307 = http_error_308 = http_error_302


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
    """Return the facts as environment variables; "" is unknown."""
    return {f"{PREFIX}{name.upper()}": _text(value) for name, value in facts.items()}


def _text(value: Any) -> str:
    if value is None:
        return ""
    return ",".join(value) if isinstance(value, list) else str(value)


def _reason(error: Exception, limit: float) -> str:
    match error:
        case subprocess.TimeoutExpired() | TimeoutError():
            return f"did not end within {limit:g} s"
        case RedirectError(place=""):
            return "redirected; give the address where it leads"
        case RedirectError(place=place, is_other_path=True):
            return f"redirected to another path of {place}; give the address where it leads"
        case RedirectError(place=place):
            return f"redirected to {place}; give that address"
        case subprocess.CalledProcessError(returncode=code, stderr=words):
            last = words.decode(errors="replace").strip().splitlines()[-1:]
            return "; ".join([f"exit code {code}", *last])
        case _:  # of HTTP, such as "HTTP Error 404: Not Found", or of the network
            reason = getattr(error, "reason", error)
            is_answer = hasattr(error, "code")
            return str(error) if is_answer else str(getattr(reason, "strerror", "") or reason)

"""A command or a URL hears that a run stalls or has ended: all facts, and once."""

from __future__ import annotations

import base64
import json
import math
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, cast

import pytest

from remote.events import Stalled
from remote.record import marks
from remote.session.notify import Notifier, NotifyError, Observer, facts
from tests.kit.histories import History, plan, raised, stepped
from training.wire.rank_events import Evaluated

FOLDER = Path("/runs/one")
FACTS = {"event": "finished", "text": 'it\'s "done"; $HOME', "steps": None, "hosts": ["a", "b"]}


class Hook(HTTPServer):
    """Keeps what is posted, and answers with a status, late where that is asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self.status = 204
        self.hold = threading.Event()
        self.hold.set()
        self.greeting = b""
        self.location = ""
        self.authorizations: list[str | None] = []
        self.gets = 0

    @property
    def place(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    @property
    def url(self) -> str:
        return f"{self.place}/secret/hook"


class Answer(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        hook = cast(Hook, self.server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        hook.heard.append((self.headers["Content-Type"], json.loads(body)))
        hook.authorizations.append(self.headers["Authorization"])
        hook.hold.wait(30)
        if hook.greeting:
            self.wfile.write(hook.greeting)
            return
        self.send_response(hook.status)
        if hook.location:
            self.send_header("Location", hook.location)
        self.end_headers()

    def do_GET(self) -> None:
        cast(Hook, self.server).gets += 1
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.hold.set()
        server.shutdown()
        thread.join()


def sent(notifier: Notifier, facts: dict[str, Any]) -> str:
    """Send the facts; returns why that failed."""
    notifier.send(facts)
    notifier.wait()
    return notifier.failure()


def test_a_url_gets_the_facts_as_json(hook: Hook) -> None:
    assert sent(Notifier(hook.url), FACTS) == ""
    assert hook.heard == [("application/json", FACTS)]


def test_a_command_gets_them_on_stdin_and_as_variables(tmp_path: Path) -> None:
    said = tmp_path / "said"
    command = f'cat > {said}; echo "$RANKBOARD_TEXT|$RANKBOARD_STEPS|$RANKBOARD_HOSTS" >> {said}'
    assert sent(Notifier(command), FACTS) == ""
    on_stdin, variables = said.read_text().splitlines()
    assert json.loads(on_stdin) == FACTS
    assert variables == 'it\'s "done"; $HOME||a,b'


def test_a_script_may_have_arguments(tmp_path: Path) -> None:
    script = tmp_path / "tell"
    script.write_text(f"#!/bin/sh\necho $1 $RANKBOARD_EVENT > {tmp_path}/said\n")
    script.chmod(0o755)
    assert sent(Notifier(f"{script} loudly"), FACTS) == ""
    assert (tmp_path / "said").read_text() == "loudly finished\n"


def test_nobody_waits_for_it(hook: Hook) -> None:
    hook.hold.clear()
    notifier = Notifier(hook.url)
    notifier.send(FACTS)
    assert notifier.failure() == "", "it is sent, or will be"
    hook.hold.set()
    notifier.wait()
    assert len(hook.heard) == 1


def test_a_failure_is_said_once_and_without_secrets(hook: Hook) -> None:
    hook.status = 404
    notifier = Notifier(hook.url)
    assert sent(notifier, FACTS) == f"--notify: {hook.place}: HTTP Error 404: Not Found"
    assert sent(notifier, FACTS) == "", "once"
    assert len(hook.heard) == 2, "but it is tried again"


@pytest.mark.parametrize(
    ("written", "credentials"),
    [
        ("ada:PASSWORD", "ada:PASSWORD"),
        ("ada%40example.org:p%40ss%3Aw%2F%C3%A9", "ada@example.org:p@ss:w/é"),
        ("token", "token:"),
        (":PASSWORD", ":PASSWORD"),
    ],
)
def test_credentials_in_a_url_are_sent_in_a_header(
    hook: Hook, written: str, credentials: str
) -> None:
    notifier = Notifier(hook.url.replace("://", f"://{written}@"))
    assert sent(notifier, FACTS) == ""
    (authorization,) = hook.authorizations
    assert authorization is not None
    scheme, _, encoded = authorization.partition(" ")
    assert (scheme, base64.b64decode(encoded).decode()) == ("Basic", credentials)
    shareable = hook.url.replace("://", "://USER:PASSWORD@")
    assert notifier.shareable_target == shareable


def test_credentials_are_not_looked_up_and_not_shown(hook: Hook) -> None:
    hook.status = 403
    notifier = Notifier(hook.url.replace("://", "://ada:SECRET@"))
    assert sent(notifier, FACTS) == f"--notify: {hook.place}: HTTP Error 403: Forbidden"
    for target in ("ftp://ada:SECRET@h/x", "http://ada:SEC/RET@h/x"):
        with pytest.raises(NotifyError) as refused:
            Notifier(target)
        assert "SEC" not in str(refused.value)
        assert "RET" not in str(refused.value)


def test_a_url_without_credentials_and_a_command_are_shared_as_they_are(hook: Hook) -> None:
    assert Notifier(hook.url).shareable_target == hook.url
    assert Notifier("echo hello").shareable_target == "echo hello"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_a_failure(hook: Hook, status: int) -> None:
    hook.status, hook.location = status, hook.url.replace("secret", "SECRET")
    url = hook.url.replace("://", "://ada:SECRET@")
    told = f"--notify: {hook.place}: redirected; give the address where it leads"
    assert sent(Notifier(url), FACTS) == told
    assert (len(hook.heard), hook.gets) == (1, 0), "nothing is sent to the other address"


@pytest.mark.parametrize("location", ["", "http://[::1", "http://127.0.0.1:high/"])
def test_a_redirect_to_nowhere_is_a_failure(hook: Hook, location: str) -> None:
    hook.status, hook.location = 302, location
    told = f"--notify: {hook.place}: redirected; give the address where it leads"
    assert sent(Notifier(hook.url), FACTS) == told


@pytest.mark.parametrize(
    ("target", "failure"),
    [
        ("sh -c 'echo no mail here >&2; exit 3' token", "sh: exit code 3; no mail here"),
        ("http://127.0.0.1:1/token", "http://127.0.0.1:1: Connection refused"),
    ],
)
def test_why_it_failed(target: str, failure: str) -> None:
    assert sent(Notifier(target), FACTS) == f"--notify: {failure}"


def test_an_answer_of_another_service_is_a_failure(hook: Hook) -> None:
    hook.greeting = b"SSH-2.0-OpenSSH\r\n"
    assert sent(Notifier(hook.url), FACTS) == f"--notify: {hook.place}: the answer is not HTTP"


@pytest.mark.parametrize("target", ["sleep 60 & sleep 60", "sleep 60; true"])
def test_a_command_that_does_not_end_is_killed(target: str) -> None:
    notifier = Notifier(target, time_limit=0.1)
    notifier.send(FACTS)
    (thread,) = notifier._threads
    thread.join()
    assert notifier.failure() == "--notify: sleep: did not end within 0.1 s"


def test_what_a_command_leaves_in_the_background_is_not_waited_for(tmp_path: Path) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    assert sent(Notifier(f"cat {go} & true"), FACTS) == ""
    go.write_text("on")


def test_an_answer_that_does_not_come_is_not_waited_for(hook: Hook) -> None:
    hook.hold.clear()
    notifier = Notifier(hook.url, time_limit=0.1)
    notifier.send(FACTS)
    (thread,) = notifier._threads
    thread.join()
    assert notifier.failure() == f"--notify: {hook.place}: did not end within 0.1 s"


@pytest.mark.parametrize(
    ("target", "why"),
    [
        (" ", "give a command, or a URL"),
        ("ftp://example.org/x", "give a URL such as https://"),
        ("https:///x", "give a URL such as https://"),
        ("http://[::1", "give a URL such as https://"),
        ("http://example.org:high/x", "give a URL such as https://"),
        ("http://example.org/a b", "give a URL such as https://"),
        ("no-such-command --loud", "there is no command no-such-command"),
        ("/no/such/script", "there is no command /no/such/script"),
    ],
)
def test_what_cannot_work_is_refused_at_once(target: str, why: str) -> None:
    with pytest.raises(NotifyError, match=f"--notify.*{why}"):
        Notifier(target)


@pytest.mark.parametrize("target", ["cd /; true", "X=1 true", '"/bin/echo" hello', "~root; true"])
def test_what_only_the_shell_knows_is_left_to_it(target: str) -> None:
    Notifier(target)


# What is sent of a run ----------------------------------------------------------------------------


class Memory(Notifier):
    """Remembers what is sent."""

    def __init__(self) -> None:
        super().__init__("true")
        self.all: list[tuple[str, str]] = []

    def send(self, facts: Any) -> None:
        self.all.append((facts["event"], facts["text"].partition(" ")[2]))


def test_a_stall_and_the_end_are_sent_once_each() -> None:
    history, notifier = History(plan(2)).training(3), Memory()
    observer = notifier.observe(history.state(), FOLDER)
    observer.look(history.state())
    assert not notifier.all
    history.session(Stalled((0, 1), 30.0))
    for _ in range(2):
        observer.look(history.state())
    history.session(Stalled((0, 1), 40.0))
    observer.look(history.state())
    assert notifier.all == [("stalled", "stalled: ranks 0 and 1 have made no step for 30 s")]
    history.rank(0, stepped(0, 4)).rank(1, stepped(1, 4)).done(0, 1)
    for _ in range(2):
        observer.look(history.closed())
    assert [event for event, _ in notifier.all] == ["stalled", "finished"]
    assert notifier.all[-1][1] == "finished after 0 s at step 4/40"


def test_what_was_over_before_is_not_sent() -> None:
    history, notifier = History(plan(2)).training(40).session(Stalled((0, 1), 30.0)), Memory()
    state = history.done(0, 1).closed()
    Observer(notifier, state, FOLDER).look(state)
    assert not notifier.all


def test_a_failure_is_sent_with_its_cause() -> None:
    history = History(plan(2)).training(3)
    history.rank(0, Evaluated(0, 1, 3, 0.5, 0.875, 100, 1.0))
    history.rank(1, *raised(1, "ValueError: bad \x1b[31mdata\x00"))
    state = history.closed()
    found = facts(state, "failed", "x", FOLDER)
    assert (found["event"], found["exit_code"]) == ("failed", 1)
    assert (found["step"], found["steps"]) == (3, 40)
    assert "rank 1" in found["cause"]
    assert "\x1b" not in found["cause"]
    assert "\x00" not in json.dumps(found)
    assert (found["test_accuracy"], found["hosts"]) == (0.875, ["node1", "node2"])
    assert found["folder"] == "/runs/one"


def test_a_run_with_a_name_is_called_by_it(tmp_path: Path) -> None:
    state = History(plan(1)).training(3).done(0).closed()
    found = facts(state, "finished", "finished", tmp_path)
    assert (found["name"], found["text"]) == (None, f"{state.plan.run} finished")
    marks.write_name(tmp_path, "baseline")
    found = facts(state, "finished", "finished", tmp_path)
    assert (found["name"], found["text"]) == ("baseline", "baseline finished")
    assert found["run"] == state.plan.run


def test_a_loss_that_is_nan_is_sent_with_the_end() -> None:
    history, notifier = History(plan(1)).training(3), Memory()
    observer = notifier.observe(history.state(), FOLDER)
    history.rank(0, replace(stepped(0, 4), loss=math.nan)).done(0)
    observer.look(history.closed())
    assert notifier.all[-1][1].endswith("; diverged at step 4: loss 2 → NaN")

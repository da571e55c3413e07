"""A stand-in for the package `training` whose agent only answers lines, so that transports are
tested without a run.

It says the marker and, in the same write, `hello` with its process id, niceness, session, umask and
where its code lies; then it answers each line `x` of stdin with `echo x`, but for `exit`, `stderr
N` (write N bytes there) and `burst N` (N bytes out).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from textwrap import indent

from remote.transport import AgentCommand, Channel

AGENT = """
import json, os, sys
umask = os.umask(0o77)
os.umask(umask)
facts = {"pid": os.getpid(), "nice": os.nice(0), "sid": os.getsid(0), "umask": umask,
         "code": __file__, "argv": argv}
os.write(1, b"rankboard-agent 1\\nhello " + json.dumps(facts).encode() + b"\\n")
for line in sys.stdin:
    word, _, number = line.strip().partition(" ")
    if word == "exit":
        sys.exit(int(number or 0))
    elif word == "stderr":
        sys.stderr.write("e" * int(number) + "\\n")
        sys.stderr.flush()
    elif word == "burst":
        sys.stdout.write("b" * int(number) + "\\n")
    elif word == "stay":
        import time
        time.sleep(60)
    sys.stdout.write("echo " + line)
    sys.stdout.flush()
"""


def package(folder: Path, agent: str = AGENT) -> Path:
    """The folder of such a package, made below `folder`; `agent` is what its
    `training.agent.__main__.main(argv)` does."""
    root = folder / "standin" / "training"
    (root / "agent").mkdir(parents=True)
    (root / "__init__.py").write_text("")
    (root / "agent" / "__init__.py").write_text("")
    (root / "agent" / "__main__.py").write_text(
        f"def main(argv):\n{indent(agent, '    ')}\n    return 0\n"
    )
    return root


AN_AGENT = AgentCommand(
    folder="runs/it's a test/0", run="r", host=0, route_to="127.0.0.1", cwd="/tmp"
)


@dataclass
class Heard:
    """A progress that remembers."""

    phases: list[str] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def said(self, text: str) -> None:
        self.texts.append(text)


@dataclass
class Reader:
    """Reads whole lines from a transport's channel."""

    channel: Channel
    rest: bytes = b""

    def __next__(self) -> str:
        while b"\n" not in self.rest:
            data = self.channel.read()
            if not data:
                raise EOFError
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return line.decode()

    def hello(self) -> dict[str, object]:
        """The facts of the stand-in's first line."""
        word, _, facts = next(self).partition(" ")
        assert word == "hello"
        return dict(json.loads(facts))

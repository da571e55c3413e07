"""Stacks as ranks give them."""

from __future__ import annotations

from training.wire.host_events import Stack

SITE = "/opt/venv/lib/python3.11/site-packages"


C10D = (
    (f"{SITE}/torch/distributed/distributed_c10d.py", "all_reduce"),
    (f"{SITE}/torch/distributed/c10d_logger.py", "wrapper"),
)


OUTER = (
    ("/home/me/train.py", "step", "loss = step()"),
    ("/home/me/train.py", "<module>", "main()"),
)


def dump(
    *frames: tuple[str, ...], state: str = "S (sleeping), in futex_do_wait", before: str = ""
) -> Stack:
    """What the agent says of a rank whose calls are these, the newest first."""
    lines = [f"state: {state}; process 4711, python", *([before] if before else [])]
    lines.append("Current thread 0x00007f23197f0b80 (most recent call first):")
    for file, function, *code in frames:
        lines += [f'  File "{file}", line 41 in {function}', *(f"    {line}" for line in code)]
    return Stack(0, "faulthandler", "\n".join(lines) + "\n")


WAITS = dump(*C10D, *OUTER)


LOADS = dump(
    ("/home/me/train.py", "load_batch", "time.sleep(9)"),
    *OUTER,
    state="S (sleeping), in hrtimer_nanosleep",
)


STOPPED = Stack(
    0,
    "kernel",
    "state: T (stopped); process 7, python\nno Python stack: it is stopped, so it cannot report",
)


def by(stack: Stack, rank: int) -> Stack:
    return Stack(rank, stack.source, stack.text)

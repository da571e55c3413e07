"""Reading logs: lines per second on one core, of lines of one known format and of lines that hold
no metric.

Lines come in texts of 64 KiB, as a burst brings them; the format is chosen by the reader. Formats
take turns; the medians of the rounds count. Prints each, then its ratio to the bound, the ratios of
the bounds last.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable

from remote.formats.reader import LogReader

KNOWN, NONE = 30_000, 300_000
"""Lines per second, at least."""
TEXT = 1 << 16
LINES = 40_000
ROUNDS = 5


def nanogpt(n: int) -> str:
    return f"iter {n}: loss {4 - n / 20_000:.4f}, time {50 + n % 17:.2f}ms, mfu {n % 40}.25%"


def hugging_face(n: int) -> str:
    return (
        f"{{'loss': '{4 - n / 20_000:.4g}', 'grad_norm': '{n % 7}.25', 'learning_rate': "
        f"'{1e-5 * (n % 9 + 1):.4g}', 'epoch': '{n / 1000:.4g}'}}"
    )


def torchtitan(n: int) -> str:
    return (
        f"[titan] 2026-02-24 19:46:17,508 - root - INFO - step: {n:2}  "
        f"loss: {4 - n / 20_000:8.5f}  grad_norm: {n % 7}.6250  memory: 66.91GiB(37.51%)  "
        f"tps: 10,{n % 1000:03}  tflops: 314.71  mfu: 13.99%"
    )


def imagenet(n: int) -> str:
    return (
        f"Epoch: [{n // 5000}][{n % 5000:4}/5000]\tTime  0.{n % 900 + 100} ( 0.250)\tData  0.010 "
        f"( 0.020)\tLoss {4 - n / 20_000:.4e} (3.2e+00)\tAcc@1  {n % 90}.00 ( 30.00)\tAcc@5  "
        f"{n % 90}.50 ( 50.00)"
    )


def name_value(n: int) -> str:
    return f"epoch={n // 1000} step={n + 1} loss={4 - n / 20_000:.4f} lr=0.001"


def megatron(n: int) -> str:
    return (
        f" iteration {n:8}/  500000 | consumed samples: {n * 256:12} | elapsed time per "
        f"iteration (ms): {800 + n % 90}.1 | learning rate: 3.000000E-04 | global batch size:   "
        f"256 | lm loss: {4 - n / 20_000:.6E} | loss scale: 1.0 | grad norm: 0.{n % 900 + 100} | "
        "number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def ordinary(n: int) -> str:
    return (
        f"2026-11-24 02:{n % 60:02}:17,508 INFO loader: worker {n % 16} fetched shard-{n:06}.tar "
        f"(26.4 MiB) from cache",
        f"    def forward(self, x):  # line {n} of the model",
        f"(layer{n % 9}): Conv2d(64, {n % 512}, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1))",
        f"node{n % 8}: NCCL INFO Channel {n % 32:02}/32 : 0[0] -> 1[1] via P2P/IPC step {n}",
        f"UserWarning: the loss of precision of batch {n} is expected; see the notes",
    )[n % 5]


FORMATS: dict[str, tuple[Callable[[int], str], str]] = {
    "nanoGPT": (nanogpt, "nanoGPT"),
    "Hugging Face Trainer": (hugging_face, "Hugging Face Trainer"),
    "torchtitan": (torchtitan, "torchtitan"),
    "PyTorch imagenet": (imagenet, "PyTorch imagenet"),
    "Megatron-LM": (megatron, "Megatron-LM"),
    "name=value": (name_value, "name=value"),
    "no metric": (ordinary, ""),
}


def texts(line: Callable[[int], str], lines: int) -> list[str]:
    """The lines in texts of about 64 KiB."""
    made: list[str] = []
    part: list[str] = []
    size = 0
    for n in range(lines):
        part.append(line(n))
        size += len(part[-1]) + 1
        if size >= TEXT:
            made.append("\n".join(part))
            part, size = [], 0
    return [*made, "\n".join(part)]


def rate(blocks: list[str], lines: int, name: str) -> float:
    """Lines per second of one reader."""
    reader = LogReader()
    began = time.process_time()
    read = sum(len(reader.read(block)) for block in blocks)
    seconds = time.process_time() - began
    if (reader.format, read >= 0.99 * lines) != (name, bool(name)):
        raise SystemExit(f"read as {reader.format!r}: {read:,} readings of {lines:,} lines")
    return lines / seconds


def main() -> None:
    """Run the rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--lines", type=int, default=LINES)
    given = parser.parse_args()
    blocks = {name: texts(line, given.lines) for name, (line, _) in FORMATS.items()}
    rates: dict[str, list[float]] = {name: [] for name in FORMATS}
    for _ in range(given.rounds):
        for name, (_, expected) in FORMATS.items():
            rates[name].append(rate(blocks[name], given.lines, expected))
    for name, found in rates.items():
        bound = NONE if name == "no metric" else KNOWN
        middle = statistics.median(found)
        print(
            f"{name:22}{middle:>10,.0f} lines/s ({min(found):,.0f} to {max(found):,.0f}), "
            f"{middle / bound:.2f} of the bound of {bound:,}"
        )


if __name__ == "__main__":
    main()

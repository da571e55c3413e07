"""Cut the text of a terminal into records. What a terminal shows one after the other in one place
are records as well, such as the states of a progress bar."""

from __future__ import annotations

import re

LONGEST = 16_384
"""Characters of a record that are looked at."""
_REWRITES = re.compile(
    r"\x08+\r?|\x1b\[[0-9;]{0,16}[ABEFGHJKfsudST]|\x1b[78DEM]|\x9b[0-9;]{0,16}[ABEFGHJKfsud]"
)
"""What makes a terminal write over what stands there."""
_STYLES = re.compile(
    r"\x1b\[[0-?]{0,32}[ -/]{0,4}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\n]{0,4096}(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]{0,4}[0-~]|[\x00-\x07\x0b\x0c\x0e-\x1f\x7f\x9b]"
)
_PREFIX = re.compile(
    r"(?:"
    r"\s{0,40}(?:"
    r"\[\s{0,4}(?:[Rr]ank|RANK|default)[\s:-]{0,2}(?P<rank>\d{1,6})(?:/\d{1,6})?"
    r"\s{0,4}\]\s{0,2}:?"
    r"|(?:[Rr]ank|RANK)(?::\s|\s{1,2})(?P<word>\d{1,6})\s?[,;:|-]?(?=\s)"
    r"|(?:[Rr]ank|RANK)(?P<joined>\d{1,6}):(?=\s)"
    r"|\((?P<share>\d{1,6})/\d{1,6}\)(?=\sEpoch)"  # icefall
    r"|[\w.-]{1,64}:(?P<tee>\d{1,6}):(?=\s)"  # torchrun's template host:rank:
    r"|[A-Za-z][\w.-]{0,63}\|(?P<bar>\d{1,6})\|[\w.-]{1,64}:"  # torchrun --tee
    r"|(?P<srun>\d{1,6}):(?= {1,2}[^\s\d])"  # srun -l
    r"|\[\d{1,6},[\w:.,-]{1,64}\]<std(?:out|err)>:"  # Open MPI
    r"|\((?:[\w.-]{1,64}\s)?pid=\d{1,9}(?:,\s?ip=[\w.:]{1,64})?\)"  # Ray
    r"|[A-Za-z][\w.-]{0,63}-\d{1,6}:(?=\s)"  # pdsh
    r"|[\w./-]{1,64}(?=\s\[default\d)"  # NeMo-Run, before the rank
    r"|[\w.-]{1,64}\s{0,4}\|(?=\s{0,4}\[\d{1,6}\])"  # docker compose
    r"|\[\d{4}[-/]?\d{2}[-/]?\d{2}[^\]\n]{0,40}\]|\[\d{1,2}[/.-]\d{1,2}[\s/.-][^\]\n]{0,40}\]"
    r"|\[\d{1,2}:\d{1,2}[^\]\n]{0,40}\]"
    r"|\[\s{0,8}\d{1,9}\.\d{1,6}\s?s?\]"
    r"|\d{1,2}\s[A-Z][a-z]{2}\s\d{2}:\d{2}(?::\d{2})?(?=\s)"
    r"|DLL(?=\s\d{4}-)"  # NVIDIA's examples
    r"|\d{2}/\d{2}/\d{4}\s\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?"
    r"|\d{4}[-/]\d{2}[-/]\d{2}"
    r"(?:[T ,]{1,2}\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?)?"
    r"|\d{2}[/-]\d{2}\s\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?|\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?=\s)"
    r"|[IWEF]\d{4}\s\d{2}:\d{2}:\d{2}\.\d{1,9}\s{1,4}\d{1,20}\s[^\]\n]{1,80}\]"  # glog
    r"|\[?(?:DEBUG|INFO|WARNING|WARN|ERROR|SUCCESS|CRITICAL)(?:[:|][\w.:/-]{0,80})?"
    r"\s{0,2}\]?(?=[\s:|\]-]|$)"
    # The process, as in "INFO - 4711 - 2026-11-28 20:02:07": anything else may be a step.
    r"|(?<=-\s)\d{1,9}\s-(?=\s(?:\d{4}-\d{2}-\d{2}\s|(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)\s-))"
    # Loggers have a dot or a line number: "Test - loss" has another first word.
    r"|[A-Za-z_]\w{0,40}(?:\.\w{1,40}){1,8}(?::[\w:]{1,60})?\s-(?=\s)|__main__\s-(?=\s)"
    r"|[\w.]{1,80}(?=\sINFO:)|\[(?:MainThread|TRAIN)\](?=\s)|\[\d{4,9}\](?=\s\[)"
    r"|\([\w.]{1,80}:\d{1,6}\)(?=\s-|\sINFO)"
    r"|\[(?:GPU|gpu)\s?\d{1,4}\](?=\s)|[\w.-]{1,60}\.py:(?:\s?\d{1,6}:)?(?=\s)"
    r"|\[[\w.-]{1,60}\.py[:,][^\]\n]{0,80}\]|\[titan\]|\([\w.-]{1,60}\.py\s\d{1,6}\):"
    r"|(?:root|mmengine|mmdet|mmseg|mmcls)\s-|(?:train_inner|train|valid)\s\||>>|[-|:]{1,8}(?=\s)"
    r")\s{0,4})+"
)
_GLUED = re.compile(r"(?<=[\w%)\]])(?=[Rr]ank \d{1,6}[,:] )")
_RANK_GROUPS = ("rank", "word", "joined", "share", "tee", "bar", "srun")
_LETTERS = re.compile(
    r"(?:[Rr]ank|RANK|DLL|[A-Za-z]{1,40}[^A-Za-z\s:]|[A-Za-z]{1,40}:\d|[A-Za-z]{1,40} {1,4}\|"
    r"|(?:root|DEBUG|INFO|WARNING|WARN|ERROR|SUCCESS|CRITICAL|train|valid|mm(?:engine|det|seg|cls))\b)"
)
"""The beginning of a prefix with a letter. Most lines begin with a letter and have no prefix, which
this finds out in less time."""


def clean(text: str) -> str:
    """Return the records of a text, each on a line of its own, without colours and control
    characters."""
    if "\r" in text:
        # A terminal ends its lines so; taken one by one, these would make an empty record.
        text = text.replace("\r\n", "\n")
    if "\x1b" in text or "\x08" in text or "\x9b" in text:
        # In this order: `_STYLES` matches the rewrites too, and would join the states of a bar.
        text = _STYLES.sub("", _REWRITES.sub("\n", text))
    if "\r" in text:
        text = text.replace("\r", "\n")
    return part_ranks(text)


def part_ranks(text: str) -> str:
    """Begin a new line where one of a rank stands behind that of another: each ends its line by
    another write."""
    return _GLUED.sub("\n", text) if "ank " in text else text


def peel(line: str) -> tuple[int, int]:
    """Return where a line begins after its prefixes (times, levels, hosts, ranks), and the rank in
    them, -1 without one."""
    if line[:1].isalpha() and not _LETTERS.match(line):
        return 0, -1
    prefixes = _PREFIX.match(line)
    if prefixes is None:
        return 0, -1
    for group in _RANK_GROUPS:
        rank = prefixes[group]
        if rank is not None:
            return prefixes.end(), int(rank)
    return prefixes.end(), -1

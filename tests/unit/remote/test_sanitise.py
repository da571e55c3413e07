"""What a terminal does not draw is shown as an escape: two texts that look alike are alike."""

from __future__ import annotations

from pathlib import Path

import pytest

from remote.cluster.hosts import Host, HostsError
from remote.cluster.load import load, load_named
from remote.plan import serialize
from remote.plan.plan import Plan, PlanError
from remote.record import marks
from remote.sanitise import one_line, plain, shown, unseen_character
from training.job import Job

NO_CONFIG = Path("/no/ssh/config")
INVISIBLE = {
    "\u200b": "U+200B (ZERO WIDTH SPACE)",
    "\u2060": "U+2060 (WORD JOINER)",
    "\ufeff": "U+FEFF (ZERO WIDTH NO-BREAK SPACE)",
    "\u00ad": "U+00AD (SOFT HYPHEN)",
    "\u200d": "U+200D (ZERO WIDTH JOINER)",
    "\u200c": "U+200C (ZERO WIDTH NON-JOINER)",
    "\ufe0f": "U+FE0F (VARIATION SELECTOR-16)",
    "\u3164": "U+3164 (HANGUL FILLER)",
    "\u034f": "U+034F (COMBINING GRAPHEME JOINER)",
    "\U000e0041": "U+E0041 (TAG LATIN CAPITAL LETTER A)",
}
SHAPED = {
    "joined people": "👩\u200d👩\u200d👧 trained",
    "a joined profession with a skin tone": "👩🏽\u200d🔬",
    "a coloured heart": "❤\ufe0f",
    "a heart of fire": "❤\ufe0f\u200d🔥",
    "a warning": "⚠\ufe0f slow",
    "a digit on a key": "1\ufe0f\u20e3",
    "Persian": "می\u200cخواهم",
    "Hindi": "क्\u200dष",
}


@pytest.mark.parametrize("character", INVISIBLE, ids=INVISIBLE.get)
def test_what_cannot_be_seen_is_shown_as_an_escape(character: str) -> None:
    code = ord(character)
    escape = f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    for draw in (one_line, plain):
        assert draw(f"node0{character}") == f"node0{escape}"
        assert draw(f"{character}node0{character}x") == f"{escape}node0{escape}x"
    assert shown(f"a\nb{character}c\r") == ["a", f"b{escape}c"]


@pytest.mark.parametrize("text", SHAPED.values(), ids=SHAPED)
def test_what_shapes_an_emoji_or_a_letter_stays(text: str) -> None:
    assert (one_line(text), plain(text), unseen_character(text)) == (text, text, "")


@pytest.mark.parametrize("character", INVISIBLE, ids=INVISIBLE.get)
def test_names_that_look_like_others_are_refused(character: str, tmp_path: Path) -> None:
    name = f"node0{character}"
    (tmp_path / "hosts.toml").write_text(f'[[host]]\nname = "a"\n[[host]]\nname = "{name}"\n')
    with pytest.raises(HostsError) as in_toml:
        load(tmp_path / "hosts.toml", NO_CONFIG)
    (tmp_path / "hostfile").write_text(f"a slots=1\n{name} slots=2\n")
    with pytest.raises(HostsError) as in_hostfile:
        load(tmp_path / "hostfile", NO_CONFIG)
    with pytest.raises(HostsError) as in_flag:
        load_named(f"a:1,{name}:2", NO_CONFIG)
    with pytest.raises(HostsError) as in_plan:
        Host(name, "address")
    with pytest.raises(PlanError) as in_name:
        marks.checked_name(name)
    plan = serialize.dump(Plan(f"run{character}x", (Host("node1", "x"),), Job()))
    with pytest.raises(ValueError, match="is not a plain name: it has ") as in_run:
        serialize.parse(plan)
    for refused in (in_toml, in_hostfile, in_flag, in_plan, in_name, in_run):
        assert f"it has {INVISIBLE[character]}, which cannot be seen" in str(refused.value)
    assert str(in_toml.value).startswith(f"{tmp_path / 'hosts.toml'}: line 4: host 2 (")
    assert str(in_hostfile.value).startswith(f"{tmp_path / 'hostfile'}, line 2: ")


def test_a_broken_file_that_is_taken_for_a_hostfile_is_named(tmp_path: Path) -> None:
    file = tmp_path / "bin.toml"
    file.write_bytes(b"\x00\x01garbage\n")
    with pytest.raises(HostsError) as refused:
        load(file, NO_CONFIG)
    assert str(refused.value) == (
        f"{file}, line 1: '\\x00\\x01garbage' is not a host: it has U+0000, which cannot be seen: "
        "write plain text, such as a slots=4, or [[host]] tables"
    )

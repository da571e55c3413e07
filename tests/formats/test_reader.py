"""How a reader of a log chooses, and goes on."""

from __future__ import annotations

import math
import pickle
import random

import pytest

from remote.formats.catalog import known_formats
from remote.formats.reader import LogReader
from remote.formats.reading import ReadingKind
from remote.formats.rules import Rule

NANOGPT = "iter {}: loss 1.5, time 5.00ms"
BY_HAND = "step={} loss=0.5"


def test_a_copy_goes_on_where_the_reader_is() -> None:
    for one in known_formats():
        for sample in one.samples:
            head, _, tail = sample.text.partition("\n")
            reader = LogReader()
            reader.read(head)
            copy = pickle.loads(pickle.dumps(reader))
            assert repr(copy.read(tail)) == repr(reader.read(tail)), sample.text
            assert copy.format == reader.format
    assert len(pickle.dumps(LogReader())) < 20_000


def test_a_copy_keeps_own_rules() -> None:
    reader = pickle.loads(pickle.dumps(LogReader([Rule("round {step} cost {loss}")])))
    assert [one.step for one in reader.read("round 3 cost 0.5")] == [3]


def test_once_a_format_is_chosen_another_one_is_not_read() -> None:
    reader = LogReader()
    for n in range(3):
        assert len(reader.read(NANOGPT.format(n))) == 1
    assert reader.read(BY_HAND.format(7)) == []
    assert reader.format == "nanoGPT"


def test_a_format_that_goes_on_alone_takes_over() -> None:
    reader = LogReader()
    for n in range(5):
        reader.read(NANOGPT.format(n))
    read = [reader.read(BY_HAND.format(n)) for n in range(1, 12)]
    assert reader.format == "name=value"
    assert [one.step for each in read for one in each] == [8, 9, 10, 11]


def test_a_named_format_takes_over_from_a_generic_one() -> None:
    reader = LogReader()
    for n in range(1, 9):
        reader.read(BY_HAND.format(n))
    for n in range(20, 24):
        reader.read(f"{BY_HAND.format(n)}\n{NANOGPT.format(n)}")
    assert reader.format == "nanoGPT"


def test_a_companion_tells_more_of_a_step_and_none_of_its_own() -> None:
    reader = LogReader()
    for n in range(4):
        reader.read(f"{{'loss': 0.5, 'learning_rate': 0.1, 'epoch': {n}.5}}")
    (found,) = reader.read(
        "epoch=0/micro_step=34/global_step=34, RunningAvgSamplesPerSec=7.8, "
        "CurrSamplesPerSec=8.0, MemAllocated=5.5GB, MaxMemAllocated=6.5GB"
    )
    assert (found.kind, found.step, found.values["samples_per_second"]) == (
        ReadingKind.OTHER,
        34,
        8.0,
    )
    assert reader.format == "Hugging Face Trainer"


BAR = "\repoch {}: {:3}%|#####     | {}/10 [00:01<00:01, 10.00it/s, loss=0.5]"


@pytest.mark.parametrize(
    ("line", "values"),
    [
        ("epoch {} test accuracy 0.5220", {"val_accuracy": 0.522}),
        ("epoch {}: train loss 0.5, val loss 0.25", {"val_loss": 0.25}),
        ('{{"epoch": {}, "val_f1": 0.5, "loss": 0.25}}', {"val_f1": 0.5}),
    ],
)
def test_an_evaluation_beside_a_bar_counts(line: str, values: dict[str, float]) -> None:
    reader = LogReader()
    for epoch in range(12):
        text = "".join(BAR.format(epoch, n * 10, n) for n in range(1, 11))
        *steps, found = reader.read(f"{text}\n{line.format(epoch)}")
        assert [one.step for one in steps] == [epoch * 10 + n for n in range(1, 11)]
        assert (found.kind, found.epoch, found.values) == (
            ReadingKind.EVALUATION,
            epoch + 1,
            values,
        )
    assert reader.format == "tqdm"


def test_a_format_that_goes_on_alone_takes_over_with_its_evaluations() -> None:
    reader = LogReader()
    reader.read("\n".join(NANOGPT.format(n) for n in range(3)))
    read = [reader.read(f"step {n} loss 0.5 val_loss 0.25") for n in range(1, 12)]
    assert reader.format == "name=value"
    assert [each[0].kind for each in read] == [ReadingKind.EVALUATION] * 7 + [ReadingKind.STEP] * 4


def test_an_evaluation_that_the_format_tells_itself_counts_once() -> None:
    reader = LogReader()
    reader.read("\n".join(NANOGPT.format(n) for n in range(3)))
    assert len(reader.read("step 250: train loss 2.5, val loss 2.75")) == 1
    assert reader.read("step 250 val_loss 2.75") == []
    (found,) = reader.read("step 250 val_loss 2.75 val_acc 0.5")
    assert (found.kind, found.step, found.values) == (
        ReadingKind.EVALUATION,
        250,
        {"val_accuracy": 0.5},
    )


def test_a_step_is_told_once() -> None:
    reader = LogReader()
    text = "step={} loss=0.5"
    kinds = [one.kind for n in (1, 2, 2, 3) for one in reader.read(text.format(n))]
    assert kinds == [ReadingKind.STEP, ReadingKind.STEP, ReadingKind.OTHER, ReadingKind.STEP]


def test_the_ranks_of_a_joint_log_are_kept_apart() -> None:
    reader = LogReader()
    line = "[rank{}]:[titan] 2026-05-18 16:04:46,338 - root - INFO - step:  {}  loss:  3.{}"
    read = reader.read("\n".join(line.format(rank, n, rank) for n in (1, 2) for rank in range(4)))
    assert [(one.rank, one.step, one.kind) for one in read] == [
        (rank, n, ReadingKind.STEP) for n in (1, 2) for rank in range(4)
    ]


def test_own_rules_come_first() -> None:
    reader = LogReader([Rule(r"iter {step}: loss {loss}, time {step_seconds__ms}ms", "mine")])
    (found,) = reader.read(NANOGPT.format(7))
    assert (found.step, found.values, reader.format) == (
        7,
        {"loss": 1.5, "step_seconds": 0.005},
        "mine",
    )


@pytest.mark.parametrize(
    "line",
    [
        "{}/5 loss={}.5",
        "{}/5 loss {}.5",
        "step {} loss {}.5",
        "step {}/5 loss {}.5",
        "step: {}, loss: {}.5",
        "iter {}: loss {}.5",
        "step={} loss={}.5",
        '{{"step": {}, "loss": {}.5}}',
        "{{'iteration': {}, 'loss': {}.5}}",
        "INFO:tensorflow:loss = {1}.5, step = {0}",
        "round {} of 5: cost {}.5",
    ],
)
@pytest.mark.parametrize("every", [1, 100])
@pytest.mark.parametrize("many", [5, 100])
def test_steps_count_from_1(line: str, every: int, many: int) -> None:
    rules = [Rule(r"^{step}/5 loss[ =]{loss}"), Rule("round {step} of {steps}: cost {loss}")]
    reader = LogReader(rules)
    lines = [line.format(n * every, 9 - n % 9) for n in range(many)]
    read = [*reader.read(lines[0]), *reader.read("\n".join(lines[1:]))]
    assert [(one.kind, one.step) for one in read] == [
        (ReadingKind.STEP, n * every + 1) for n in range(many)
    ]


@pytest.mark.parametrize("first", [0, 1])
def test_an_evaluation_before_the_first_step_counts_nothing(first: int) -> None:
    reader = LogReader()
    reader.read('{"step": 0, "val_loss": 5.5}')
    lines = [f'{{"step": {n}, "loss": 0.5}}' for n in range(first, 4)]
    assert [one.step for one in reader.read("\n".join(lines))][:2] == [1, 2]
    (found,) = reader.read('{"step": 3, "val_loss": 4.5}')
    assert (found.kind, found.step) == (ReadingKind.EVALUATION, 4 - first)


def test_evaluations_alone_count_from_1() -> None:
    lines = [f'{{"step": {n}, "val_loss": 5.5}}' for n in (0, 100, 200)]
    assert [one.step for one in LogReader().read("\n".join(lines))] == [1, 101, 201]


def test_an_evaluation_before_verl_trains_counts_nothing() -> None:
    lines = ["step:0 - val-core/gsm8k/reward/mean@1:0.25", "step:1 - actor/pg_loss:0.5"]
    reader = LogReader()
    assert [one.step for line in lines for one in reader.read(line)] == [0, 1]


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("round {step}: cost {loss}", "round    3:\tcost   0.5"),
        (r"round {step} \| cost {loss}", "round 3   | cost 0.5"),
        ("round[ ]{step} {2}cost {loss}", "round 3  cost   0.5"),
    ],
)
def test_a_space_of_a_rule_is_any_number_of_spaces(line: str, text: str) -> None:
    Rule(line).check()
    (found,) = LogReader([Rule(line)]).read(text)
    assert (found.step, found.values) == (3, {"loss": 0.5})


def test_spaces_that_a_rule_counts_are_counted() -> None:
    rule = Rule("round[ ]{step} {2}cost {loss}")
    assert not LogReader([rule]).read("round  3  cost 0.5")
    assert not LogReader([rule]).read("round 3 cost 0.5")


def test_an_own_rule_may_use_groups_and_aliases() -> None:
    (found,) = LogReader([Rule(r"gen (?P<epoch>\d+) best {num} mean {fitness}")]).read(
        "gen 3 best 9.5 mean 4.25"
    )
    assert (found.epoch, found.values) == (3.0, {"fitness": 4.25})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("round {step", "names no value"),
        ("round {step}", "names no value"),
        ("round ({loss}", "not a regular expression"),
        (
            "<{step}> {loss} | {step_seconds__ms}ms",
            r"\{step_seconds__ms\} may be missing: write \\\| for the",
        ),
        ("it {stp} {loss}", r"\{stp\}: did you mean \{step\}\?"),
        ("it {step} {lsos}", r"\{lsos\}: did you mean \{loss\}\?"),
        ("(?<!val )loss {loss}", r"cannot look ahead or behind: write what stands there, such as"),
        ("(?P<a>x) (?P=a) {loss}", "cannot compare with an earlier group"),
        (r"\w++ {loss}", r"leave out the \+ after"),
        (r"{loss}\Z", r"write \$"),
        ("a{0,2000} {loss}", "1000 rounds at most"),
        ("a{,3} {loss}", r"write \{0,3\} for \{,3\}"),
        (r"((\w?\d?){900}a?){900}{loss}", "a regular expression of RE2, which does not take"),
    ],
)
def test_a_wrong_rule_is_said(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Rule(line).check()


HOURS = [
    (r"loss (\w+\s?)+ {loss}", f"loss {'a' * 50}: 1.5"),
    (r"loss (?:a|aa)+{loss}x", f"loss {'a' * 16_000} 1"),
    (r"(x+x+)+y{loss}", "x" * 16_000 + " 1.5"),
    (r"(.*)(.*)(.*)(.*){loss}z", "1.5 " * 4_000),
    (r"^(?:[\w.]+\s*)*:{loss}$", "a1.5" * 4_000),
    ("a?" * 200 + "a" * 200 + "{loss}", "a" * 16_000 + " 1.5"),
]
"""Rules, and lines for which Python's own engine would take hours."""


@pytest.mark.parametrize(("rule", "line"), HOURS)
def test_no_rule_takes_long_for_any_line(rule: str, line: str) -> None:
    """It stays in use: a line that takes long is no reason to read less."""
    Rule(rule).check()
    reader = LogReader([Rule(rule), Rule("round {step}: cost {loss}", "mine")])
    reader.read(line)
    assert reader.unread == (1 if ".5" in line else 0)
    (found,) = pickle.loads(pickle.dumps(reader)).read("round 3: cost 0.5")
    assert (found.step, found.values) == (3, {"loss": 0.5})


def test_a_rule_looks_at_the_beginning_of_a_long_line() -> None:
    reader = LogReader([Rule("cost {loss}")])
    assert [one.values for one in reader.read(f"cost 0.5 {'.' * 20_000}")] == [{"loss": 0.5}]
    assert not reader.read(f"{'.' * 20_000} cost 0.5")


def test_a_rule_leaves_out_a_line_that_is_no_text() -> None:
    assert not LogReader([Rule("cost {loss}")]).read("cost 0.5 \ud800")


def test_a_rule_of_an_older_plan_that_cannot_be_run_is_left_out() -> None:
    rule = Rule("(?<!val )cost {loss}")
    assert "cannot look ahead or behind" in rule.problem
    (found,) = LogReader([rule, Rule("cost {loss}")]).read("cost 0.5")
    assert found.values == {"loss": 0.5}


@pytest.mark.parametrize(
    "line",
    [
        r"<{step}> {loss} \| {step_seconds__ms}ms",
        "<{step}> (at|of) [|] {loss}",
        "{step}/{steps} {loss1} {lr}",
        r"(?P<stp>\d+) {loss}",
    ],
)
def test_a_rule_that_is_right_is_taken(line: str) -> None:
    Rule(line).check()


def test_a_record_that_two_texts_share_is_read_whole() -> None:
    bar = "\rstep {:05} (39.0%) | loss: 3.132883 | lrm: 1.00 | dt: 322ms | tok/sec: 1,625,889"
    text = "".join(bar.format(n) for n in range(1_200))
    cut = (1 << 16) + 40
    reader = LogReader()
    read = [*reader.read(text[:cut]), *reader.read(text[cut:])]
    assert [one.step for one in read] == list(range(1, 1_201))


def test_lines_with_numbers_that_are_not_read_are_counted() -> None:
    said: list[str] = []
    reader = LogReader(on_unread=said.append)
    reader.read(
        "cost is now 0.25 for all\niter 1: loss 1.5, time 5.00ms\nversion 1.2.3\n10.0.0.1 is up"
    )
    assert (reader.unread, said) == (1, ["cost is now 0.25 for all"])


@pytest.mark.parametrize(
    "line",
    [
        '{"epoch": 1e300, "loss": 0.5}',
        '{"step": 1e300, "loss": 0.5}',
        "Epoch 99999999999999 [100000000000000/900000000000000] loss 0.5",
        "epoch=1e300 loss=0.5",
        "epoch=inf loss=0.5",
    ],
)
def test_numbers_that_count_nothing_are_left_out(line: str) -> None:
    for reading in LogReader().read(line):
        assert max(reading.step, reading.steps, math.ceil(reading.epoch)) < 1e15


@pytest.mark.parametrize("epoch", ["1e9999", "-1e9999", "nan", "-3", "1e300"])
def test_an_epoch_that_is_none_breaks_nothing(epoch: str) -> None:
    reader = LogReader()
    reader.read("***** Running training *****\n  Num Epochs = 3\n  Total optimization steps = 300")
    (reading,) = reader.read(f"{{'loss': '1.4', 'learning_rate': '2e-06', 'epoch': '{epoch}'}}")
    assert (reading.step, reading.epoch, reading.values["loss"]) == (0, 0.0, 1.4)


@pytest.mark.parametrize("number", ["inf", "nan", "-1", "1e300"])
def test_a_step_that_is_none_leaves_later_ones_as_they_are(number: str) -> None:
    reader = LogReader()
    lines = [
        "epoch=1 step=9 loss=0.5",
        f"epoch=2 step={number} loss=0.5",
        "epoch=3 step=2 loss=0.5",
    ]
    read = [one.step for line in lines for one in reader.read(line)]
    assert read == [9, 0, 11]


def test_a_table_with_what_is_no_number_breaks_nothing() -> None:
    columns = "Epoch    GPU_mem   box_loss   cls_loss   dfl_loss  Instances       Size"
    text = f"      {columns}\n                   all   80   256   0.0..89   3.5   0.657   0.202"
    assert LogReader().read(text) == []


def test_an_evaluation_after_the_last_step_has_no_number() -> None:
    line = " validation loss at the end of training for test data | lm loss value: 7.85E+00 |"
    (reading,) = LogReader().read(f"{line} lm loss PPL: 2.565734E+03 | ")
    assert (reading.kind, reading.step, reading.values["val_loss"]) == (
        ReadingKind.EVALUATION,
        0,
        7.85,
    )


def test_broken_lines_of_every_format_raise_nothing() -> None:
    """Pieces are cut out, doubled and replaced by odd ones; the seed is fixed."""
    chance = random.Random(17)
    texts = [list(sample.text) for one in known_formats() for sample in one.samples]
    odd = ["nan", "inf", "1e9999", "-1", "9" * 25, "..", "/", "|", "{", "'", "\r", "\n", "\x1b[K"]
    for _ in range(100):
        reader = LogReader()
        for text in map(list, chance.sample(texts, 20)):
            for _ in range(6):
                place = chance.randrange(len(text))
                text[place : place + chance.randint(0, 8)] = chance.choice(
                    [*odd, "".join(text[:20])]
                )
            for reading in reader.read("".join(text)):
                assert max(reading.step, reading.steps, math.ceil(reading.epoch)) < 1e16


def test_a_line_at_step_0_before_the_training_does_not_shift_it() -> None:
    read = LogReader().read("step=0 reward=0.1\nstep=1 loss=3\nstep=2 loss=2")
    assert [one.step for one in read][-2:] == [1, 2]


def test_the_best_value_is_not_the_present_one() -> None:
    (found,) = LogReader().read("step 7 best val_loss 0.3 val_loss 0.9")
    assert found.values["val_loss"] == 0.9


def test_a_table_goes_on_in_the_next_text() -> None:
    reader = LogReader()
    for n in range(1, 5):
        reader.read(f"loading 0.5 of it\n[step={n}/100]\n    train/CrossEntropyLoss=2.5")
    (reading,) = reader.read("    throughput/device/tokens_per_second=10,200")
    assert reading.step == 4
    assert reading.values == {"tokens_per_second_per_device": 10_200}


def test_lines_of_other_formats_are_read_in_the_order_of_the_text() -> None:
    lines = [NANOGPT.format(n) for n in range(6)]
    lines[4:4] = ["Step Time : 2.5s GPU utilization: 400.0TFLOP/s/GPU"]
    readings = LogReader().read("\n".join(lines))
    assert ["tflops_per_device" in reading.values for reading in readings] == [
        *[False] * 4,
        True,
        *[False] * 2,
    ]

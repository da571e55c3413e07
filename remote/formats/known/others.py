"""Reinforcement learning, boosting, TensorFlow, MLPerf."""

import json

from remote.formats.format import Format, Line, Names, Pairs, Sample
from remote.formats.known.tables import Framed
from remote.formats.memory import Memory
from remote.formats.names import NEVER
from remote.formats.numbers import is_number
from remote.formats.reading import (
    EVALUATION,
    OTHER,
    STEP,
    UNDERSTOOD,
    Reading,
    evaluation,
    other,
    step,
)

VERL = Format(
    "verl",
    ("step:",),
    (
        Sample(
            "(TaskRunner pid=3165) step:71 - global_seqlen/min:69484 - global_seqlen/max:69484 - actor/entropy:0.1194450631737709 - actor/pg_loss:np.float64(0.19) - timing_s/step:1268.4882453735918 - perf/throughput:413.38",
            [
                step(
                    71,
                    {
                        "global_seqlen/min": 69484,
                        "global_seqlen/max": 69484,
                        "actor/entropy": 0.1194450631737709,
                        "actor/pg_loss": 0.19,
                    },
                    step_seconds=1268.4882453735918,
                    tokens_per_second_per_device=413.38,
                )
            ],
        ),
    ),
    (
        Line(
            r"(?:^|[\s)])step:<step:int> - (?P<pairs>[^\n]{1,16000})",
            pairs=Pairs(
                r"([A-Za-z][\w/@.()-]{0,100}):(?:np\.\w{1,10}\()?<num>",
                {
                    "perf/throughput": "tokens_per_second_per_device",
                    "timing_s/step": "step_seconds",
                },
            ),
        ),
    ),
)
PRIME_RL = Format(
    "prime-rl",
    (" | Time: ",),
    (
        Sample(
            "[default0]:00:20:21 SUCCESS Step 0 | Time: 60.98s | Loss: 0.0012 | Entropy: 0.5 | Throughput: 1200 tokens/s",
            [step(1, rank=0, step_seconds=60.98, loss=0.0012, entropy=0.5, tokens_per_second=1200)],
        ),
    ),
    (
        Line(
            r"Step <index:int> \| (?P<pairs>Time: [^\n]{1,2000})",
            pairs=Pairs(
                r"([A-Za-z][\w. ]{0,60}): <num>(?:s|%| tokens/s| GiB)?(?= |$)",
                {
                    "Time": "step_seconds",
                    "Throughput": "tokens_per_second",
                    "Entropy": "entropy",
                    "Reward": "reward",
                    "LR": "lr",
                },
            ),
        ),
    ),
)
SB3 = Format(
    "Stable-Baselines3",
    ("--------------------",),
    (
        Sample(
            "-----------------------------------------\n| rollout/                |             |\n|    ep_rew_mean          | 21.5        |\n| time/                   |             |\n|    fps                  | 1214        |\n"
            "|    total_timesteps      | 180224      |\n| train/                  |             |\n|    loss                 | -0.0206     |\n|    learning_rate        | 0.0003      |\n-----------------------------------------\n",
            [
                step(
                    180224, {"rollout/ep_rew_mean": 21.5, "time/fps": 1214}, loss=-0.0206, lr=0.0003
                )
            ],
        ),
        Sample(
            "----------------------------\n| eval/              |       |\n|    mean_reward     | 200   |\n| time/              |       |\n|    total_timesteps | 10000 |\n----------------------------",
            [evaluation(10000, val_mean_reward=200)],
        ),
    ),
    reader=lambda: Framed(
        Names(
            {
                "time/total_timesteps": "step",
                "time/iterations": "",
                "time/time_elapsed": "",
                "train/n_updates": "",
                "train/loss": "loss",
                "train/learning_rate": "lr",
            }
        )
    ),
)


class TensorFlow:
    """The reader of TF's Estimator. Its seconds are those of all steps since the line before."""

    open = False
    _step = Line(r"loss = <loss>, step = <step:int>(?: \(<seconds> sec\))?")
    _rate = Line(r"global_step/sec: <steps_per_second>", OTHER)
    _saved = Line(
        r"Saving dict for global step <step:int>: (?P<pairs>[^\n]{1,1000})",
        EVALUATION,
        pairs=Pairs(
            r"([\w/.-]{1,60}) = <num>",
            {
                "loss": "val_loss",
                "accuracy": "val_accuracy",
                "average_loss": "val_average_loss",
                "global_step": "",
            },
        ),
    )

    def __init__(self) -> None:
        self._last = 0.0

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        values = self._step.values(line, start)
        if values is None:
            return self._rate.read(line, start, memory) or self._saved.read(line, start, memory)
        done = values["step"] - self._last
        self._last = values["step"]
        seconds = values.pop("seconds", 0.0)
        if seconds and done > 0:
            values["step_seconds"] = seconds / done
        return memory.place(STEP, values)


TENSORFLOW = Format(
    "TensorFlow Estimator",
    (", step = ", "global_step/sec: ", "Saving dict for global step "),
    (
        Sample(
            "INFO:tensorflow:loss = 3.5, step = 1\nINFO:tensorflow:global_step/sec: 125.0\nINFO:tensorflow:loss = 3.15373, step = 101 (0.726 sec)",
            [
                step(1, loss=3.5),
                other(0, step_seconds=0.008),
                step(101, loss=3.15373, step_seconds=0.00726),
            ],
        ),
        Sample(
            "INFO:tensorflow:Saving dict for global step 500: accuracy = 0.97, global_step = 500, loss = 0.08",
            [evaluation(500, val_accuracy=0.97, val_loss=0.08)],
        ),
    ),
    reader=TensorFlow,
)
XGBOOST = Format(
    "XGBoost",
    ("]\t",),
    (
        Sample(
            "[1]\tvalidation_0-logloss:0.51249\tvalidation_1-logloss:0.51661",
            [step(2, {"val_0-logloss": 0.51249, "val_1-logloss": 0.51661})],
        ),
        Sample(
            "[0]\ttrain-rmse:1.5\teval-rmse:1.75", [step(1, {"train-rmse": 1.5, "eval-rmse": 1.75})]
        ),
    ),
    (
        Line(
            r"(?:^|\s)\[<index:int>\](?P<pairs>(?:\t[\w-]{1,40}-[\w@-]{1,40}:[\w.+-]{1,40}){1,40})\s{0,4}$",
            pairs=Pairs(r"\t([\w@-]{1,80}):<num>"),
        ),
    ),
)
LIGHTGBM = Format(
    "LightGBM",
    ("]\t",),
    (
        Sample(
            "[1]\tvalid_0's auc: 0.648033\tvalid_0's binary_logloss: 0.696119",
            [step(1, {"val_0's auc": 0.648033, "val_0's binary_logloss": 0.696119})],
        ),
    ),
    (
        Line(
            r"(?:^|\s)\[<step:int>\](?P<pairs>(?:\t[\w-]{1,40}'s [\w@-]{1,40}: [\w.+-]{1,40}){1,40})\s{0,4}$",
            pairs=Pairs(r"\t([\w' @-]{1,80}): <num>"),
        ),
    ),
)
CATBOOST = Format(
    "CatBoost",
    (":\tlearn: ", ":\ttest: "),
    (
        Sample(
            "0:\tlearn: 0.6500000\ttest: 0.6600000\tbest: 0.6600000 (0)\ttotal: 50ms\tremaining: 49.9s",
            [step(1, {"learn": 0.65, "test": 0.66, "best": 0.66})],
        ),
    ),
    (
        Line(
            r"(?:^|\s)<index:int>:\t(?P<pairs>(?:learn|test)[^\n]{1,400})",
            pairs=Pairs(r"([a-z]{1,10}\d{0,2}): <num>(?=\s|$)"),
        ),
    ),
)


class MlPerf:
    """The reader of MLPerf's lines: JSON with a key, its value and where the training is."""

    open = False

    def __init__(self) -> None:
        self._names = Names({"samples_count": "samples", "throughput": "samples_per_second"})

    def read(self, line: str, start: int, memory: Memory) -> Reading | None:
        """See `Reader`."""
        try:
            found, _ = json.JSONDecoder().raw_decode(line[line.index(":::MLLOG") + 8 :].lstrip())
            key = found["key"]
            value = found.get("value")
            where = found.get("metadata") or {}
            said = value if isinstance(value, dict) else {key: value}
        except (ValueError, RecursionError, KeyError, AttributeError, TypeError):
            return None
        if not isinstance(key, str) or key not in (
            "train_loss",
            "eval_accuracy",
            "eval_loss",
            "tracked_stats",
            "eval_error",
            "train_accuracy",
        ):
            return UNDERSTOOD
        values: dict[str, float] = {}
        for name, one in (*said.items(), *(where.items() if isinstance(where, dict) else ())):
            if is_number(one):
                known, factor = self._names(
                    {"step": "step", "step_num": "step", "epoch_num": "epoch"}.get(name, name)
                )
                if known is not NEVER:
                    values[known] = one * factor
        samples = values.pop("samples", 0.0)
        reading = memory.place(
            EVALUATION if key.startswith("eval") else OTHER if key == "tracked_stats" else STEP,
            values,
        )
        if reading is not None and samples:
            reading.values["samples"] = samples
        return reading


MLPERF = Format(
    "MLPerf",
    (":::MLLOG",),
    (
        Sample(
            ':::MLLOG {"namespace": "", "time_ms": 1775725581676, "event_type": "POINT_IN_TIME", "key": "train_loss", "value": 11.846, "metadata": {"file": "a.py", "samples_count": 0, "lr": 3.125e-06}}',
            [step(0, loss=11.846, lr=3.125e-6)],
        ),
        Sample(
            ' 0: :::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "tracked_stats", "value": {"throughput": 14214.6}, "metadata": {"step": 20}}\n'
            ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "INTERVAL_START", "key": "run_start", "value": null, "metadata": {}}\n'
            ':::MLLOG {"namespace": "", "time_ms": 1, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": 0.759, "metadata": {"epoch_num": 3, "samples_count": 3843000}}',
            [
                other(20, rank=0, samples_per_second=14214.6),
                evaluation(0, epoch=3, val_accuracy=0.759, samples=3843000),
            ],
        ),
    ),
    reader=MlPerf,
    companion=True,
)

FORMATS = (MLPERF, VERL, PRIME_RL, SB3, TENSORFLOW, XGBOOST, LIGHTGBM, CATBOOST)

"""Normalise the names of values: one name, in one unit, for what programs call differently.

    loss, lr, grad_norm, accuracy (a fraction), val_loss, val_accuracy …
    step_seconds, data_seconds                       seconds of a step
    samples_per_second, tokens_per_second            of the whole run
    samples_per_second_per_device, tokens_per_second_per_device

Any other value keeps its printed name. Names of places, which no value has, are `step`, `index`
(a step that is counted from 0), `steps`, `epoch`, `epoch_index` (counted from 0), `epochs`, `n`,
`n_index`, `total` (steps within an epoch).
"""

from __future__ import annotations

import re
from functools import lru_cache

PLACES = ("step", "index", "steps", "epoch", "epoch_index", "epochs", "n", "n_index", "total")
NEVER = ""
"""The name of what is no value of the training."""

_ALIASES_OF = {
    "loss": "train_loss train_loss_step train/loss train/loss_step training_loss lm_loss "
    "lm_loss_value total_loss reduced_train_loss loss/train/total loss/train "
    "train/ce_loss cost train/crossentropyloss avr_loss step_loss loss_step trl gpt_loss "
    "avg_loss avg._loss average_loss mean_loss running_loss tr_loss training/loss "
    "batch_loss train/total_loss",
    "val_loss": "eval_loss valid_loss validation_loss eval/loss valid/loss test_loss tel dev_loss "
    "test/loss val_loss_epoch validation/loss eval_loss_epoch val/loss loss/test loss/val "
    "loss/valid loss/eval loss/validation",
    "lr": "learning_rate learning-rate base_lr l.r. train/lr train/learning_rate lr_0 "
    "optim/learning_rate_group0 actor_lr actor/lr lr-adam/group0 lr-adamw/group0",
    "grad_norm": "gradient_norm gnorm norm train/grad_norm global_grad_norm optim/total_grad_norm "
    "actor/grad_norm",
    "accuracy": "acc acc1 acc@1 top1 top-1 train_acc train_accuracy train_acc_step train/acc "
    "train/accuracy token_acc mean_token_accuracy accuracy_top-1 training_accuracy "
    "acc_step prec@1 accuracy/train acc/train",
    "accuracy_top5": "acc5 acc@5 top5 top-5 prec@5",
    "val_accuracy": "val_acc eval_accuracy eval_acc valid_acc valid_accuracy test_acc "
    "test_accuracy val/acc val/accuracy validation_accuracy dev_acc val_acc1 test/acc "
    "accuracy/test accuracy/val accuracy/valid accuracy/eval acc/test acc/val",
    "val_accuracy_top5": "val_acc5 test_acc5",
    "perplexity": "ppl train_ppl train/perplexity",
    "val_perplexity": "val_ppl eval_ppl valid_ppl eval_perplexity",
    "step_seconds": "step_time seconds_per_step train_step_timing_in_s batch_cost avg_batch_cost "
    "timing_s/step sec_per_step s/it time_per_step batch_time last_time iter_time "
    "time_per_iteration time_per_iter time/iter sec/step s/step sec/it sec/iter s/iter s/batch",
    "data_seconds": "data_time avg_reader_cost reader_cost data_load_time last_data_time data_cost",
    "samples_per_second": "samples/sec samples/s currsamplespersec throughput/samples_per_sec "
    "imgs/s images/sec samples_per_sec examples/s img/s",
    "tokens_per_second": "tok/sec tok/s tokens/sec tokens/s wps words/s tokens_per_sec "
    "throughput/tokens_per_sec toks/s",
    "tokens_per_second_per_device": "tps tokens/s/device tokens/sec/gpu tokens/s/gpu "
    "tokens/train_per_sec_per_gpu tokens_per_second_per_gpu throughput/device/tokens_per_sec",
    "samples_per_second_per_device": "throughput/device/samples_per_sec",
    "step": "_step global_step num_updates iteration iterations iter it update global_steps "
    "train_step steps_done trainer/global_step current_step current_steps num_update",
    "steps": "max_steps total_steps num_steps",
    "epoch": "train_epoch cur_epoch current_epoch",
    "epochs": "max_epochs num_epochs total_epochs",
}
_NORMALISED: dict[str, str] = {}
for _name, _aliases in _ALIASES_OF.items():
    _NORMALISED |= dict.fromkeys((_name, *_aliases.split()), _name)
_SCALED = {
    "step_time_ms": ("step_seconds", 1e-3),
    "step_ms": ("step_seconds", 1e-3),
    "elapsed_time_per_iteration_(ms)": ("step_seconds", 1e-3),
    "ms/step": ("step_seconds", 1e-3),
    "ms/iter": ("step_seconds", 1e-3),
    "ms/it": ("step_seconds", 1e-3),
    "ms/batch": ("step_seconds", 1e-3),
    "train_speed(s/it)": ("step_seconds", 1.0),
    "train_speed(iter/s)": ("steps_per_second", 1.0),
    "ups": ("steps_per_second", 1.0),
    "it/s": ("steps_per_second", 1.0),
    "it/sec": ("steps_per_second", 1.0),
    "its/s": ("steps_per_second", 1.0),
    "step/s": ("steps_per_second", 1.0),
    "steps/s": ("steps_per_second", 1.0),
    "steps/sec": ("steps_per_second", 1.0),
}
_SETTING_NAMES = """
v_num eta pid port seed rank local_rank world_size node host gpu device time_ms timestamp ts version
batch_size train_batch_size batch_idx num_workers epochs max_epochs max_steps s ms elapsed wall
elapsed_time remaining remaining_time percentage params parameters flops total_flos created lineno
thread process level id line size attempt _timestamp _runtime
"""
_SETTINGS = frozenset(_SETTING_NAMES.split())
"""Names of what is no value of the training."""
_EVALUATION = re.compile(
    r"^(?:eval|valid|validation|val|dev|test|testing)\.?[/_ ](?:set[/_ ])?(?=.)", re.IGNORECASE
)
_OUTCOMES = re.compile(
    r"loss|acc(?:uracy)?(?:$|[@_/\d])|perplexity|ppl|reward|return|f1|auc|bleu|rouge|mse|rmse|mae"
    r"|(?:^|_)r2$|bpb|bpc|nll|iou|map(?:$|[@_\d])|precision|recall|error|err$|score|psnr|ssim|fid"
    r"|(?:^|_)(?:wer|cer)$|entropy|(?:^|[_/])kl(?:$|[_/])|elbo"
)


def canonical(name: str) -> tuple[str, float]:
    """Return the normalised name of what a program calls `name`, and the factor into its unit; the
    name NEVER for what is no value of the training, such as a port."""
    key = name.strip().lower().replace(" ", "_")
    if key in _NORMALISED:
        return _NORMALISED[key], 1.0
    if key in _SCALED:
        return _SCALED[key]
    if key in _SETTINGS:
        return NEVER, 1.0
    prefix = _EVALUATION.match(name)
    if prefix:
        rest, factor = canonical(name[prefix.end() :])
        # Steps of an evaluation are no step of the training, and `val_val_` says no more.
        if rest and rest not in PLACES and not rest.startswith("val_"):
            return f"val_{rest}", factor
    return name.strip(), 1.0


def is_standard(name: str) -> bool:
    """Return True if a name is one of those that names are normalised to."""
    return name in _ALIASES_OF


@lru_cache(2_000)
def is_outcome(name: str) -> bool:
    """Return True if a normalised name is of what training strives for, such as a loss or an
    accuracy, not of a setting."""
    return _OUTCOMES.search(name.lower()) is not None

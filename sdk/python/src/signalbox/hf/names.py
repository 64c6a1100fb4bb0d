"""Names of metrics: from those of Trainer to those of a run."""

from __future__ import annotations

from typing import Any, Dict, Mapping

_NAMES: Mapping[str, str] = {"learning_rate": "lr", "mean_token_accuracy": "token_accuracy"}
# What Trainer logs about the whole training or this process, and what it counts from 0 after each resume.
_SKIPPED = frozenset(("model_preparation_time", "num_tokens", "total_flos", "train_loss"))
_SKIPPED_ENDS = ("runtime", "samples_per_second", "steps_per_second")


def metrics(logs: Dict[str, Any]) -> Dict[str, float]:
    """Return the metrics of one log of Trainer: train/loss, train/lr, val/loss and so on."""
    found: Dict[str, float] = {}
    for name, value in logs.items():
        group, key = ("val", name[5:]) if name.startswith("eval_") else ("train", name)
        if key in _SKIPPED or key.endswith(_SKIPPED_ENDS) or (group == "val" and key == "epoch"):
            continue
        if isinstance(value, (int, float)):
            found[f"{group}/{_NAMES.get(key, key)}"] = float(value)
    return found

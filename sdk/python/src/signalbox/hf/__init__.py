"""Train with transformers, PEFT and TRL: what the recipes sft/lora, sft/full, pref/dpo and rl/grpo share.

    import sys
    from signalbox import hf

    def train(run, job):
        train_rows, held_out = hf.data(job, hf.rows.sft)
        tokenizer = hf.load_tokenizer(job, train_rows)
        trainer = SFTTrainer(
            model=hf.load_model(job, frozen=True),
            args=hf.arguments(job, SFTConfig, max_length=job["train.max_length"]),
            train_dataset=hf.dataset(train_rows),
            processing_class=tokenizer,
            peft_config=hf.lora(job),
            callbacks=[hf.Callback(run, checkpoint_every=job["checkpoint.every_steps"])],
        )
        hf.fit(trainer, job)
        hf.export(run, job, trainer, tokenizer)

    if __name__ == "__main__":
        sys.exit(hf.main(train, __file__))

`Callback` alone connects any Trainer to a run. `import signalbox` does not import this package, and this package imports
torch and transformers only when something is used that needs them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import rows
from .inputs import InputError, Job
from .launch import main
from .rows import data

if TYPE_CHECKING:
    from .callback import Callback
    from .completions import Completions, prompt_ids
    from .exports import check, export
    from .fitting import fit
    from .models import arguments, dataset, load_model, load_tokenizer, lora

__all__ = [
    "Callback",
    "Completions",
    "InputError",
    "Job",
    "arguments",
    "check",
    "data",
    "dataset",
    "export",
    "fit",
    "load_model",
    "load_tokenizer",
    "lora",
    "main",
    "prompt_ids",
    "rows",
]

_HOMES = {
    "Callback": "callback",
    "Completions": "completions",
    "prompt_ids": "completions",
    "check": "exports",
    "export": "exports",
    "arguments": "models",
    "dataset": "models",
    "fit": "fitting",
    "load_model": "models",
    "load_tokenizer": "models",
    "lora": "models",
}


def __getattr__(name: str) -> Any:
    """Import the module of a name when the name is used first."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    found = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    globals()[name] = found
    return found

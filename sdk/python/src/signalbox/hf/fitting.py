"""Run a trainer from the beginning or from the checkpoint of an earlier attempt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .inputs import InputError, Job


def fit(trainer: Any, job: Job) -> None:
    """Train. A resumed run continues with the same weights, optimizer, schedule, order of rows and random numbers.

    Before the first step, the loss on the rows held out is computed, if there are any and `val.every_steps` is not 0.
    """
    if job.resume_from is None:
        # Not by trainer.evaluate(): after it, train() would not synchronize the gradients of several processes.
        trainer.args.eval_on_start = trainer.eval_dataset is not None and job["val.every_steps"] > 0
        trainer.train()
        return
    step, epochs = _progress(job.resume_from)
    print(f"continuing at step {step}", flush=True)
    _advance_order(trainer, epochs)
    trainer.train(resume_from_checkpoint=str(job.resume_from))


def _progress(checkpoint: Path) -> "tuple[int, int]":
    """Return the step of a checkpoint and the number of epochs that were complete."""
    try:
        state = json.loads((checkpoint / "trainer_state.json").read_text(encoding="utf-8"))
        return int(state["global_step"]), int(float(state["epoch"]) + 1e-6)
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise InputError(f"the checkpoint {checkpoint.name} has no valid trainer_state.json: {err}") from None


def _advance_order(trainer: Any, epochs: int) -> None:
    """Let TRL's RepeatSampler continue with the order of the rows that follows those of the complete epochs.

    It draws the order of each epoch from one generator, which begins again in each process. The samplers of other trainers
    depend on the number of the epoch, which Trainer sets.
    """
    make = trainer._get_train_sampler

    def advanced(*args: Any) -> Any:
        from trl.trainer.utils import RepeatSampler

        sampler = make(*args)
        if isinstance(sampler, RepeatSampler) and sampler.shuffle:
            import torch

            for _ in range(epochs):
                torch.randperm(sampler.num_samples, generator=sampler.generator)
        return sampler

    trainer._get_train_sampler = advanced

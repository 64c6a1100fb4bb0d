"""The callback that connects a Trainer of transformers or TRL to a run."""

from __future__ import annotations

import os
from typing import Any, Callable, Dict, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

import signalbox

from .names import metrics

FORMAT = "transformers"  # of the checkpoints: the folder that Trainer writes and resumes from

Validate = Callable[[Any, int], Dict[str, float]]


class Callback(TrainerCallback):
    """Reports metrics, and saves checkpoints: every `checkpoint_every` steps and when the run is being paused.

    A checkpoint is saved only at a multiple of `cycle` steps. Every `validate_every` steps, before the first step and after
    the last one, `validate(model, step)` is called on the first process and its metrics are reported; with `evaluate`,
    Trainer computes the loss on the rows held out at the same steps. If `validate_every` is 0, neither happens. All numbers
    of steps are those of the optimizer.
    """

    def __init__(
        self,
        run: "signalbox.Run",
        checkpoint_every: int = 0,
        validate_every: int = 0,
        validate: Optional[Validate] = None,
        evaluate: bool = False,
        cycle: int = 1,
    ) -> None:
        self._run = run
        self._checkpoint_every, self._cycle, self._due = checkpoint_every, cycle, False
        self._validate_every, self._validate, self._evaluate = validate_every, validate, evaluate

    def on_train_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report the start of the training, and the quality of the model before the first step."""
        self._run.running()
        if self._validate_every and state.global_step == 0:
            self._validated(state, kwargs.get("model"))

    def on_log(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Report what Trainer logs."""
        found = metrics(kwargs.get("logs") or {}) if state.is_world_process_zero else {}
        if found:
            self._run.log(found, step=state.global_step)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Decide whether to validate and to save after this step."""
        step, last = state.global_step, state.global_step >= state.max_steps
        if self._validate_every and (step % self._validate_every == 0 or last):
            control.should_evaluate = control.should_evaluate or self._evaluate
            self._validated(state, kwargs.get("model"))
        if self._checkpoint_every and step % self._checkpoint_every == 0 and not last:
            self._due = True
        if self._agreed(args, state.is_world_process_zero and self._run.should_checkpoint()):
            self._due = True
        if self._due and step % self._cycle == 0:
            control.should_save, self._due = True, False

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Upload the checkpoint that Trainer has written. If the run is being paused, this ends every process."""
        paused: Optional[signalbox.Paused] = None
        if state.is_world_process_zero:
            folder = os.path.join(str(args.output_dir), f"checkpoint-{state.global_step}")
            try:
                self._run.checkpoint(folder, format=FORMAT, step=state.global_step)
            except signalbox.Paused as pause:
                paused = pause
        if self._agreed(args, paused is not None):
            raise paused or signalbox.Paused()

    def _validated(self, state: TrainerState, model: Any) -> None:
        if self._validate is None or not state.is_world_process_zero:
            return
        found = self._validate(model, state.global_step)
        if found:
            self._run.log(found, step=state.global_step)

    def _agreed(self, args: TrainingArguments, wanted: bool) -> bool:
        """Return what the first process wants. All processes must do the same at the same step."""
        if args.world_size == 1:
            return wanted
        import torch

        flag = torch.tensor([int(wanted)], device=args.device)
        torch.distributed.broadcast(flag, src=0)
        return bool(flag.item())

"""The training job: read the inputs, train, report and export.

Run it as `python -m chat_tiny.train` in the recipe's folder.
"""

from __future__ import annotations

import os
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np  # noqa: E402  (numpy reads the number of threads when it is imported)
import signalbox  # noqa: E402

from chat_tiny import data, evaluate, export_gguf, export_hf, inputs, memory, state, tokenizer  # noqa: E402
from chat_tiny.config import ModelConfig  # noqa: E402
from chat_tiny.optim import Adam, learning_rate  # noqa: E402
from chat_tiny.params import Params  # noqa: E402
from chat_tiny.transformer import Transformer  # noqa: E402

LOG_EVERY = 10


class Trainer:
    """One training run, from its inputs to its exports."""

    def __init__(self, run: "signalbox.Run", job: inputs.Inputs) -> None:
        self.run, self.job, self.hparams = run, job, job.hparams
        rows = data.load(job.dataset)
        self.train_rows, self.held_out = data.split(
            rows, self.hparams["data.held_out"], self.hparams["data.split_seed"]
        )
        self.rng = np.random.default_rng(self.hparams["train.seed"])
        self.model = Transformer(*self._initial())
        config = self.model.config
        self.rows = data.encode(self.train_rows, config.context)
        data.encode(self.held_out, config.context)
        self.gradient = Params.zeros(config)
        self.adam = Adam(
            self.gradient.flat.size, self.hparams["optim.beta1"], self.hparams["optim.beta2"], self.hparams["optim.clip"]
        )
        self.queue = np.array([], np.int64)
        self.elapsed = 0.0  # seconds that earlier attempts have trained

    def _initial(self) -> tuple[ModelConfig, Params]:
        """Return the configuration and weights of the bound model, or random weights if none is bound."""
        if self.job.model:
            params = export_hf.read(self.job.model)
            return params.config, params
        h = self.hparams
        config = ModelConfig(
            vocab=tokenizer.VOCAB,
            layers=h["model.layers"],
            width=h["model.width"],
            heads=h["model.heads"],
            ffn=h["model.ffn"],
            context=h["model.context"],
        )
        return config, Params.random(config, self.rng)

    def train(self) -> float:
        """Train until the target, the last step or the end of the time budget. Return the last exact match."""
        print(
            f"{len(self.train_rows)} rows to train on, {len(self.held_out)} held out, "
            f"{self.gradient.flat.size} parameters"
        )
        resumed = self._resume()
        if resumed is None:
            self._export_gguf("checkpoint", 0)
        self.run.running()
        began = time.monotonic() - self.elapsed
        step, score = resumed or (0, self._validate(0, began))
        every, last = self.hparams["val.every_steps"], self.hparams["train.max_steps"]
        while not self._finished(step, score, began):
            # Validation rounds are at the same steps even if the run was interrupted between them.
            until = min((step // every + 1) * every, last)
            step = self._steps(step, until, score, began)
            score = self._validate(step, began)
        return self._export(step, score)

    def _resume(self) -> tuple[int, float] | None:
        """Restore the state that an earlier attempt saved. Return its step and last exact match, or None."""
        if self.job.resume_from is None:
            return None
        held = state.read(self.job.resume_from, self.hparams, self.gradient.flat.size)
        self.model.params.flat[:] = held.params
        self.adam.first[:], self.adam.second[:], self.adam.steps = held.first, held.second, held.adam_steps
        self.rng.bit_generator.state = held.rng
        self.queue, self.elapsed = held.queue, held.elapsed
        print(f"resuming at step {held.step} after {held.elapsed:.1f} s of training")
        return held.step, held.score

    def _save(self, step: int, score: float, began: float) -> None:
        """Save the state as a checkpoint. If the run is being paused, this ends the process."""
        path = self.job.workdir / "state" / f"step-{step}.npz"
        state.write(
            path,
            state.State(
                params=self.model.params.flat,
                first=self.adam.first,
                second=self.adam.second,
                adam_steps=self.adam.steps,
                queue=self.queue,
                rng=self.rng.bit_generator.state,
                step=step,
                score=score,
                elapsed=time.monotonic() - began,
                hparams=self.hparams,
            ),
        )
        self.run.checkpoint(path, format=state.FORMAT, step=step)

    def _finished(self, step: int, score: float, began: float) -> bool:
        h = self.hparams
        out_of_time = time.monotonic() - began >= h["train.max_seconds"]
        return score >= h["train.target_exact_match"] or step >= h["train.max_steps"] or out_of_time

    def _steps(self, step: int, until: int, score: float, began: float) -> int:
        """Train up to step `until` or the end of the time budget. Return the step reached."""
        h = self.hparams
        since, tokens = time.monotonic(), 0
        while step < until and time.monotonic() - began < h["train.max_seconds"]:
            if self.run.should_checkpoint():  # checked before a step: everything up to the last step is reported
                self._save(step, score, began)
            batch = self.rows.batch(self._next_rows())
            lr = learning_rate(step, h["optim.lr"], h["optim.warmup_steps"], h["train.max_steps"])
            loss = self.model.loss_and_gradient(batch, self.gradient)
            self.adam.step(self.model.params.flat, self.gradient.flat, lr)
            step += 1
            tokens += batch.tokens.size - int(batch.padding.sum())
            if step % LOG_EVERY == 0 or step == until:
                now = time.monotonic()
                speed = tokens / max(now - since, 1e-9)
                self.run.log({"train/loss": loss, "train/lr": lr, "train/tokens_per_s": speed}, step=step)
                since, tokens = now, 0
        return step

    def _next_rows(self) -> np.ndarray:
        """Return the indices of the next batch. Every row is used once per epoch."""
        size = min(self.hparams["train.batch"], len(self.rows))
        while len(self.queue) < size:
            self.queue = np.concatenate([self.queue, self.rng.permutation(len(self.rows))])
        chosen, self.queue = self.queue[:size], self.queue[size:]
        return chosen

    def _validate(self, step: int, began: float) -> float:
        """Evaluate all held-out rows, report the validation round and return its exact match."""
        found = evaluate.validate(self.model, self.held_out)
        score = found.exact_match
        self.run.validation(step=step, samples=found.samples, avg_reward=score, accuracy=score)
        self.run.log({"val/exact_match": score}, step=step)
        print(f"step {step}: exact match {score:.3f} after {time.monotonic() - began:.1f} s", flush=True)
        return score

    def _export(self, step: int, score: float) -> float:
        folder = self.job.workdir / "export" / "hf"
        export_hf.write(folder, self.model.params)
        self.run.artifact(folder, kind="hf_export", format="safetensors", step=step)
        self._export_gguf("merged_model", step)
        return score

    def _export_gguf(self, kind: str, step: int) -> None:
        path = self.job.workdir / "export" / f"chat-tiny-step-{step}.gguf"
        export_gguf.write(path, self.model.params, "chat-tiny")
        self.run.artifact(path, kind=kind, format="gguf", step=step)


def main() -> int:
    """Run the job. Return the exit status: 0 after a complete training, 2 for invalid inputs."""
    memory.keep_freed_arrays()
    try:
        with signalbox.init() as run:
            run.starting()
            job = inputs.from_environment(os.environ)
            run.hparams(job.hparams)
            score = Trainer(run, job).train()
            print(f"finished with exact match {score:.3f}")
    except ValueError as error:
        print(f"chat-tiny: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())

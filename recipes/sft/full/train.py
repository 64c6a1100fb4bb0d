"""Supervised fine-tuning of all weights.

Inputs are a base model in the Hugging Face layout and rows in one of these forms:

    {"messages": [{"role": "user", "content": "…"}, {"role": "assistant", "content": "…"}]}
    {"question": "…", "answer": "…"}
    {"prompt": "…", "completion": "…"}
    {"text": "…"}

The first two use the chat template of the model. The loss is that of the completions, or of the whole text.
The hyperparameters and their defaults are in recipe.json.
"""

from __future__ import annotations

import sys

import signalbox
from signalbox import hf


def train(run: signalbox.Run, job: hf.Job) -> None:
    """Train all weights, validate on rows that were held out, and export the model."""
    from trl import SFTConfig, SFTTrainer

    train_rows, held_out = hf.data(job, hf.rows.sft)
    tokenizer = hf.load_tokenizer(job, train_rows)
    hf.check(job, tokenizer)
    print(f"{len(train_rows)} rows to train on, {len(held_out)} held out", flush=True)

    # A validation round generates completions of some prompts that were held out, and compares them with the rows.
    validate = hf.Completions(run, tokenizer, held_out[: job["val.completions"]], job["val.max_tokens"])
    callback = hf.Callback(
        run,
        checkpoint_every=job["checkpoint.every_steps"],
        validate_every=job["val.every_steps"],
        validate=validate,
        evaluate=bool(held_out),
    )
    trainer = SFTTrainer(
        model=hf.load_model(job, frozen=False),
        args=hf.arguments(job, SFTConfig, max_length=job["train.max_length"]),
        train_dataset=hf.dataset(train_rows),
        eval_dataset=hf.dataset(held_out),
        processing_class=tokenizer,
        callbacks=[callback],
    )
    hf.fit(trainer, job)
    hf.export(run, job, trainer, tokenizer)


if __name__ == "__main__":
    sys.exit(hf.main(train, __file__))

"""Preference training by direct preference optimization (DPO).

Inputs are a base model in the Hugging Face layout, usually one after supervised fine-tuning, and pairs in one of these forms:

    {"question": "…", "chosen": "…", "rejected": "…"}
    {"prompt": [{"role": "user", "content": "…"}], "chosen": [{"role": "assistant", "content": "…"}], "rejected": […]}
    {"chosen": [conversation], "rejected": [the same conversation with another last message]}
    {"prompt": "…", "chosen": "…", "rejected": "…"}

All but the last use the chat template of the model. The model learns to give the chosen response a higher probability than
the rejected one, compared with the reference: the base without the adapter.
The hyperparameters and their defaults are in recipe.json.
"""

from __future__ import annotations

import sys

import signalbox
from signalbox import hf


def train(run: signalbox.Run, job: hf.Job) -> None:
    """Train on pairs, validate on pairs that were held out, and export what was trained."""
    from trl import DPOConfig, DPOTrainer

    train_rows, held_out = hf.data(job, hf.rows.preference)
    tokenizer = hf.load_tokenizer(job, train_rows)
    hf.check(job, tokenizer)
    print(f"{len(train_rows)} pairs to train on, {len(held_out)} held out", flush=True)

    # A validation round shows completions of some prompts that were held out, each beside the chosen response.
    validate = hf.Completions(
        run, tokenizer, held_out[: job["val.completions"]], job["val.max_tokens"], score=None, expected="chosen"
    )
    callback = hf.Callback(
        run,
        checkpoint_every=job["checkpoint.every_steps"],
        validate_every=job["val.every_steps"],
        validate=validate,
        evaluate=bool(held_out),
    )
    adapter = hf.lora(job)
    trainer = DPOTrainer(
        model=hf.load_model(job, frozen=adapter is not None),
        args=hf.arguments(
            job, DPOConfig, max_length=job["train.max_length"], beta=job["dpo.beta"], loss_type=[job["dpo.loss"]]
        ),
        train_dataset=hf.dataset(train_rows),
        eval_dataset=hf.dataset(held_out),
        processing_class=tokenizer,
        peft_config=adapter,
        callbacks=[callback],
    )
    hf.fit(trainer, job)
    hf.export(run, job, trainer, tokenizer)


if __name__ == "__main__":
    sys.exit(hf.main(train, __file__))

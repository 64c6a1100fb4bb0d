"""Reinforcement learning by group relative policy optimization (GRPO).

Inputs are a base model in the Hugging Face layout that can solve some of the tasks, and rows in one of these forms:

    {"question": "…", "answer": "…"}
    {"prompt": [{"role": "user", "content": "…"}], "answer": "…"}
    {"prompt": "…", "answer": "…"}

The first two use the chat template of the model. Several completions of each prompt are sampled. The model learns to
prefer those whose reward is above the mean of their group. rewards.py has the rewards.
The hyperparameters and their defaults are in recipe.json.
"""

from __future__ import annotations

import os
import sys
from typing import Any, List

import signalbox
from signalbox import hf

import rewards


def train(run: signalbox.Run, job: hf.Job) -> None:
    """Train on prompts, validate on prompts that were held out, and export what was trained."""
    from trl import GRPOConfig, GRPOTrainer

    train_rows, held_out = hf.data(job, hf.rows.rewarded)
    tokenizer = hf.load_tokenizer(job, train_rows)
    hf.check(job, tokenizer)
    check_groups(job)
    print(f"{len(train_rows)} prompts to train on, {len(held_out)} held out", flush=True)

    reward = rewards.choose(job["reward.kind"], job["reward.pattern"], job["reward.format_weight"])

    def score(prompts: List[Any], completions: List[Any], answer: List[str], **others: Any) -> List[float]:
        """Return the rewards of completions. TRL passes the other members of the rows by name, such as `answer`."""
        return [reward(hf.rows.last(completion), wanted) for completion, wanted in zip(completions, answer)]

    # A validation round completes some prompts that were held out, always with the most probable token.
    validate = hf.Completions(
        run,
        tokenizer,
        held_out[: job["val.completions"]],
        job["val.max_tokens"],
        score=lambda completion, row: reward(completion, row["answer"]),
        metric="val/reward",
        expected="answer",
    )
    callback = hf.Callback(
        run,
        checkpoint_every=job["checkpoint.every_steps"],
        validate_every=job["val.every_steps"],
        validate=validate,
        cycle=job["grpo.iterations"],  # completions are not a part of a checkpoint
    )
    adapter = hf.lora(job)
    trainer = GRPOTrainer(
        model=hf.load_model(job, frozen=adapter is not None),
        reward_funcs=score,
        args=hf.arguments(
            job,
            GRPOConfig,
            num_generations=job["grpo.generations"],
            max_completion_length=job["grpo.max_tokens"],
            temperature=job["grpo.temperature"],
            beta=job["grpo.beta"],
            num_iterations=job["grpo.iterations"],
        ),
        train_dataset=hf.dataset(train_rows),
        processing_class=tokenizer,
        peft_config=adapter,
        callbacks=[callback],
    )
    hf.fit(trainer, job)
    hf.export(run, job, trainer, tokenizer)


def check_groups(job: hf.Job) -> None:
    """Raise InputError unless the completions of a step are whole groups."""
    processes = int(os.environ.get("WORLD_SIZE") or "1")
    completions = job["train.batch"] * job["train.accumulate"] * processes
    if completions % job["grpo.generations"]:
        raise hf.InputError(
            f"a step has train.batch * train.accumulate * GPUs = {completions} completions, which is not a multiple of "
            f"grpo.generations = {job['grpo.generations']}; change one of them"
        )


if __name__ == "__main__":
    sys.exit(hf.main(train, __file__))

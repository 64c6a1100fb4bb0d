"""Validation samples: completions of prompts that were held out."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Sequence

import signalbox

from .rows import Row, last, shown

BATCH = 16  # prompts that are generated at once

Score = Callable[[str, Row], float]


def exact(completion: str, row: Row) -> float:
    """Return 1 if a completion is the one of the row, without regard to spaces around it, otherwise 0."""
    return float(completion.strip() == last(row["completion"]).strip())


class Completions:
    """Generates greedy completions of rows with prompts, and reports them as a validation round.

    It is the `validate` of a Callback. `score` gives the reward of a completion; without it, samples have no reward.
    `expected` names the member of the row with the right completion, which the samples show.
    """

    def __init__(
        self,
        run: "signalbox.Run",
        tokenizer: Any,
        rows: Sequence[Row],
        max_tokens: int,
        score: Optional[Score] = exact,
        metric: str = "val/exact_match",
        expected: str = "completion",
    ) -> None:
        self._run, self._tokenizer, self._max_tokens = run, tokenizer, max_tokens
        self._rows = [row for row in rows if "prompt" in row]
        self._score, self._metric, self._expected = score, metric, expected

    def __call__(self, model: Any, step: int) -> Dict[str, float]:
        """Report the round of one step and return its metrics."""
        if not self._rows:
            return {}
        samples: List[Dict[str, Any]] = []
        for row, completion in zip(self._rows, self.generate(model)):
            sample: Dict[str, Any] = {"user": shown(row["prompt"]), "assistant": completion}
            if self._expected in row:
                sample["env"] = {"expected": last(row[self._expected])}
            if self._score is not None:
                sample["reward"] = self._score(completion, row)
            samples.append(sample)
        if self._score is None:
            self._run.validation(step=step, samples=samples)
            return {}
        mean = sum(sample["reward"] for sample in samples) / len(samples)
        self._run.validation(step=step, samples=samples, avg_reward=mean)
        return {self._metric: mean}

    def generate(self, model: Any) -> List[str]:
        """Return the greedy completion of each row. NUL, which many databases cannot store, is replaced."""
        import torch

        trained, found = model.training, []
        model.eval()
        try:
            with torch.no_grad():
                for start in range(0, len(self._rows), BATCH):
                    found += self._batch(model, self._rows[start : start + BATCH])
        finally:
            model.train(trained)
        return [text.replace("\x00", "\ufffd") for text in found]

    def _batch(self, model: Any, rows: Sequence[Row]) -> List[str]:
        prompts = [prompt_ids(self._tokenizer, row["prompt"]) for row in rows]
        # Prompts are padded on the left, so that all completions start in the same column.
        inputs = self._tokenizer.pad({"input_ids": prompts}, padding_side="left", return_tensors="pt").to(model.device)
        output = model.generate(
            **inputs,
            max_new_tokens=self._max_tokens,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            use_cache=True,
            pad_token_id=self._tokenizer.pad_token_id,
        )
        fresh = output[:, inputs["input_ids"].shape[1] :]
        return list(self._tokenizer.batch_decode(fresh, skip_special_tokens=True))


def prompt_ids(tokenizer: Any, prompt: Any) -> List[int]:
    """Return the tokens of a prompt: a text as it is, messages in the chat template."""
    if isinstance(prompt, str):
        return list(tokenizer(prompt)["input_ids"])
    return list(tokenizer.apply_chat_template(prompt, add_generation_prompt=True, tokenize=True, return_dict=False))

"""The chat format (ChatML): token ids for training, and the template for engines."""

from __future__ import annotations

from chat_tiny import tokenizer

# The generation prompt is an expression, not text, because Jinja drops the last
# newline of a template: with text, engines would get a different prompt than in training.
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def prompt_ids(question: str) -> list[int]:
    """Return the ids of a user turn with `question`, and of the start of the assistant turn."""
    opening = [tokenizer.START_ID, *tokenizer.encode("user\n" + question), tokenizer.END_ID]
    return [*opening, *tokenizer.encode("\n"), tokenizer.START_ID, *tokenizer.encode("assistant\n")]


def answer_ids(answer: str) -> list[int]:
    """Return the ids that the model should generate: the answer and the end-of-turn token."""
    return [*tokenizer.encode(answer), tokenizer.END_ID]

"""The chat form that the model learns, as ids and as the template engines use."""

from __future__ import annotations

from chat_tiny import tokenizer

# The generation prompt is an expression, not text: Jinja drops a template's
# last newline, and the model would then see another prompt than it learned.
TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def prompt_ids(question: str) -> list[int]:
    """Ids of one user turn and the opening of the assistant's."""
    opening = [tokenizer.START_ID, *tokenizer.encode("user\n" + question), tokenizer.END_ID]
    return [*opening, *tokenizer.encode("\n"), tokenizer.START_ID, *tokenizer.encode("assistant\n")]


def answer_ids(answer: str) -> list[int]:
    """Ids that the model shall produce: the answer and the end of its turn."""
    return [*tokenizer.encode(answer), tokenizer.END_ID]

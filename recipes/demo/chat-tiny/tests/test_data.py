"""Reading, splitting and encoding of question-and-answer rows."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from chat_tiny import chat, data, tokenizer

ROWS = [data.Row(f"{a}+{b}?", str(a + b)) for a in range(10) for b in range(10)]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("not json\n", "train.jsonl:1: not JSON"),
        ('{"question": "1+1?", "answer": "2"}\n[1]\n', "train.jsonl:2: a row is an object"),
        ('{"question": "1+1?"}\n', "train.jsonl:1: 'answer' must be a text"),
        ('{"question": "1+1?", "answer": 2}\n', "'answer' must be a text"),
        ('{"question": "1+1?", "answer": "\\ud800"}\n', "'answer' holds half of a surrogate pair"),
        ('{"question": "", "answer": "2"}\n', "'question' must be a text that is not empty"),
        (
            '{"question": "1+1?", "answer": "2"}\n\n{"question": "1+1?", "answer": "3"}\n',
            "train.jsonl:3: question '1\\+1\\?' has two different answers",
        ),
    ],
)
def test_a_bad_row_is_named(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "train.jsonl").write_text(content)
    with pytest.raises(data.DataError, match=words):
        data.load(tmp_path)


def test_a_folder_without_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(data.DataError, match="no .jsonl file"):
        data.load(tmp_path)
    with pytest.raises(data.DataError, match="no .jsonl file"):
        data.load(tmp_path / "absent")


def test_rows_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'{"question": "\xff", "answer": "2"}\n')
    with pytest.raises(data.DataError, match="train.jsonl:1: not UTF-8"):
        data.load(tmp_path)


def test_every_file_is_read_and_duplicates_are_dropped(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_text(
        '{"question": "1+1?", "answer": "2"}\n{"question": "1+2?", "answer": "3", "more": 1}\n'
    )
    assert sorted(data.load(tmp_path)) == [data.Row("1+1?", "2"), data.Row("1+2?", "3")]


def test_a_line_separator_inside_a_text_ends_no_row(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"question": "a\u2028b", "answer": "c\x85"}\r\n', encoding="utf-8")
    assert data.load(tmp_path) == [data.Row("a\u2028b", "c\x85")]


def test_the_split_is_a_partition_of_the_share_asked_for() -> None:
    train, held_out = data.split(ROWS, 0.2, 0)
    assert (len(train), len(held_out)) == (80, 20)
    assert sorted(train + held_out) == sorted(ROWS)


def test_the_split_depends_on_the_seed_and_not_on_the_order() -> None:
    shuffled = ROWS[:]
    random.Random(5).shuffle(shuffled)
    assert data.split(shuffled, 0.2, 0) == data.split(ROWS, 0.2, 0)
    assert data.split(ROWS, 0.2, 1) != data.split(ROWS, 0.2, 0)


def test_the_split_is_the_same_in_every_version() -> None:
    """Pinned: a changed split would make results of two releases incomparable."""
    _, held_out = data.split(ROWS, 0.05, 0)
    assert [row.question for row in held_out] == PINNED


@pytest.mark.parametrize(("rows", "share"), [(ROWS[:1], 0.2), (ROWS[:2], 0.1), (ROWS[:2], 0.9)])
def test_a_split_without_rows_on_both_sides_is_refused(rows: list[data.Row], share: float) -> None:
    with pytest.raises(data.DataError, match="too few to hold out"):
        data.split(rows, share, 0)


def test_encoded_answers_take_the_same_columns() -> None:
    encoded = data.encode([data.Row("1+1?", "2"), data.Row("70+41?", "111")], 128)
    prompt, longer = chat.prompt_ids("1+1?"), chat.prompt_ids("70+41?")
    assert encoded.padding.tolist() == [2, 0]
    assert encoded.tokens[0].tolist() == [tokenizer.PAD_ID] * 2 + prompt + [0x32] + [tokenizer.PAD_ID] * 2
    assert encoded.tokens[1].tolist() == longer + [0x31] * 3
    assert encoded.targets.tolist() == [[0x32, tokenizer.END_ID, -1, -1], [0x31] * 3 + [tokenizer.END_ID]]
    batch = encoded.batch(np.array([1]))
    assert batch.tokens.shape == (1, len(longer) + 3) and batch.targets.shape == (1, 4)


def test_a_row_longer_than_the_context_is_refused() -> None:
    with pytest.raises(data.DataError, match="more than model.context 30"):
        data.encode([data.Row("x" * 20, "y")], 30)


PINNED = ["1+5?", "4+6?", "7+3?", "9+3?", "9+9?"]

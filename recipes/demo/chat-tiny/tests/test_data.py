"""Reading, splitting and encoding question-and-answer rows."""

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
        ("not json\n", "train.jsonl:1: the row is not JSON"),
        ('{"question": "1+1?", "answer": "2"}\n[1]\n', "train.jsonl:2: a row must be an object"),
        ('{"question": "1+1?"}\n', "train.jsonl:1: 'answer' must be a non-empty string"),
        ('{"question": "1+1?", "answer": 2}\n', "'answer' must be a non-empty string"),
        ('{"question": "1+1?", "answer": "\\ud800"}\n', "'answer' contains half of a surrogate pair"),
        ('{"question": "", "answer": "2"}\n', "'question' must be a non-empty string"),
        (
            '{"question": "1+1?", "answer": "2"}\n\n{"question": "1+1?", "answer": "3"}\n',
            "train.jsonl:3: question '1\\+1\\?' has two different answers",
        ),
    ],
)
def test_invalid_row_error_names_the_line(tmp_path: Path, content: str, words: str) -> None:
    (tmp_path / "train.jsonl").write_text(content)
    with pytest.raises(data.DataError, match=words):
        data.load(tmp_path)


def test_folder_without_jsonl_files_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(data.DataError, match="no .jsonl file"):
        data.load(tmp_path)
    with pytest.raises(data.DataError, match="no .jsonl file"):
        data.load(tmp_path / "absent")


def test_row_must_be_utf8(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_bytes(b'{"question": "\xff", "answer": "2"}\n')
    with pytest.raises(data.DataError, match="train.jsonl:1: the row is not UTF-8"):
        data.load(tmp_path)


def test_load_reads_all_files_and_drops_duplicates(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jsonl").write_text(
        '{"question": "1+1?", "answer": "2"}\n{"question": "1+2?", "answer": "3", "more": 1}\n'
    )
    assert sorted(data.load(tmp_path)) == [data.Row("1+1?", "2"), data.Row("1+2?", "3")]


def test_line_separator_in_a_string_does_not_end_the_row(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"question": "a\u2028b", "answer": "c\x85"}\r\n', encoding="utf-8")
    assert data.load(tmp_path) == [data.Row("a\u2028b", "c\x85")]


def test_byte_order_mark_is_skipped(tmp_path: Path) -> None:
    (tmp_path / "train.jsonl").write_text('{"question": "1+1?", "answer": "2"}\n', encoding="utf-8-sig")
    assert data.load(tmp_path) == [data.Row("1+1?", "2")]


def test_split_holds_out_the_given_fraction() -> None:
    train, held_out = data.split(ROWS, 0.2, 0)
    assert (len(train), len(held_out)) == (80, 20)
    assert sorted(train + held_out) == sorted(ROWS)


def test_split_depends_on_the_seed_but_not_on_the_order() -> None:
    shuffled = ROWS[:]
    random.Random(5).shuffle(shuffled)
    assert data.split(shuffled, 0.2, 0) == data.split(ROWS, 0.2, 0)
    assert data.split(ROWS, 0.2, 1) != data.split(ROWS, 0.2, 0)


def test_split_is_the_same_in_all_versions() -> None:
    """A different split would make the results of two versions incomparable."""
    _, held_out = data.split(ROWS, 0.05, 0)
    assert [row.question for row in held_out] == PINNED


@pytest.mark.parametrize(("rows", "share"), [(ROWS[:1], 0.2), (ROWS[:2], 0.1), (ROWS[:2], 0.9)])
def test_split_with_an_empty_side_is_rejected(rows: list[data.Row], share: float) -> None:
    with pytest.raises(data.DataError, match="too few to hold out"):
        data.split(rows, share, 0)


def test_encode_aligns_prompts_and_targets() -> None:
    encoded = data.encode([data.Row("1+1?", "2"), data.Row("70+41?", "111")], 128)
    prompt, longer = chat.prompt_ids("1+1?"), chat.prompt_ids("70+41?")
    assert encoded.padding.tolist() == [2, 0]
    assert encoded.tokens[0].tolist() == [tokenizer.PAD_ID] * 2 + prompt + [0x32] + [tokenizer.PAD_ID] * 2
    assert encoded.tokens[1].tolist() == longer + [0x31] * 3
    assert encoded.targets.tolist() == [[0x32, tokenizer.END_ID, -1, -1], [0x31] * 3 + [tokenizer.END_ID]]
    batch = encoded.batch(np.array([1]))
    assert batch.tokens.shape == (1, len(longer) + 3) and batch.targets.shape == (1, 4)


def test_row_longer_than_the_context_is_rejected() -> None:
    with pytest.raises(data.DataError, match="more than model.context 30"):
        data.encode([data.Row("x" * 20, "y")], 30)


PINNED = ["1+5?", "4+6?", "7+3?", "9+3?", "9+9?"]

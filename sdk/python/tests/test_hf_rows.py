"""The forms of rows that signalbox.hf reads, and which of them are held out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Dict, List

import pytest
from signalbox.hf import InputError, Job, data, rows

USER, REPLY = {"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}
SYSTEM = {"role": "system", "content": "s"}


def write(folder: Path, found: List[Any], name: str = "a.jsonl") -> Path:
    """Write rows as a file of a dataset."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in found), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("row", "want"),
    [
        ({"question": "q", "answer": "a"}, [{"prompt": [USER], "completion": [REPLY]}]),
        ({"messages": [SYSTEM, USER, REPLY]}, [{"prompt": [SYSTEM, USER], "completion": [REPLY]}]),
        (
            {"messages": [USER, REPLY, USER, REPLY]},
            [{"prompt": [USER], "completion": [REPLY]}, {"prompt": [USER, REPLY, USER], "completion": [REPLY]}],
        ),
        ({"prompt": "q", "completion": "a"}, [{"prompt": "q", "completion": "a"}]),
        ({"prompt": [USER], "completion": [REPLY]}, [{"prompt": [USER], "completion": [REPLY]}]),
        ({"prompt": [USER], "completion": "a"}, [{"prompt": [USER], "completion": [REPLY]}]),
        ({"text": "t"}, [{"text": "t"}]),
    ],
)
def test_forms_of_supervised_fine_tuning(row: Dict[str, Any], want: List[Any]) -> None:
    assert rows.sft(row) == want


@pytest.mark.parametrize(
    ("row", "want"),
    [
        ({"question": "q", "chosen": "a", "rejected": "b"}, {"prompt": [USER], "chosen": [REPLY], "rejected": [{**REPLY, "content": "b"}]}),
        ({"prompt": "q", "chosen": "a", "rejected": "b"}, {"prompt": "q", "chosen": "a", "rejected": "b"}),
        (
            {"chosen": [USER, REPLY], "rejected": [USER, {**REPLY, "content": "b"}]},
            {"prompt": [USER], "chosen": [REPLY], "rejected": [{**REPLY, "content": "b"}]},
        ),
    ],
)
def test_forms_of_preferences(row: Dict[str, Any], want: Dict[str, Any]) -> None:
    assert rows.preference(row) == [want]


@pytest.mark.parametrize(
    ("row", "want"),
    [
        ({"question": "q", "answer": 4}, {"prompt": [USER], "answer": "4"}),
        ({"prompt": "q", "answer": "a"}, {"prompt": "q", "answer": "a"}),
        ({"prompt": [USER]}, {"prompt": [USER], "answer": ""}),
    ],
)
def test_forms_of_reinforcement_learning(row: Dict[str, Any], want: Dict[str, Any]) -> None:
    assert rows.rewarded(row) == [want]


@pytest.mark.parametrize(
    ("convert", "row", "message"),
    [
        (rows.sft, {"input": "x"}, r"a.jsonl:2: the row must be .*it has input"),
        (rows.sft, {"question": 1, "answer": "a"}, "a.jsonl:2: 'question' must be a text"),
        (rows.sft, {"prompt": "p", "completion": ""}, "a.jsonl:2: 'completion' must be a text that is not empty"),
        (rows.sft, {"messages": [USER]}, "a.jsonl:2: 'messages' has no message of the assistant"),
        (rows.sft, {"messages": [{"role": "user", "content": 1}]}, "a.jsonl:2: 'messages': each message"),
        (rows.sft, {"text": "t"}, "a.jsonl:2: the row has another form"),
        (rows.preference, {"question": "q", "chosen": "a"}, "it has no 'rejected'"),
        (rows.preference, {"chosen": [USER, REPLY], "rejected": [REPLY, REPLY]}, "differ in the last message only"),
        (rows.rewarded, {"answer": "a"}, "a.jsonl:2: the row must be"),
    ],
)
def test_invalid_row_is_named(convert: rows.Convert, row: Dict[str, Any], message: str) -> None:
    first = {"question": "q", "answer": "a", "chosen": "a", "rejected": "b"}
    with pytest.raises(InputError, match=message):
        rows.converted([("a.jsonl:1", first), ("a.jsonl:2", row)], convert)


def test_files_are_read_in_order(tmp_path: Path) -> None:
    write(tmp_path / "b", [{"n": 2}], "x.jsonl")
    write(tmp_path / "a", [{"n": 0}, {"n": "\u2028"}], "x.jsonl")
    (tmp_path / "a" / "y.jsonl").write_bytes(b'\xef\xbb\xbf{"n": 1}\r\n\n')
    (tmp_path / "notes.txt").write_text("not a row")
    assert rows.read(tmp_path) == [
        ("a/x.jsonl:1", {"n": 0}),
        ("a/x.jsonl:2", {"n": "\u2028"}),
        ("a/y.jsonl:1", {"n": 1}),
        ("b/x.jsonl:1", {"n": 2}),
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "has no row"), (b"\n{", "a.jsonl:2: the row is not JSON"), (b"\xff", "not UTF-8"), (b"[1]", "must be a JSON object")],
)
def test_invalid_file(tmp_path: Path, content: bytes, message: str) -> None:
    (tmp_path / "a.jsonl").write_bytes(content)
    with pytest.raises(InputError, match=message):
        rows.read(tmp_path)


def test_missing_dataset(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the dataset gone does not exist"):
        rows.read(tmp_path / "gone")


def test_too_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "MOST", 2)
    with pytest.raises(InputError, match="more than 2 rows"):
        rows.read(write(tmp_path, [{"text": "t"}] * 3))


def placed(count: int) -> "List[tuple[str, Dict[str, Any]]]":
    return [(f"a:{i}", {"question": f"q{i}", "answer": "a"}) for i in range(count)]


def test_split_depends_on_seed_and_rows_only() -> None:
    found = placed(100)
    train, held_out = rows.split(found, 0.2, 1000, 7)
    assert (len(train), len(held_out)) == (80, 20)
    assert train == [row for row in found if row not in held_out], "the order of the file is kept"
    again = rows.split(found[::-1], 0.2, 1000, 7)
    assert sorted(again[1], key=str) == sorted(held_out, key=str)
    assert rows.split(found, 0.2, 1000, 8)[1] != held_out
    assert len(rows.split(found, 0.2, 5, 7)[1]) == 5


def test_equal_prompts_are_on_the_same_side() -> None:
    found = [(f"a:{i}", {"question": f"q{i % 4}", "answer": f"{i}"}) for i in range(40)]
    train, held_out = rows.split(found, 0.1, 100, 0)
    assert len(held_out) == 10
    assert not {row["question"] for _, row in train} & {row["question"] for _, row in held_out}


def test_split_without_held_out_rows() -> None:
    assert rows.split(placed(1), 0, 100, 0) == (placed(1), [])
    assert rows.split(placed(1), 0.5, 0, 0) == (placed(1), [])


def test_too_few_rows_to_hold_out() -> None:
    with pytest.raises(InputError, match="1 rows are too few to hold out 0.05 of them"):
        rows.split(placed(1), 0.05, 100, 0)


def bound(tmp_path: Path, **datasets: Path) -> Job:
    """Return a job with these datasets."""
    hparams = {"data.held_out": 0.5, "data.held_out_max": 3, "data.split_seed": 0}
    return Job(hparams=hparams, datasets=datasets, model=tmp_path, model_ref="m", workdir=tmp_path)


def test_data_of_a_job(tmp_path: Path) -> None:
    found = [{"question": f"q{i}", "answer": "a"} for i in range(10)]
    train, held_out = data(bound(tmp_path, train=write(tmp_path / "train", found)), rows.sft)
    assert (len(train), len(held_out)) == (7, 3)
    other = write(tmp_path / "validation", found[:5])
    train, held_out = data(bound(tmp_path, train=tmp_path / "train", validation=other), rows.sft)
    assert (len(train), len(held_out)) == (10, 3)
    with pytest.raises(InputError, match="no dataset is bound as 'train'"):
        data(bound(tmp_path), rows.sft)


def test_texts_of_prompts_and_completions() -> None:
    assert rows.shown("p") == "p"
    assert rows.shown([USER]) == "q"
    assert rows.shown([SYSTEM, USER]) == "system: s\nuser: q"
    assert (rows.last("a"), rows.last([USER, REPLY])) == ("a", "a")
    assert rows.is_chat([{"prompt": [USER]}]) and not rows.is_chat([{"prompt": "p"}]) and not rows.is_chat([{"text": "t"}])

"""recipe.json, the lock files and the dataset generator."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import RECIPE, ROOT

import make_dataset
from chat_tiny import data, settings

LOCKS = [
    RECIPE / "requirements.lock",
    RECIPE / "tests" / "requirements-test.lock",
    ROOT / "agent" / "engine" / "locks" / "llamacpp.lock",
    ROOT / "agent" / "engine" / "locks" / "mlxlm.lock",
]


def test_defaults_are_valid_and_documented() -> None:
    rules = settings.schema()
    assert settings.resolve({}) == {name: rule["default"] for name, rule in rules.items()}
    for rule in rules.values():
        assert set(rule) == {"type", "minimum", "maximum", "default", "description"}


def test_code_reads_every_hyperparameter() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (RECIPE / "chat_tiny").glob("*.py"))
    assert [name for name in settings.schema() if f'"{name}"' not in code] == []


def test_manifest_names_existing_files() -> None:
    manifest = json.loads((RECIPE / "recipe.json").read_text(encoding="utf-8"))
    assert (manifest["api"], manifest["name"]) == ("service/v1", "demo/chat-tiny")
    assert (RECIPE / manifest["requirements"]).is_file()
    assert manifest["entrypoint"][:2] == ["python", "-m"]
    assert (RECIPE / (manifest["entrypoint"][2].replace(".", "/") + ".py")).is_file()


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_lock_has_hashes_and_no_url(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert "://" not in text and "--index" not in text
    entries = re.split(r"\n(?=\S)", text.strip())
    for entry in entries:
        assert re.match(r"[\w.\[\]-]+==\S+", entry), entry
        assert "--hash=sha256:" in entry, entry
    wanted = re.findall(r"^([\w-]+)(?:\[\w+\])?==(\S+)$", lock.with_suffix(".in").read_text(), re.MULTILINE)
    assert wanted
    for name, version in wanted:
        assert any(entry.startswith(f"{name}=={version} ") for entry in entries), name


def test_tests_and_agent_use_the_same_engine_version() -> None:
    pins = [re.search(r"xllamacpp==\S+", path.read_text()).group() for path in (LOCKS[1], LOCKS[2])]
    assert pins[0] == pins[1]


def test_generated_rows_are_correct_different_and_repeatable(tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    assert make_dataset.main(["--digits", "2", "--pairs", "500", "--seed", "9", "--out", str(out)]) == 0
    rows = data.load(tmp_path)
    assert len(rows) == 500
    for row in rows:
        a, b = re.fullmatch(r"(\d\d)\+(\d\d)\?", row.question).groups()
        assert row.answer == str(int(a) + int(b))
    assert make_dataset.rows(2, 500, 9) == [json.loads(line) for line in out.read_text().splitlines()]
    assert make_dataset.rows(2, 500, 9) != make_dataset.rows(2, 500, 10)


def test_too_many_pairs_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    with pytest.raises(SystemExit) as ended:
        make_dataset.main(["--digits", "1", "--pairs", "101", "--out", str(tmp_path / "x")])
    assert ended.value.code == 2
    assert "--pairs must be between 1 and 100 for --digits 1, got 101" in capsys.readouterr().err

"""The manifests of the training recipes agree with their code. These tests need no framework."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from signalbox.hf.inputs import resolve

RECIPES = Path(__file__).resolve().parents[1]
NAMES = ("sft/lora", "sft/full", "pref/dpo", "rl/grpo")
SHARED = RECIPES.parent / "sdk" / "python" / "src" / "signalbox" / "hf"
READ = re.compile(r'job\["([a-z_.0-9]+)"\]')


@pytest.fixture(params=NAMES)
def recipe(request: pytest.FixtureRequest) -> Path:
    """Each training recipe."""
    return RECIPES / request.param


def manifest(recipe: Path) -> dict:
    """Return the manifest of a recipe."""
    return json.loads((recipe / "recipe.json").read_text(encoding="utf-8"))


def read_by(*files: Path) -> set[str]:
    """Return the hyperparameters that files read."""
    return {name for file in files for name in READ.findall(file.read_text(encoding="utf-8"))}


def test_every_hyperparameter_is_read(recipe: Path) -> None:
    declared = set(manifest(recipe)["params_schema"]["properties"])
    shared, own = read_by(*SHARED.glob("[a-z]*.py")), read_by(*recipe.glob("*.py"))
    assert own <= declared
    assert declared <= own | shared
    adapter = {"export.merge", *(name for name in shared if name.startswith("lora."))}
    assert shared - declared == (adapter if recipe.name == "full" else set())


def test_defaults_are_valid(recipe: Path) -> None:
    properties = manifest(recipe)["params_schema"]["properties"]
    defaults = resolve(properties, {})
    assert set(defaults) == set(properties), "each hyperparameter has a default"
    assert resolve(properties, defaults) == defaults
    assert all(len(rule["description"]) > 20 for rule in properties.values())


def test_recipe_is_one_short_program(recipe: Path) -> None:
    program = (recipe / "train.py").read_text(encoding="utf-8")
    assert len(program.splitlines()) <= 180
    assert {file.name for file in recipe.glob("*.py")} == {"train.py", *(["rewards.py"] if recipe.name == "grpo" else [])}


def test_inputs_and_outputs(recipe: Path) -> None:
    found = manifest(recipe)
    assert [(entry["name"], entry["required"]) for entry in found["inputs"]] == [
        ("train", True),
        ("validation", False),
        ("model", True),
    ]
    outputs = {(entry["kind"], entry["format"]) for entry in found["outputs"]}
    assert {("checkpoint", "transformers"), ("merged_model", "safetensors"), ("merged_model", "gguf")} <= outputs
    assert (("hf_export", "peft") in outputs) == (recipe.name != "full")
    assert found["resumable"] is True


def test_equal_hyperparameters_have_equal_descriptions() -> None:
    seen: dict[str, dict] = {}
    for name in ("sft/lora", "sft/full"):
        for parameter, rule in manifest(RECIPES / name)["params_schema"]["properties"].items():
            same = {key: value for key, value in rule.items() if key != "default"}
            assert seen.setdefault(parameter, same) == same, parameter

"""The inputs of a job that signalbox.hf reads."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any, Dict

import pytest
from signalbox.hf import InputError
from signalbox.hf.inputs import folder, from_environment, resolve

PROPERTIES: Dict[str, Dict[str, Any]] = {
    "optim.lr": {"type": "number", "minimum": 0.001, "maximum": 1, "default": 0.1},
    "train.seed": {"type": "integer", "minimum": 0, "maximum": 2147483647, "default": 0},
    "export.merge": {"type": "boolean", "default": False},
    "export.gguf": {"type": "string", "enum": ["none", "f32"], "default": "none"},
}


@pytest.fixture
def job(tmp_path: Path) -> Dict[str, str]:
    """The environment of a job with a model, a dataset and no hyperparameters of its own."""
    (tmp_path / "recipe.json").write_text(json.dumps({"params_schema": {"properties": PROPERTIES}}))
    for name in ("model", "rows"):
        (tmp_path / name).mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    bound = {"model": {"ref": "mdl/a@1", "path": str(tmp_path / "model")}, "datasets": {"train": {"path": str(tmp_path / "rows")}}}
    (tmp_path / "bindings.json").write_text(json.dumps(bound))
    return {"SERVICE_JOB_BINDINGS_FILE": str(tmp_path / "bindings.json"), "SERVICE_JOB_WORKDIR": str(tmp_path / "work")}


def test_inputs_without_hyperparameters_have_defaults(job: Dict[str, str], tmp_path: Path) -> None:
    found = from_environment(tmp_path, job)
    assert found.hparams == {"optim.lr": 0.1, "train.seed": 0, "export.merge": False, "export.gguf": "none"}
    assert found["optim.lr"] == 0.1
    assert (found.model, found.model_ref) == (tmp_path / "model", "mdl/a@1")
    assert (found.datasets, found.workdir) == ({"train": tmp_path / "rows"}, tmp_path / "work")
    assert found.resume_from is None


@pytest.mark.parametrize(("chosen", "seed"), [({}, 7), ({"train.seed": 3}, 3)])
def test_seed_of_run_applies_unless_it_is_set(job: Dict[str, str], tmp_path: Path, chosen: Dict[str, Any], seed: int) -> None:
    (tmp_path / "hparams.json").write_text(json.dumps(chosen))
    job.update({"SERVICE_JOB_SEED": str((1 << 31) + 7), "SERVICE_JOB_HPARAMS_FILE": str(tmp_path / "hparams.json")})
    assert from_environment(tmp_path, job)["train.seed"] == seed


@pytest.mark.parametrize(
    ("chosen", "message"),
    [
        ({"optim.lr": "0.1"}, "optim.lr must be of type number"),
        ({"optim.lr": True}, "optim.lr must be of type number"),
        ({"optim.lr": 2}, "optim.lr must be from 0.001 to 1"),
        ({"train.seed": 1.5}, "train.seed must be of type integer"),
        ({"export.merge": 1}, "export.merge must be of type boolean"),
        ({"export.gguf": "q4"}, "export.gguf must be one of none, f32"),
        ({"optim.rl": 1}, "unknown hyperparameter optim.rl"),
    ],
)
def test_invalid_hyperparameter_is_named(chosen: Dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        resolve(PROPERTIES, chosen)


def test_whole_number_is_an_integer() -> None:
    assert resolve(PROPERTIES, {"train.seed": 2.0})["train.seed"] == 2


@pytest.mark.parametrize(
    ("bindings", "message"),
    [
        ("{}", "no model is bound"),
        ('{"model": {"ref": "x"}}', "no model is bound"),
        ("[]", "must contain a JSON object"),
        ("{", "SERVICE_JOB_BINDINGS_FILE"),
    ],
)
def test_missing_model(job: Dict[str, str], tmp_path: Path, bindings: str, message: str) -> None:
    Path(job["SERVICE_JOB_BINDINGS_FILE"]).write_text(bindings)
    with pytest.raises(InputError, match=message):
        from_environment(tmp_path, job)


def test_invalid_manifest_and_seed(job: Dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="SERVICE_JOB_SEED is not an integer"):
        from_environment(tmp_path, {**job, "SERVICE_JOB_SEED": "x"})
    with pytest.raises(InputError, match="recipe.json has no params_schema"):
        from_environment(tmp_path / "model", job)


def test_checkpoint_is_unpacked(job: Dict[str, str], tmp_path: Path) -> None:
    state = tmp_path / "checkpoint-7"
    state.mkdir()
    (state / "trainer_state.json").write_text("{}")
    with tarfile.open(tmp_path / "checkpoint-7.tar", "w") as tar:
        tar.add(state / "trainer_state.json", "trainer_state.json")
    for resume in (state, tmp_path / "checkpoint-7.tar"):
        found = from_environment(tmp_path, {**job, "SERVICE_JOB_RESUME_FROM": str(resume)})
        assert found.resume_from is not None and (found.resume_from / "trainer_state.json").is_file()


def test_folder_without_the_expected_file(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    with pytest.raises(InputError, match="model has no config.json"):
        folder(tmp_path / "model", tmp_path / "target", "config.json")
    (tmp_path / "model" / "a.tar").write_text("not a tar")
    with pytest.raises(InputError, match="a.tar cannot be unpacked"):
        folder(tmp_path / "model", tmp_path / "target", "config.json")
    with tarfile.open(tmp_path / "model" / "a.tar", "w") as tar:
        tar.add(tmp_path / "recipe.json" if (tmp_path / "recipe.json").exists() else __file__, "other")
    with pytest.raises(InputError, match="must contain one config.json, found 0"):
        folder(tmp_path / "model", tmp_path / "target", "config.json")


def test_tar_cannot_write_outside_its_folder(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    with tarfile.open(tmp_path / "evil.tar", "w") as tar:
        tar.add(tmp_path / "config.json", "../../escaped/config.json")
    with pytest.raises(InputError, match="evil.tar cannot be unpacked"):
        folder(tmp_path / "evil.tar", tmp_path / "a" / "b", "config.json")
    assert not (tmp_path / "escaped").exists()

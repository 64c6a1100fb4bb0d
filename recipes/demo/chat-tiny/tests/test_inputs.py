"""The inputs of the job: valid and invalid hyperparameters, bindings and models."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from chat_tiny import inputs, settings


def environment(tmp_path: Path, hparams: object = None, bindings: object = None, **more: str) -> dict[str, str]:
    """Return SERVICE_JOB_* variables, and write the files that they name."""
    found = {"SERVICE_JOB_WORKDIR": str(tmp_path / "work"), **more}
    for variable, content in (("SERVICE_JOB_HPARAMS_FILE", hparams), ("SERVICE_JOB_BINDINGS_FILE", bindings)):
        if content is not None:
            path = tmp_path / f"{variable}.json"
            path.write_text(content if isinstance(content, str) else json.dumps(content))
            found[variable] = str(path)
    return found


BOUND = {"datasets": {"train": {"ref": "ds/additions@v1", "path": "/data/train"}}}


def test_defaults_come_from_the_manifest(tmp_path: Path) -> None:
    job = inputs.from_environment(environment(tmp_path, {"optim.lr": 0.001}, BOUND))
    assert job.hparams["optim.lr"] == 0.001
    assert job.hparams["model.width"] == settings.schema()["model.width"]["default"]
    assert (job.dataset, job.model, job.workdir) == (Path("/data/train"), None, tmp_path / "work")


@pytest.mark.parametrize(
    ("hparams", "words"),
    [
        ({"optim.rate": 1}, "unknown optim.rate"),
        ({"model.layers": 1.5}, "model.layers must be of type integer"),
        ({"model.layers": True}, "model.layers must be of type integer"),
        ({"optim.lr": "fast"}, "optim.lr must be of type number"),
        ({"optim.lr": None}, "optim.lr must be of type number"),
        ({"optim.lr": 5}, "optim.lr must be between 1e-06 and 0.1, got 5"),
        ("[]", "must contain a JSON object"),
        ("{", "SERVICE_JOB_HPARAMS_FILE"),
    ],
)
def test_invalid_hyperparameter_error_names_it(tmp_path: Path, hparams: object, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        inputs.from_environment(environment(tmp_path, hparams, BOUND))


@pytest.mark.parametrize("bindings", [None, {}, {"datasets": {}}, {"datasets": {"train": {"ref": "x"}}}, {"datasets": 3}])
def test_missing_dataset_error_names_it(tmp_path: Path, bindings: object) -> None:
    with pytest.raises(inputs.InputError, match="no dataset is bound as 'train'"):
        inputs.from_environment(environment(tmp_path, None, bindings))


def test_missing_bindings_file_error_names_it(tmp_path: Path) -> None:
    with pytest.raises(inputs.InputError, match="SERVICE_JOB_BINDINGS_FILE: .*absent.json"):
        inputs.from_environment({"SERVICE_JOB_BINDINGS_FILE": str(tmp_path / "absent.json")})


def test_seed_of_the_run_applies_unless_the_user_set_one(tmp_path: Path) -> None:
    with_seed = environment(tmp_path, {}, BOUND, SERVICE_JOB_SEED="41")
    assert inputs.from_environment(with_seed).hparams["train.seed"] == 41
    both = environment(tmp_path, {"train.seed": 3}, BOUND, SERVICE_JOB_SEED="41")
    assert inputs.from_environment(both).hparams["train.seed"] == 3
    large = environment(tmp_path, {}, BOUND, SERVICE_JOB_SEED=str(2**40 + 5))
    assert inputs.from_environment(large).hparams["train.seed"] == 5
    with pytest.raises(inputs.InputError, match="not an integer: 'x'"):
        inputs.from_environment(environment(tmp_path, {}, BOUND, SERVICE_JOB_SEED="x"))


def test_model_in_a_tar_is_unpacked(tmp_path: Path) -> None:
    source = tmp_path / "hf"
    source.mkdir()
    (source / "config.json").write_text("{}")
    bound = tmp_path / "bound"
    bound.mkdir()
    with tarfile.open(bound / "hf.tar", "w") as archive:
        archive.add(source, arcname="hf")
    for given in (bound, bound / "hf.tar"):
        folder = inputs.unpacked(given, tmp_path / "work")
        assert (folder / "config.json").read_text() == "{}"
    assert inputs.unpacked(source, tmp_path / "work") == source


def test_tar_with_a_path_outside_its_folder_is_rejected(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        archive.add(__file__, arcname="../outside.py")
    with pytest.raises(inputs.InputError, match="cannot be unpacked"):
        inputs.unpacked(tmp_path / "evil.tar", tmp_path / "work")
    assert not (tmp_path / "outside.py").exists()


def test_invalid_tar_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "model.tar").write_text("junk")
    with pytest.raises(inputs.InputError, match="cannot be unpacked"):
        inputs.unpacked(tmp_path / "model.tar", tmp_path / "work")

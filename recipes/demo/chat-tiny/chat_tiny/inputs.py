"""Read the job's inputs: hyperparameters, bindings and working folder."""

from __future__ import annotations

import json
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from chat_tiny import settings


class InputError(ValueError):
    """An input of the job is missing or invalid."""


@dataclass(frozen=True)
class Inputs:
    """The hyperparameters and paths of one training run."""

    hparams: dict[str, int | float]
    dataset: Path
    model: Path | None
    workdir: Path
    resume_from: Path | None = None


def from_environment(environment: Mapping[str, str]) -> Inputs:
    """Read the inputs from the SERVICE_JOB_* variables and the files that they name.

    The seed of the run (SERVICE_JOB_SEED) applies unless the user set `train.seed`.
    Raises InputError or settings.SettingsError if an input is missing or invalid.
    """
    given = _read_object(environment, "SERVICE_JOB_HPARAMS_FILE")
    seed = environment.get("SERVICE_JOB_SEED", "")
    if seed and "train.seed" not in given:
        try:
            given = {**given, "train.seed": int(seed) % (1 << 31)}
        except ValueError:
            raise InputError(f"SERVICE_JOB_SEED is not an integer: {seed!r}") from None
    bindings = _read_object(environment, "SERVICE_JOB_BINDINGS_FILE")
    workdir = Path(environment.get("SERVICE_JOB_WORKDIR") or ".")
    dataset = _path(_member(bindings, "datasets"), "train")
    if dataset is None:
        raise InputError("no dataset is bound as 'train'; bind one in spec.bindings.datasets")
    model = _path(bindings, "model")
    resume = environment.get("SERVICE_JOB_RESUME_FROM", "")
    return Inputs(
        settings.resolve(given),
        dataset,
        unpacked(model, workdir) if model else None,
        workdir,
        Path(resume) if resume else None,
    )


def unpacked(model: Path, workdir: Path) -> Path:
    """Return the folder of a bound model. A model stored as a tar is unpacked into `workdir`."""
    archive = model
    if model.is_dir():
        found = [path for path in model.iterdir() if path.suffix == ".tar"]
        if (model / "config.json").is_file() or len(found) != 1:
            return model
        archive = found[0]
    target = workdir / "init_from"
    try:
        with tarfile.open(archive) as opened:
            opened.extractall(target, filter="data")
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"model to start from: {archive.name} cannot be unpacked: {error}") from None
    configs = sorted(target.rglob("config.json"))
    if len(configs) != 1:
        raise InputError(f"model to start from: {archive.name} must contain one config.json, found {len(configs)}")
    return configs[0].parent


def _read_object(environment: Mapping[str, str], variable: str) -> dict:
    path = environment.get(variable, "")
    if not path:
        return {}
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{variable}: {error}") from None
    if not isinstance(value, dict):
        raise InputError(f"{variable}: the file must contain a JSON object")
    return value


def _member(value: Mapping, name: str) -> dict:
    member = value.get(name)
    return member if isinstance(member, dict) else {}


def _path(bindings: Mapping, name: str) -> Path | None:
    path = _member(bindings, name).get("path")
    return Path(path) if path else None

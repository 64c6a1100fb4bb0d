"""The inputs of a job: hyperparameters, the bound model and datasets, and the checkpoint to continue from."""

from __future__ import annotations

import json
import os
import tarfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Mapping, Optional

_TYPES: Mapping[str, Any] = {"integer": int, "number": (int, float), "string": str, "boolean": bool}


class InputError(ValueError):
    """An input of the job is missing or invalid. The message names it and what to do."""


@dataclass(frozen=True)
class Job:
    """The inputs of one training job."""

    hparams: Dict[str, Any]
    datasets: Dict[str, Path]
    model: Path
    model_ref: str  # the reference of the bound model, such as mdl/team/base@1; its path if it has none
    workdir: Path
    resume_from: Optional[Path] = None

    def __getitem__(self, name: str) -> Any:
        """Return the value of a hyperparameter."""
        return self.hparams[name]


def from_environment(recipe: "str | os.PathLike[str]", env: Optional[Mapping[str, str]] = None) -> Job:
    """Read the inputs from the SERVICE_JOB_* variables and the files that they name.

    `recipe` is the folder of recipe.json, whose params_schema has the defaults of the hyperparameters. The seed of the
    run, SERVICE_JOB_SEED, applies unless `train.seed` is set. Raises InputError.
    """
    given = os.environ if env is None else env
    properties = _schema(Path(recipe) / "recipe.json")
    chosen = _object(given, "SERVICE_JOB_HPARAMS_FILE")
    seed = given.get("SERVICE_JOB_SEED", "")
    if seed and "train.seed" in properties and "train.seed" not in chosen:
        try:
            chosen = {**chosen, "train.seed": int(seed) % (1 << 31)}
        except ValueError:
            raise InputError(f"SERVICE_JOB_SEED is not an integer: {seed!r}") from None
    bindings = _object(given, "SERVICE_JOB_BINDINGS_FILE")
    workdir = Path(given.get("SERVICE_JOB_WORKDIR") or ".").absolute()
    model = _path(bindings, "model")
    if model is None:
        raise InputError("no model is bound; bind the base model in spec.bindings.model")
    bound = bindings.get("datasets")
    names = list(bound) if isinstance(bound, dict) else []
    datasets = {name: path for name, path in ((name, _path(bound, name)) for name in names) if path is not None}
    resume = given.get("SERVICE_JOB_RESUME_FROM", "")
    return Job(
        hparams=resolve(properties, chosen),
        datasets=datasets,
        model=folder(model, workdir / "base", "config.json"),
        model_ref=str(bindings["model"].get("ref") or model),
        workdir=workdir,
        resume_from=folder(Path(resume), workdir / "resumed", "trainer_state.json") if resume else None,
    )


def resolve(properties: Mapping[str, Mapping[str, Any]], chosen: Mapping[str, Any]) -> Dict[str, Any]:
    """Return all hyperparameters: the chosen ones and the defaults of the others. Raises InputError."""
    unknown = sorted(set(chosen) - set(properties))
    if unknown:
        raise InputError(f"unknown hyperparameter {unknown[0]}; recipe.json has {', '.join(sorted(properties))}")
    found = {name: rule["default"] for name, rule in properties.items() if "default" in rule}
    for name, value in chosen.items():
        found[name] = _checked(name, value, properties[name])
    return found


def folder(path: Path, target: Path, marker: str) -> Path:
    """Return the folder with the file `marker`: the path itself, or what a tar at or in this path contains.

    The tar is unpacked into `target`. Raises InputError if no folder or more than one has the file.
    """
    archive = path
    if path.is_dir():
        if (path / marker).is_file():
            return path
        tars = [inner for inner in path.iterdir() if inner.suffix == ".tar"]
        if len(tars) != 1:
            raise InputError(f"{path.name} has no {marker}; a folder in the Hugging Face layout is expected")
        archive = tars[0]
    rank = os.environ.get("LOCAL_RANK") or "0"
    target = target / rank  # the processes of a node do not wait for each other
    try:
        with tarfile.open(archive) as opened:
            opened.extractall(target, filter="data")
    except (OSError, tarfile.TarError) as err:
        raise InputError(f"{archive.name} cannot be unpacked: {err}") from None
    found = sorted(target.rglob(marker))
    if len(found) != 1:
        raise InputError(f"{archive.name} must contain one {marker}, found {len(found)}")
    return found[0].parent


def _schema(manifest: Path) -> Dict[str, Any]:
    try:
        value = json.loads(manifest.read_text(encoding="utf-8"))
        properties = value["params_schema"]["properties"]
    except (OSError, ValueError, KeyError, TypeError) as err:
        raise InputError(f"{manifest.name} has no params_schema with properties: {err}") from None
    return dict(properties)


def _checked(name: str, value: Any, rule: Mapping[str, Any]) -> Any:
    """Return the value. Raises InputError unless it has the type, the bounds and the choices of the rule."""
    kind = str(rule.get("type"))
    if kind == "integer" and isinstance(value, float) and value.is_integer():
        value = int(value)
    if kind in _TYPES and (not isinstance(value, _TYPES[kind]) or (isinstance(value, bool) and kind != "boolean")):
        raise InputError(f"hyperparameter {name} must be of type {kind}, got {value!r}")
    if "enum" in rule and value not in rule["enum"]:
        raise InputError(f"hyperparameter {name} must be one of {', '.join(map(str, rule['enum']))}, got {value!r}")
    low, high = rule.get("minimum"), rule.get("maximum")
    if (low is not None and value < low) or (high is not None and value > high):
        raise InputError(f"hyperparameter {name} must be from {low} to {high}, got {value!r}")
    return value


def _object(env: Mapping[str, str], variable: str) -> Dict[str, Any]:
    path = env.get(variable, "")
    if not path:
        return {}
    try:
        value = json.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise InputError(f"{variable}: {err}") from None
    if not isinstance(value, dict):
        raise InputError(f"{variable}: the file must contain a JSON object")
    return value


def _path(bindings: Any, name: str) -> Optional[Path]:
    """Return the path of a binding, or None if it does not exist."""
    member = bindings.get(name) if isinstance(bindings, dict) else None
    path = member.get("path") if isinstance(member, dict) else None
    return Path(path) if path else None

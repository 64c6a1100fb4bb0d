"""Checkpoints with the complete training state. A resumed run continues as if it had not been interrupted.

A checkpoint contains everything that later steps depend on: weights, Adam's moments, the state of the
random generator, the queue of rows, the step and the elapsed time. The file is a .npz of plain arrays.
Reading it executes no code.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

FORMAT = "npz"
VERSION = 1


class StateError(ValueError):
    """This training cannot continue from the checkpoint. The message contains the reason."""


@dataclass(frozen=True)
class State:
    """The state of a training between two steps."""

    params: np.ndarray
    first: np.ndarray
    second: np.ndarray
    adam_steps: int
    queue: np.ndarray
    rng: dict
    step: int
    score: float
    elapsed: float
    hparams: dict[str, int | float]


def write(path: Path, state: State) -> None:
    """Write a checkpoint. The file appears only when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    facts = {
        "version": VERSION,
        "adam_steps": state.adam_steps,
        "rng": state.rng,
        "step": state.step,
        "score": state.score,
        "elapsed": state.elapsed,
        "hparams": state.hparams,
    }
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez(
            file,
            params=state.params,
            first=state.first,
            second=state.second,
            queue=state.queue,
            facts=np.frombuffer(json.dumps(facts).encode(), np.uint8),
        )
    part.replace(path)


def read(path: Path, hparams: Mapping[str, int | float], size: int) -> State:
    """Read a checkpoint of a model with `size` parameters.

    Raises StateError if the file cannot be read, or if the model's size or the
    hyperparameters differ from those of the training that wrote it.
    """
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in ("params", "first", "second", "queue", "facts")}
        facts = json.loads(arrays["facts"].tobytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise StateError(f"checkpoint {path.name} cannot be read: {error}") from None
    if facts.get("version") != VERSION:
        raise StateError(f"checkpoint {path.name} has format version {facts.get('version')}, not {VERSION}")
    changed = sorted(name for name in hparams if facts["hparams"].get(name) != hparams[name])
    if changed:
        raise StateError(f"checkpoint {path.name} was trained with other values of {', '.join(changed)}")
    for name in ("params", "first", "second"):
        if arrays[name].shape != (size,) or arrays[name].dtype != np.float32:
            raise StateError(f"checkpoint {path.name}: {name} must be {size} float32 numbers, as in this model")
    return State(
        params=arrays["params"],
        first=arrays["first"],
        second=arrays["second"],
        adam_steps=facts["adam_steps"],
        queue=arrays["queue"],
        rng=facts["rng"],
        step=facts["step"],
        score=facts["score"],
        elapsed=facts["elapsed"],
        hparams=facts["hparams"],
    )

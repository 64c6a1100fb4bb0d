"""The training's whole state as one file, so that a run goes on as if it had never been interrupted.

What decides every later number is in it: weights, Adam's moments, the random generator, the rows that
are still to come, the step, and the time that is spent. It is a .npz of plain arrays; nothing in it is
executed when it is read.
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
    """A checkpoint that this training cannot go on from; the message says why."""


@dataclass(frozen=True)
class State:
    """Where a training stands between two steps."""

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
    """Writes a state; the file is there whole or not at all."""
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
    """Reads a state of a model of `size` numbers that was trained with these hyperparameters."""
    try:
        with np.load(path, allow_pickle=False) as held:
            arrays = {name: held[name] for name in ("params", "first", "second", "queue", "facts")}
        facts = json.loads(arrays["facts"].tobytes())
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise StateError(f"checkpoint {path.name} cannot be read: {error}") from None
    if facts.get("version") != VERSION:
        raise StateError(f"checkpoint {path.name} is of version {facts.get('version')}, not {VERSION}")
    changed = sorted(name for name in hparams if facts["hparams"].get(name) != hparams[name])
    if changed:
        raise StateError(f"checkpoint {path.name} was trained with another {', '.join(changed)}")
    for name in ("params", "first", "second"):
        if arrays[name].shape != (size,) or arrays[name].dtype != np.float32:
            raise StateError(f"checkpoint {path.name}: {name} is not of this model")
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

"""A training that is paused and resumed gives the same results as an uninterrupted one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import signalbox
from conftest import RecordingRun

from chat_tiny import inputs, settings, state, train

SHORT = {
    "train.max_steps": 47,
    "val.every_steps": 20,
    "train.batch": 16,
    "model.width": 24,
    "model.ffn": 24,
    "train.seed": 3,
}


def job(dataset: Path, folder: Path, resume: Path | None = None, **more: int | float) -> inputs.Inputs:
    return inputs.Inputs(settings.resolve({**SHORT, **more}), dataset, None, folder, resume)


def weights(folder: Path) -> bytes:
    return (folder / "export" / "hf" / "model.safetensors").read_bytes()


def numbers(*runs: RecordingRun) -> list[tuple]:
    """Return the reported metrics and validation rounds, without the speed, which depends on the machine."""
    found = []
    for run in runs:
        for event in run.events:
            if event[0] == "log":
                found.append(("log", event[1], {k: v for k, v in event[2].items() if k != "train/tokens_per_s"}))
            if event[0] == "validation":
                found.append(event)
    return found


def paused(dataset: Path, folder: Path, after: int, resume: Path | None = None) -> tuple[RecordingRun, Path]:
    run = RecordingRun(pause_after=after)
    with pytest.raises(signalbox.Paused):
        train.Trainer(run, job(dataset, folder, resume)).train()
    last = run.of("artifact")[-1]
    assert last[2:4] == ("checkpoint", state.FORMAT)
    return run, last[4]


def test_resumed_training_gives_the_same_model(additions, tmp_path: Path) -> None:
    dataset = additions(1, 100)
    whole = RecordingRun()
    score = train.Trainer(whole, job(dataset, tmp_path / "whole")).train()
    first, held = paused(dataset, tmp_path / "first", 4)
    second, held = paused(dataset, tmp_path / "second", 2, held)
    third = RecordingRun()
    assert train.Trainer(third, job(dataset, tmp_path / "third", held)).train() == score
    assert weights(tmp_path / "third") == weights(tmp_path / "whole")
    assert numbers(first, second, third) == numbers(whole)
    assert not [e for e in third.of("artifact") if e[2] == "checkpoint"], "the training must not start at step 0"


def test_time_limit_applies_to_the_sum_of_attempts(additions, tmp_path: Path) -> None:
    dataset = additions(1, 100)
    _, held = paused(dataset, tmp_path / "first", 2)
    with np.load(held) as arrays:
        parts = {name: arrays[name] for name in arrays.files}
    facts = json.loads(parts["facts"].tobytes())
    facts["elapsed"] = 1e6
    parts["facts"] = np.frombuffer(json.dumps(facts).encode(), np.uint8)
    np.savez(held, **parts)
    run = RecordingRun()
    train.Trainer(run, job(dataset, tmp_path / "second", held)).train()
    assert run.of("artifact")[-1][1] == facts["step"], "no time is left for another step"


@pytest.mark.parametrize("damage", ["cut", "text", "absent", "hparams", "version"])
def test_unusable_checkpoint_is_rejected(additions, tmp_path: Path, damage: str) -> None:
    dataset = additions(1, 100)
    _, held = paused(dataset, tmp_path / "first", 2)
    more: dict[str, int | float] = {}
    if damage == "cut":
        held.write_bytes(held.read_bytes()[:1000])
    if damage == "text":
        held.write_text("weights")
    if damage == "absent":
        held.unlink()
    if damage == "hparams":
        more = {"optim.lr": 0.01}
    if damage == "version":
        with np.load(held) as arrays:
            parts = {name: arrays[name] for name in arrays.files}
        parts["facts"] = np.frombuffer(b'{"version": 2}', np.uint8)
        np.savez(held, **parts)
    with pytest.raises(state.StateError, match="checkpoint"):
        train.Trainer(RecordingRun(), job(dataset, tmp_path / "second", held, **more)).train()


def test_checkpoint_path_is_read_from_the_environment(additions, tmp_path: Path) -> None:
    bindings = tmp_path / "bindings.json"
    bindings.write_text(json.dumps({"datasets": {"train": {"path": str(additions(1, 100))}}}))
    environment = {"SERVICE_JOB_BINDINGS_FILE": str(bindings), "SERVICE_JOB_WORKDIR": str(tmp_path)}
    assert inputs.from_environment(environment).resume_from is None
    environment["SERVICE_JOB_RESUME_FROM"] = "/inputs/resume/step-20.npz"
    assert inputs.from_environment(environment).resume_from == Path("/inputs/resume/step-20.npz")

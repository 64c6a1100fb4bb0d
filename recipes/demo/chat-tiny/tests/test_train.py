"""The training job: reports, exports and invalid inputs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import RECIPE, SDK, RecordingRun

from chat_tiny import export_hf, inputs, settings, train

# The hyperparameters of the end-to-end tests, which train with one digit for 3 to 5 s.
SINGLE_DIGITS = {
    "train.batch": 32,
    "train.max_steps": 300,
    "train.max_seconds": 30,
    "optim.lr": 0.004,
    "optim.warmup_steps": 20,
}
SHORT = {"train.max_steps": 30, "val.every_steps": 20, "train.batch": 16, "model.width": 24, "model.ffn": 24}


def job(dataset: Path, folder: Path, model: Path | None = None, **hparams: int | float) -> inputs.Inputs:
    return inputs.Inputs(settings.resolve(hparams), dataset, model, folder)


def test_one_digit_additions_are_learned_in_seconds(run: RecordingRun, additions, tmp_path: Path) -> None:
    score = train.Trainer(run, job(additions(1, 100), tmp_path, **SINGLE_DIGITS)).train()
    rounds = run.of("validation")
    assert rounds[0][4] <= 0.2
    assert score >= 0.3 and rounds[-1][4] == score


def test_reports_are_complete_and_in_order(run: RecordingRun, additions, tmp_path: Path) -> None:
    score = train.Trainer(run, job(additions(1, 100), tmp_path, **SHORT)).train()
    kinds = [event[:1] if event[0] != "artifact" else event[:4] for event in run.events]
    log, validation = ("log",), ("validation",)
    assert kinds == [
        ("artifact", 0, "checkpoint", "gguf"),
        ("running",),
        *[validation, log],
        *[log, log, validation, log],
        *[log, validation, log],
        ("artifact", 30, "hf_export", "safetensors"),
        ("artifact", 30, "merged_model", "gguf"),
    ]
    metrics = [(step, set(values)) for _, step, values in run.of("log")]
    trained, validated = {"train/loss", "train/lr", "train/tokens_per_s"}, {"val/exact_match"}
    assert metrics == [
        *[(0, validated), (10, trained), (20, trained), (20, validated), (30, trained), (30, validated)],
    ]
    for _, _, samples, reward, accuracy in run.of("validation"):
        assert len(samples) == 20 and reward == accuracy == sum(s["reward"] for s in samples) / 20
        for sample in samples:
            assert set(sample) == {"user", "assistant", "env", "reward"}
            assert (sample["reward"] == 1.0) == (sample["assistant"] == sample["env"]["expected"])
            assert "\x00" not in sample["assistant"]
    assert score == run.of("validation")[-1][4]
    assert all(event[4].exists() for event in run.of("artifact"))


def test_seed_determines_the_model(additions, tmp_path: Path) -> None:
    dataset = additions(1, 100)

    def weights(name: str, seed: int) -> bytes:
        folder = tmp_path / name
        train.Trainer(RecordingRun(), job(dataset, folder, **SHORT, **{"train.seed": seed})).train()
        return (folder / "export" / "hf" / "model.safetensors").read_bytes()

    assert weights("first", 5) == weights("again", 5)
    assert weights("other", 6) != weights("first", 5)


def test_training_continues_from_an_export(run: RecordingRun, additions, tmp_path: Path) -> None:
    dataset = additions(1, 100)
    first = train.Trainer(run, job(dataset, tmp_path / "a", **SHORT))
    first.train()
    export = tmp_path / "a" / "export" / "hf"
    second = train.Trainer(run, job(dataset, tmp_path / "b", export, **{"train.max_steps": 0}))
    assert second.model.config == first.model.config, "the sizes of the export replace the defaults"
    second.train()
    again = export_hf.read(tmp_path / "b" / "export" / "hf")
    np.testing.assert_array_equal(again.flat, first.model.params.flat)


def test_training_succeeds_at_the_time_limit(run: RecordingRun, additions, tmp_path: Path) -> None:
    budget = {**SHORT, "train.max_steps": 100000, "val.every_steps": 100000, "train.max_seconds": 0.3}
    train.Trainer(run, job(additions(1, 100), tmp_path, **budget)).train()
    last = run.of("artifact")[-1]
    assert 0 < last[1] < 100000
    assert run.of("validation")[-1][1] == last[1], "the last validation round must use the exported weights"


def test_training_ends_early_at_the_target(run: RecordingRun, additions, tmp_path: Path) -> None:
    train.Trainer(run, job(additions(1, 100), tmp_path, **SHORT, **{"train.target_exact_match": 0})).train()
    assert run.of("artifact")[-1][1] == 0


def started(folder: Path, hparams: dict, bindings: dict) -> subprocess.CompletedProcess:
    """Run the manifest's entrypoint as the platform does."""
    (folder / "hparams.json").write_text(json.dumps(hparams))
    (folder / "bindings.json").write_text(json.dumps(bindings))
    environment = {
        **os.environ,
        "PYTHONPATH": str(SDK),
        "PYTHONDONTWRITEBYTECODE": "1",
        "SERVICE_JOB_ENABLED": "0",
        "SERVICE_JOB_HPARAMS_FILE": str(folder / "hparams.json"),
        "SERVICE_JOB_BINDINGS_FILE": str(folder / "bindings.json"),
        "SERVICE_JOB_WORKDIR": str(folder / "work"),
    }
    entry = json.loads((RECIPE / "recipe.json").read_text())["entrypoint"]
    command = [sys.executable, *entry[1:]]
    return subprocess.run(command, cwd=RECIPE, env=environment, capture_output=True, text=True, timeout=120)


def test_entrypoint_trains_and_exports(additions, tmp_path: Path) -> None:
    ended = started(tmp_path, SHORT, {"datasets": {"train": {"ref": "ds/a@v1", "path": str(additions(1, 100))}}})
    assert ended.returncode == 0, ended.stderr
    assert "80 rows to train on, 20 held out" in ended.stdout
    assert "finished with exact match" in ended.stdout
    written = sorted(p.name for p in (tmp_path / "work" / "export").iterdir())
    assert written == ["chat-tiny-step-0.gguf", "chat-tiny-step-30.gguf", "hf"]


@pytest.mark.parametrize(
    ("hparams", "bindings", "words"),
    [
        ({}, {}, "chat-tiny: no dataset is bound as 'train'"),
        ({"optim.rate": 1}, {"datasets": {"train": {"path": "."}}}, "chat-tiny: hparams: unknown optim.rate"),
        ({}, {"datasets": {"train": {"path": "/nonexistent"}}}, "chat-tiny: dataset 'train': no .jsonl file"),
    ],
)
def test_invalid_inputs_exit_with_an_error_message(tmp_path: Path, hparams: dict, bindings: dict, words: str) -> None:
    ended = started(tmp_path, hparams, bindings)
    assert ended.returncode == 2
    assert words in ended.stderr and "Traceback" not in ended.stderr

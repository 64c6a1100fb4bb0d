"""Run a recipe in this process, outside of Signalbox, and read what it reports."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from unittest import mock

RECIPES = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(RECIPES.parent / "sdk" / "python" / "src"), str(Path(__file__).parent)]

from signalbox import control_signals, hf, sinks  # noqa: E402


class Signals(sinks.NoSignals):
    """Requests a checkpoint, and a pause after it, once a metric of the step `at` was reported."""

    def __init__(self, at: int) -> None:
        self.at, self.step = at, -1

    def now(self) -> control_signals.Signal:
        """Return the request for a checkpoint, or no signal before the step."""
        due = 0 <= self.at <= self.step
        return control_signals.Signal("checkpoint", "1") if due else control_signals.Signal()

    def acknowledge(self, signal: control_signals.Signal) -> control_signals.Signal:
        """Return the request to pause."""
        return control_signals.Signal("pause", "2")


class Result(NamedTuple):
    """What one attempt reported."""

    status: int
    reports: list[tuple[str, dict]]
    folder: Path

    def curve(self, key: str) -> dict[int, float]:
        """Return the values of a metric by step."""
        points = [point for stream, report in self.reports if stream == "metrics" for point in report]
        return {point["step"]: point["value"] for point in points if point["key"] == key}

    def artifacts(self) -> list[tuple[str, str]]:
        """Return the kind and the format of each artifact."""
        return [(report["kind"], report["format"]) for stream, report in self.reports if stream == "artifact"]

    def rounds(self) -> list[dict]:
        """Return the validation rounds."""
        return [report for stream, report in self.reports if stream == "validation"]

    def events(self) -> list[str]:
        """Return the lifecycle events."""
        return [report["event"] for stream, report in self.reports if stream == "lifecycle"]


def run(
    recipe: str,
    folder: Path,
    model: Path,
    rows: Path,
    hparams: Mapping[str, object],
    pause_at: int = -1,
    resume_from: Path | None = None,
) -> Result:
    """Run one attempt in a folder. It is paused once the step `pause_at` was reported."""
    folder.mkdir(parents=True)
    (folder / "hparams.json").write_text(json.dumps(hparams))
    bound = {"model": {"ref": "mdl/test/base@1", "path": str(model)}, "datasets": {"train": {"path": str(rows)}}}
    (folder / "bindings.json").write_text(json.dumps(bound))
    environment = {
        "SERVICE_JOB_ENABLED": "0",
        "SERVICE_JOB_DIR": str(folder),
        "SERVICE_JOB_WORKDIR": str(folder),
        "SERVICE_JOB_HPARAMS_FILE": str(folder / "hparams.json"),
        "SERVICE_JOB_BINDINGS_FILE": str(folder / "bindings.json"),
    }
    if resume_from is not None:
        environment["SERVICE_JOB_RESUME_FROM"] = str(resume_from)
    script = RECIPES / recipe / "train.py"
    with mock.patch.dict(os.environ, environment), _signals(pause_at), _imports(script.parent):
        try:
            status = hf.main(_module(script).train, str(script))
        except SystemExit as end:
            status = int(end.code or 0)
    return read(status, folder)


def read(status: int, folder: Path) -> Result:
    """Return what an attempt with this exit status has reported into its folder."""
    lines = [json.loads(line) for line in (folder / "signalbox.jsonl").read_text().splitlines()]
    return Result(status, [(line["stream"], line["report"]) for line in lines], folder)


@contextmanager
def _signals(at: int) -> Iterator[None]:
    signals, put = Signals(at), sinks.Offline.put

    def watched(sink: sinks.Offline, stream: str, items: sinks.Items) -> int:
        if stream == "metrics":
            for fragment, _ in items:
                points = json.loads(b"[" + fragment + b"]")
                signals.step = max([signals.step, *(p["step"] for p in points if p["key"] == "train/loss")])
        return put(sink, stream, items)

    with mock.patch.object(sinks.Offline, "signals", lambda sink: signals), mock.patch.object(sinks.Offline, "put", watched):
        yield


@contextmanager
def _imports(folder: Path) -> Iterator[None]:
    """Let a recipe import the modules next to it."""
    with mock.patch.object(sys, "path", [str(folder), *sys.path]):
        yield


def _module(script: Path):  # noqa: ANN202
    spec = importlib.util.spec_from_file_location(f"{script.parent.parent.name}_{script.parent.name}_train", script)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

"""Hardware samples: unknown values are omitted, and sampling never harms a run."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Dict, List

import pytest
import signalbox
from conftest import QUICK, Env, Start
from control import Control
from signalbox import sampler

CSV = """0, 97, 40960, 81559, 512.25, 61
1, 3, 0, 81559, [N/A], 44
"""


def smi(folder: Path, text: str = CSV, status: int = 0) -> Dict[str, str]:
    """Return an environment in which nvidia-smi is a script that prints `text` and records its arguments."""
    folder.mkdir(exist_ok=True)
    script = folder / "nvidia-smi"
    script.write_text(f'#!/bin/sh\necho "$@" > {folder}/asked\ncat <<END\n{text}END\nexit {status}\n')
    script.chmod(0o755)
    return {"PATH": f"{folder}:{os.environ['PATH']}"}


def machine(root: Path, ticks: str, received: int, sectors: int) -> None:
    """Write the files of /proc and /sys that a probe reads."""
    (root / "proc/net").mkdir(parents=True, exist_ok=True)
    (root / "sys/block/sda").mkdir(parents=True, exist_ok=True)
    (root / "proc/stat").write_text(f"cpu  {ticks}\ncpu0 1 1 1 1 1 1 1 1 0 0\n")
    (root / "proc/meminfo").write_text("MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: 400 kB\n")
    (root / "proc/net/dev").write_text(
        "Inter-|   Receive\n face |bytes\n"
        f"    lo: 99999 0 0 0 0 0 0 0 99999 0\n  eth0: {received} 0 0 0 0 0 0 0 {received * 2} 0\n"
    )
    (root / "proc/diskstats").write_text(
        f"8 0 sda 1 1 {sectors} 1 1 1 {sectors * 2} 1\n8 1 sda1 1 1 {sectors} 1 1 1 {sectors} 1\n"
    )


def figures(points: List[sampler.Point]) -> Dict[str, float]:
    return {p["key"]: p["value"] for p in points if "gpu" not in p}


def test_rates_are_computed_between_two_readings(tmp_path: Path) -> None:
    clock = iter([100.0, 102.0])
    probe = sampler.Probe(str(tmp_path), {"CUDA_VISIBLE_DEVICES": ""}, lambda: next(clock))
    machine(tmp_path, "100 0 100 700 100 0 0 0 0 0", received=1000, sectors=10)
    assert figures(probe.read()) == {"mem": 600 * 1024.0, "mem_total": 1000 * 1024.0}
    machine(tmp_path, "150 0 100 750 100 0 0 0 0 0", received=5000, sectors=30)
    found = figures(probe.read())
    assert found == {
        "mem": 600 * 1024.0,
        "mem_total": 1000 * 1024.0,
        "cpu": 50.0,
        "net_rx": 2000.0,
        "net_tx": 4000.0,
        "disk_read": 20 * 512 / 2,
        "disk_write": 40 * 512 / 2,
    }


def test_reset_counters_have_no_rate(tmp_path: Path) -> None:
    clock = iter([1.0, 2.0])
    probe = sampler.Probe(str(tmp_path), {"CUDA_VISIBLE_DEVICES": ""}, lambda: next(clock))
    machine(tmp_path, "100 0 0 0 0 0 0 0", received=1000, sectors=10)
    probe.read()
    machine(tmp_path, "1 0 0 0 0 0 0 0", received=10, sectors=20)
    assert set(figures(probe.read())) == {"mem", "mem_total", "disk_read", "disk_write"}


def test_machine_without_readable_files_has_no_samples(tmp_path: Path) -> None:
    probe = sampler.Probe(str(tmp_path), {"PATH": str(tmp_path)})
    assert probe.read() == [] and probe.read() == []


def test_gpu_samples_from_nvidia_smi(tmp_path: Path) -> None:
    env = smi(tmp_path / "bin")
    found = sampler.gpus(env)
    assert ("0", "util", 97.0) in found and ("1", "temp", 44.0) in found
    assert ("0", "mem", 40960.0 * (1 << 20)) in found and ("0", "power", 512.25) in found
    assert not [f for f in found if f[:2] == ("1", "power")], "a value that the GPU does not report must be omitted"
    asked = (tmp_path / "bin/asked").read_text()
    assert "--query-gpu=index,utilization.gpu" in asked and "--id" not in asked


@pytest.mark.parametrize(("visible", "asked"), [("0,1", "--id=0,1"), ("GPU-abc", "--id=GPU-abc")])
def test_visible_gpus_only(tmp_path: Path, visible: str, asked: str) -> None:
    env = {**smi(tmp_path / "bin"), "CUDA_VISIBLE_DEVICES": visible}
    assert sampler.gpus(env)
    assert asked in (tmp_path / "bin/asked").read_text()


@pytest.mark.parametrize("visible", ["", " ", "-1"])
def test_no_visible_gpus(tmp_path: Path, visible: str) -> None:
    env = {**smi(tmp_path / "bin"), "CUDA_VISIBLE_DEVICES": visible}
    assert sampler.gpus(env) == [] and not (tmp_path / "bin/asked").exists()


@pytest.mark.parametrize(("text", "status"), [("No devices were found\n", 6), ("", 0), ("garbage\n", 0), ("x, y, z\n", 0)])
def test_failing_nvidia_smi_is_ignored(tmp_path: Path, text: str, status: int) -> None:
    assert sampler.gpus(smi(tmp_path / "bin", text, status)) == []


def wait(control: Control, count: int) -> List[Dict[str, object]]:
    deadline = time.monotonic() + 10
    while len(control.bodies("hardware")) < count:
        assert time.monotonic() < deadline, "timed out waiting for samples"
        time.sleep(0.005)
    return control.bodies("hardware")


def test_sampling_starts_with_run(control: Control, start: Start) -> None:
    run = start(hardware=0.01)
    bodies = wait(control, 2)
    run.finish()
    points = bodies[0]["points"]
    assert isinstance(points, list) and set(points[0]) == {"ts", "node", "key", "value"}
    assert {"mem", "mem_total", "cpu"} <= {p["key"] for body in bodies for p in body["points"]}  # type: ignore[attr-defined]
    settled = len(control.bodies("hardware"))
    assert not [t for t in threading.enumerate() if t.name == "signalbox-sampler"]
    assert len(control.bodies("hardware")) == settled, "sampling must stop with the run"


@pytest.mark.parametrize("env_", [{"LOCAL_RANK": "1", "WORLD_SIZE": "2"}, {"LOCAL_RANK": "7", "WORLD_SIZE": "8"}])
def test_one_process_per_node_samples(
    control: Control, start: Start, monkeypatch: pytest.MonkeyPatch, env_: Dict[str, str]
) -> None:
    for name, value in env_.items():
        monkeypatch.setenv(name, value)
    with start(hardware=0.001) as run:
        assert run.flush()
    assert control.bodies("hardware") == []


def test_sampling_can_be_turned_off(control: Control, start: Start) -> None:
    run = start(hardware=0)
    assert not [t for t in threading.enumerate() if t.name == "signalbox-sampler"]
    with pytest.raises(ValueError, match="interval"):
        run.monitor(0)
    run.monitor(0.01)
    run.monitor(0.01)
    assert len([t for t in threading.enumerate() if t.name == "signalbox-sampler"]) == 1
    wait(control, 1)
    run.finish()


def test_refused_samples_raise_in_training_code(control: Control, start: Start) -> None:
    control.refuse["hardware"] = (400, "refused on purpose")
    run = start(hardware=0.01)
    deadline = time.monotonic() + 10
    with pytest.raises(signalbox.IngestError, match="hardware: HTTP 400"):
        while time.monotonic() < deadline:  # the error must not be lost in the sampler's thread
            run.log({"a": 1}, step=0)
            run.flush()
    with pytest.raises(signalbox.IngestError):
        run.finish()


def test_broken_probe_is_harmless(control: Control, start: Start, env: Env) -> None:
    class Broken(sampler.Probe):
        def read(self) -> List[sampler.Point]:
            raise RuntimeError("no such machine")

    reported: List[List[sampler.Point]] = []
    one = sampler.Sampler(reported.append, 0.001, Broken())
    one.start()
    time.sleep(0.05)
    one.stop()
    assert reported == []
    assert QUICK.linger

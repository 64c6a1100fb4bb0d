"""Runs on several nodes: one process of each node reports its hardware, one process the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Dict

import pytest
from conftest import Start
from control import Control
from signalbox import machine


def test_single_node_reports_environment_only(
    control: Control, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SERVICE_JOB_NNODES", "1")
    with start() as run:
        run.environment()
    assert len(control.bodies("environment")) == 1 and control.bodies("environment_nodes") == []


@pytest.mark.parametrize(
    ("ranks", "pictures", "nodes"),
    [
        ({"RANK": "0", "LOCAL_RANK": "0", "SERVICE_JOB_NODE_RANK": "0"}, 1, [0]),
        ({"RANK": "1", "LOCAL_RANK": "1", "SERVICE_JOB_NODE_RANK": "0"}, 0, []),
        ({"RANK": "8", "LOCAL_RANK": "0", "SERVICE_JOB_NODE_RANK": "1"}, 0, [1]),
        ({"SERVICE_JOB_NODE_RANK": "3"}, 1, [3]),
    ],
)
def test_first_process_of_node_reports_hardware(
    control: Control,
    start: Start,
    monkeypatch: pytest.MonkeyPatch,
    ranks: Dict[str, str],
    pictures: int,
    nodes: "list[int]",
) -> None:
    for name, value in {"SERVICE_JOB_NNODES": "4", "WORLD_SIZE": "32", **ranks}.items():
        monkeypatch.setenv(name, value)
    with start() as run:
        run.environment()
    assert len(control.bodies("environment")) == pictures
    bodies = control.bodies("environment_nodes")
    assert [n["rank"] for body in bodies for n in body["nodes"]] == nodes
    for body in bodies:
        assert set(body) == {"run_id", "nodes"}
        assert set(body["nodes"][0]) <= {"rank", "host", "gpus", "ib", "cpu", "mem_gb"}
        assert body["nodes"][0]["host"] and body["nodes"][0]["cpu"]["cores"] >= 1


def test_nodes_reports_given_hardware(control: Control, start: Start) -> None:
    with start() as run:
        run.nodes([{"rank": 0, "host": "a", "mem_gb": float("inf")}, {"rank": 1, "host": "b"}])
        run.nodes([])
    (body,) = control.bodies("environment_nodes")
    assert body["nodes"] == [{"rank": 0, "host": "a", "mem_gb": "Infinity"}, {"rank": 1, "host": "b"}]
    assert control.paths.count("/api/ingest/environment/nodes") == 1


def test_nodes_are_stored_once(control: Control, start: Start) -> None:
    control.watermarks = True
    run = start()
    run.nodes([{"rank": 0, "host": "a"}])
    assert run.flush()
    run.finish()
    assert len(control.stored) == 1 and control.repeats == 0


def test_node_reads_hardware_files(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/cpuinfo").write_text("processor: 0\nmodel name\t: A Processor 9\nflags: x\n")
    (tmp_path / "proc/meminfo").write_text("MemTotal:       67108864 kB\nMemFree: 1 kB\n")
    port = tmp_path / "sys/class/infiniband/mlx5_0/ports/1"
    port.mkdir(parents=True)
    (port / "rate").write_text("400 Gb/sec (4X NDR)\n")
    found = machine.node({"SERVICE_JOB_NODE_RANK": "2"}, str(tmp_path))
    assert found["rank"] == 2 and found["mem_gb"] == 64.0
    assert found["cpu"]["model"] == "A Processor 9"
    assert found["ib"] == ["mlx5_0/1: 400 Gb/sec (4X NDR)"] and "gpus" not in found
    bare = machine.node({}, str(tmp_path / "nothing"))
    assert bare["rank"] == 0 and set(bare) == {"rank", "host", "cpu"}

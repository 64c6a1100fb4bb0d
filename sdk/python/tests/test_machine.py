"""The static description of the environment. Unknown values are omitted."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from signalbox import machine
from signalbox.capture import fold

VERSION = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024\n"


def nvidia(root: Path) -> str:
    (root / "gpus" / "0000:01:00.0").mkdir(parents=True)
    (root / "gpus" / "0000:41:00.0").mkdir()
    (root / "version").write_text(VERSION)
    for slot in ("0000:01:00.0", "0000:41:00.0"):
        text = "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 42\n"
        (root / "gpus" / slot / "information").write_text(text)
    return str(root)


def test_driver_and_gpus_are_read_from_kernel_module_files(tmp_path: Path) -> None:
    proc = nvidia(tmp_path)
    assert machine.driver(proc) == "550.54.15"
    assert machine.gpus(proc) == ["NVIDIA H100 80GB HBM3"] * 2


def test_machine_without_gpu_has_no_driver(tmp_path: Path) -> None:
    assert machine.driver(str(tmp_path)) is None and machine.gpus(str(tmp_path)) == []


def test_picture_describes_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = SimpleNamespace(version=SimpleNamespace(cuda="12.4"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    found = machine.picture()
    assert found["python"] == platform.python_version()
    assert found["packages"]["pytest"] == pytest.__version__
    assert found["cuda"] == "12.4" and found["os"]
    assert None not in found.values() and "torch" not in found


def test_git_outside_a_checkout_returns_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    assert machine.git() is None
    monkeypatch.setenv("PATH", str(tmp_path))
    assert machine.git() is None


@pytest.mark.parametrize(
    ("line", "shown"), [("a", "a"), ("1%\r2%\r3%", "3%"), ("done\r", "done"), ("a\rb\r\r", "b"), ("", "")]
)
def test_fold_returns_the_text_after_carriage_returns(line: str, shown: str) -> None:
    assert fold(line) == shown

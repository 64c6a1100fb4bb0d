"""What the cells of a notebook print goes to the log of the run."""

from __future__ import annotations

import io
import sys
from typing import List

import pytest

from signalbox.capture import Capture


class OutStream(io.TextIOBase):
    """Stands for the output of a cell: a stream that writes to no descriptor."""

    def __init__(self) -> None:
        self.shown = ""

    def write(self, text: str) -> int:
        self.shown += text
        return len(text)


OutStream.__module__ = "ipykernel.iostream"


def test_lines_of_cells_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    cell = OutStream()
    log: List[str] = []
    monkeypatch.setattr(sys, "stdout", cell)
    capture = Capture(log.append)
    capture.start()
    try:
        print("step 1")
        print("10%\r20%", end="")
    finally:
        capture.stop()
    print("not copied")
    assert sys.stdout is cell
    assert cell.shown == "step 1\n10%\r20%not copied\n"
    assert "".join(log) == "step 1\n20%\n"


def test_other_streams_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    own = io.StringIO()
    log: List[str] = []
    monkeypatch.setattr(sys, "stdout", own)
    capture = Capture(log.append)
    capture.start()
    try:
        print("of the program")
    finally:
        capture.stop()
    assert own.getvalue() == "of the program\n" and log == []

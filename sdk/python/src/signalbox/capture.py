"""Copies standard output and standard error to the run's log as they are written."""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
from typing import Callable, List

STOP_TIMEOUT = 2.0  # seconds to wait for a child that keeps the pipe open


class Capture:
    """Replaces descriptors 1 and 2 by pipes. A thread for each pipe copies to the original target and to the log."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._tees: List[_Tee] = []

    def start(self) -> None:
        """Start copying. Python's output becomes line-buffered, to stay in order with the output of children."""
        _flush_streams()
        _buffer_lines()
        self._tees = [_Tee(fd, self._emit) for fd in (1, 2)]

    def drain(self) -> None:
        """Flush Python's buffers."""
        _flush_streams()

    def stop(self) -> None:
        """Restore the descriptors and wait, for a bounded time, for the last lines."""
        _flush_streams()
        for tee in self._tees:
            tee.stop()
        self._tees = []


class _Tee:
    def __init__(self, fd: int, emit: Callable[[str], None]) -> None:
        self._fd = fd
        self._emit = emit
        self._saved = os.dup(fd)
        self._read, write = os.pipe()
        os.dup2(write, fd)
        os.close(write)
        self._thread = threading.Thread(target=self._copy, name=f"signalbox-fd{fd}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        os.dup2(self._saved, self._fd)
        self._thread.join(STOP_TIMEOUT)

    def _copy(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        rest = ""
        while True:
            data = os.read(self._read, 65536)
            _write_all(self._saved, data)
            *lines, rest = (rest + decoder.decode(data, final=not data)).split("\n")
            for line in lines:
                self._emit(fold(line))
            if not data:
                break
            if len(rest) > 65536:
                self._emit(fold(rest))
                rest = ""
        if rest:
            self._emit(fold(rest))
        os.close(self._read)
        os.close(self._saved)


def fold(line: str) -> str:
    """Return the text that a terminal shows for a line that a progress bar has overwritten by carriage returns."""
    shown = line.rstrip("\r")
    return shown[shown.rfind("\r") + 1 :]


def _write_all(fd: int, data: bytes) -> None:
    """Write as much as possible. Ignore errors, because a closed terminal must not end the training."""
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError:
        return


def _buffer_lines() -> None:
    """Turn on line buffering. By default Python writes to pipes in blocks, so a line could appear minutes late."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper) and not stream.write_through:
            stream.reconfigure(line_buffering=True)


def _flush_streams() -> None:
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (AttributeError, OSError, ValueError):
            continue

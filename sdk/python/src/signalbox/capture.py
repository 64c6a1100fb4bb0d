"""Copies standard output and standard error to the run's log as they are written."""

from __future__ import annotations

import codecs
import io
import os
import select
import sys
import threading
import time
from typing import Any, Callable, List, Optional

from . import forks
from .policy import Policy

STOP_TIMEOUT = 2.0  # seconds to wait for a child that keeps the pipe open
SHOW_GROWTH = 1.5  # factor by which the interval grows at which an unfinished line goes into the log
MAX_LINE = 65536  # characters after which a line is split
MAX_SHOWN = 4096  # characters of an unfinished line that go into the log


class Capture:
    """Replaces descriptors 1 and 2 by pipes. A thread for each pipe copies to the original target and to the log.

    A Jupyter kernel replaces sys.stdout and sys.stderr by objects that write to no descriptor. What Python writes to them
    is copied as well, line by line.

    `emit` gets pieces of text with their line breaks, as a terminal would get them. The text of an unfinished line is
    among them only if `policy` is given, because each is stored and counts towards the limit of the log.
    """

    def __init__(self, emit: Callable[[str], None], policy: Optional[Policy] = None) -> None:
        self._screen = _Screen(emit)
        self._policy = policy
        self._tees: List[_Tee] = []
        self._streams: List[_Stream] = []

    def start(self) -> None:
        """Start copying. Python's output becomes line-buffered, to stay in order with the output of children."""
        _flush_streams()
        _buffer_lines()
        self._streams = [_Stream(name, self._screen) for name in ("stdout", "stderr") if _of_notebook(getattr(sys, name))]
        self._tees = [_Tee(fd, self._screen, self._policy) for fd in (1, 2)]

    def line(self, text: str) -> None:
        """Write a line that was not captured to the log."""
        self._screen.line(text)

    def drain(self) -> None:
        """Flush Python's buffers."""
        _flush_streams()

    def stop(self) -> None:
        """Restore the descriptors and wait, for a bounded time, for the last lines."""
        _flush_streams()
        for stream in self._streams:
            stream.stop()
        self._streams = []
        for tee in self._tees:
            tee.stop()
        self._tees = []


class _Screen:
    """Writes whole lines and the unfinished line of one of the pipes to the log, so that they do not mix."""

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._lock = threading.Lock()
        self._open = ""  # the unfinished line at the end of the log
        forks.renew(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which a thread holds while it waits for the outbox. The child's log begins with no line."""
        self._lock = threading.Lock()
        self._open = ""

    def line(self, text: str) -> None:
        """Write a line. It overwrites an unfinished line, which is written again when its text changes."""
        with self._lock:
            self._emit(self._overwrite() + fold(text) + "\n")

    def show(self, text: str) -> None:
        """Write the text of an unfinished line in place of the one before."""
        shown = fold(text)[-MAX_SHOWN:]
        with self._lock:
            if shown and shown != self._open:
                self._emit(self._overwrite() + shown)
                self._open = shown

    def _overwrite(self) -> str:
        start = "\r" if self._open else ""
        self._open = ""
        return start


def pause(policy: Policy, shown: int) -> float:
    """Return the seconds until the text of a line is shown that has been unfinished while it was shown `shown` times."""
    return min(policy.show_most, policy.show_after * SHOW_GROWTH ** min(shown, 30))


class _Lines:
    """Passes the lines of a text that arrives in pieces to the log."""

    def __init__(self, screen: _Screen) -> None:
        self._screen = screen
        self.rest = ""  # the beginning of an unfinished line

    def feed(self, text: str) -> bool:
        """Add a piece. Return whether it has finished a line."""
        *lines, rest = (self.rest + text).split("\n")
        for line in lines:
            self._screen.line(line)
        self.rest = overwritten(rest)
        if len(self.rest) > MAX_LINE:
            self.end()
        return bool(lines)

    def end(self) -> None:
        """Finish the line that is not finished."""
        if self.rest:
            self._screen.line(self.rest)
        self.rest = ""


class _Stream(io.TextIOBase):
    """Replaces a stream of sys that writes to no descriptor, and copies its lines to the log."""

    def __init__(self, name: str, screen: _Screen) -> None:
        self._name = name
        self._lines = _Lines(screen)
        self._lock = threading.RLock()  # a signal handler may print while the program does
        self._target = getattr(sys, name)
        setattr(sys, name, self)
        forks.renew(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held."""
        self._lock = threading.RLock()

    def write(self, text: str) -> int:
        with self._lock:
            written = self._target.write(text)
            self._lines.feed(text)
        return len(text) if written is None else int(written)

    def writable(self) -> bool:
        return True

    def flush(self) -> None:
        self._target.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def stop(self) -> None:
        if getattr(sys, self._name) is self:
            setattr(sys, self._name, self._target)
        with self._lock:
            self._lines.end()


def _of_notebook(stream: object) -> bool:
    """Return whether a stream is that of a Jupyter kernel. Other replacements usually write to the descriptor in the end."""
    return type(stream).__module__.split(".")[0] == "ipykernel"


class _Tee:
    def __init__(self, fd: int, screen: _Screen, policy: Optional[Policy]) -> None:
        self._fd = fd
        self._screen = screen
        self._policy = policy
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
        lines = _Lines(self._screen)
        due: Optional[float] = None  # when the rest is shown; None if it is empty or was shown
        shown = 0  # how often the unfinished line was shown
        while True:
            if due is not None and not self._readable(due - time.monotonic()):
                self._screen.show(lines.rest)
                due, shown = None, shown + 1
            data = os.read(self._read, 65536)
            _write_all(self._saved, data)
            if lines.feed(decoder.decode(data, final=not data)):
                shown = 0
            if not data:
                break
            if not lines.rest:
                due = None
            elif self._policy is not None:
                next_due = time.monotonic() + pause(self._policy, shown)
                due = next_due if due is None else min(due, next_due)
        lines.end()
        os.close(self._read)
        os.close(self._saved)

    def _readable(self, seconds: float) -> bool:
        """Wait for output, and return whether there is some. Without `poll`, return True at once."""
        if not hasattr(select, "poll"):
            return True
        if seconds <= 0:
            return False
        poll = select.poll()
        poll.register(self._read, select.POLLIN)
        return bool(poll.poll(seconds * 1000))


def overwritten(rest: str) -> str:
    """Return an unfinished line without its beginning that carriage returns have overwritten."""
    if "\r" not in rest:
        return rest
    return fold(rest) + ("\r" if rest.endswith("\r") else "")


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

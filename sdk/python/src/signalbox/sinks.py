"""Destinations of reports: the control plane or, offline, a file or nothing."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, List, Optional, Protocol, Sequence, Tuple

from . import forks, limits
from .config import Config
from .control_signals import ControlSignals, NoSignals
from .errors import SpoolError, UndeliveredError
from .notices import notice
from .outbox import Outbox
from .policy import Policy
from .wire import encode

Items = Sequence[Tuple[bytes, int]]  # the JSON and the number of points of each report


class Sink(Protocol):
    """The interface that a Run uses to deliver its reports."""

    def put(self, stream: str, items: Items) -> int:
        """Store reports; return the number of the last one."""

    def settle(self, n: int) -> None:
        """Wait until report n is settled."""

    def check(self) -> None:
        """Raise the oldest refusal that has not been raised, if any."""

    def flush(self, timeout: float) -> bool:
        """Wait until all reports so far are settled. Return False after the timeout or if the token is refused."""

    def upload(self, file: str, kind: str, name: str) -> Dict[str, Any]:
        """Upload a file to the store as the output `name`, a path; return {"path", "size_bytes"}."""

    def signals(self) -> "ControlSignals | NoSignals":
        """Return the signals of the run."""

    def close(self, timeout: float) -> Optional[Exception]:
        """Deliver all reports and close. Return the error, or None."""


class Online:
    """Delivers through the spool to the control plane."""

    def __init__(self, config: Config, policy: Policy) -> None:
        import tempfile

        root = config.spool_dir or tempfile.mkdtemp(prefix="signalbox-")
        self._policy = policy
        self._config = config
        self.box = Outbox(config, root, policy, temporary=config.spool_dir is None)
        self.box.open()
        self._signals = ControlSignals(config, policy)

    def put(self, stream: str, items: Items) -> int:
        """Write the reports to the spool and return. Raises IngestError if one is too large; the others are written."""
        fitting, found = limits.fit(stream, items)
        last = self.box.put(stream, fitting)
        if found:
            raise limits.refusal(stream, found)
        return last

    def settle(self, n: int) -> None:
        """Wait until report n is settled, even if the control plane restarts meanwhile.

        Raises UndeliveredError after the settle timeout, or the refusal of the token.
        """
        self.box.settle(n, self._policy.settle_timeout)

    def check(self) -> None:
        """Raise the oldest refusal that has not been raised, if any."""
        self.box.check()

    def flush(self, timeout: float) -> bool:
        """Wait until all reports so far are settled. Return False after the timeout or if the token is refused."""
        return self.box.flush(timeout)

    def upload(self, file: str, kind: str, name: str) -> Dict[str, Any]:
        """Upload through the signed URL."""
        from .upload import Upload

        return Upload(self._config, self._policy).send(file, kind, name)

    def signals(self) -> ControlSignals:
        """Return the signals from the control plane."""
        return self._signals

    def close(self, timeout: float) -> Optional[Exception]:
        """Deliver and close. Also deliver reports that child processes left in the spool."""
        self._signals.end()
        self.box.adopt_orphans()
        began = time.monotonic()
        delivered = self.box.flush(timeout, stuck=False) or self.box.owed(logs=False) == 0
        left = timeout - (time.monotonic() - began)
        self.box.flush(max(0.0, min(left, self._policy.log_timeout)))
        failure: Optional[Exception] = None if delivered else self.box.undelivered()
        self.box.close()
        refused: List[Exception] = list(self.box.unraised())
        if failure is None:
            failure = refused.pop(0) if refused else self.box.refusal
        for error in refused:  # only one error can be raised; no refusal may go unnoticed
            notice(error)
        return failure


class Offline:
    """Uses no network. Writes reports to a JSONL file if a folder is configured, otherwise drops them."""

    def __init__(self, config: Config) -> None:
        self._lock = threading.Lock()
        self._path: Optional[str] = None
        if config.local_dir:
            os.makedirs(config.local_dir, exist_ok=True)
            self._path = os.path.join(config.local_dir, "signalbox.jsonl")
        forks.renew(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held."""
        self._lock = threading.Lock()

    def put(self, stream: str, items: Items) -> int:
        """Write one line for each report: {"stream": ..., "report": ...}."""
        if self._path is not None:
            head = b'{"stream":%s,"report":' % encode(stream)
            lines = [head + _whole(stream, fragment) + b"}\n" for fragment, _ in items]
            try:
                with self._lock, open(self._path, "ab") as file:
                    file.write(b"".join(lines))
            except OSError as err:
                raise SpoolError(f"cannot write {self._path}: {err}") from err
        return 0

    def settle(self, n: int) -> None:
        """Return at once."""

    def check(self) -> None:
        """Do nothing: no report is refused."""

    def flush(self, timeout: float) -> bool:
        """Return at once."""
        return True

    def upload(self, file: str, kind: str, name: str) -> Dict[str, Any]:
        """Return the local path: nothing is uploaded."""
        from .pack import digest

        return {"path": os.path.abspath(file), "size_bytes": digest(file)[0]}

    def signals(self) -> NoSignals:
        """Return NoSignals, which never has a signal."""
        return NoSignals()

    def close(self, timeout: float) -> Optional[Exception]:
        """Return None: there is nothing to deliver."""
        return None


def _whole(stream: str, fragment: bytes) -> bytes:
    """Return the JSON of a report. Fragments of metrics and hardware are points joined by commas and get brackets."""
    return b"[" + fragment + b"]" if stream in ("metrics", "hardware") else fragment


def undelivered(failure: Exception) -> int:
    """Return the number of reports in the spool after this failure."""
    return failure.records if isinstance(failure, UndeliveredError) else 0

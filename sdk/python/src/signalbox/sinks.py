"""Where reports go: to the control plane, or, offline, to a file or nowhere."""

from __future__ import annotations

import os
import threading
import time
from typing import Any, Dict, Optional, Protocol, Sequence, Tuple

from .asked import Asked, Unasked
from .config import Config
from .errors import UndeliveredError
from .outbox import Outbox
from .policy import Policy
from .wire import encode

Items = Sequence[Tuple[bytes, int]]  # (JSON, points) of each report


class Sink(Protocol):
    """What a Run needs of the place that its reports go to."""

    def put(self, stream: str, items: Items) -> int:
        """Keep reports; the number of the last one."""

    def settle(self, n: int) -> None:
        """Wait until report n is answered."""

    def check(self) -> None:
        """Raise a refusal that nobody has seen yet."""

    def flush(self, timeout: float) -> bool:
        """Wait until all reports are answered."""

    def upload(self, file: str, kind: str) -> Dict[str, Any]:
        """Bring a file to the store: {"path", "size_bytes"}."""

    def asked(self) -> "Asked | Unasked":
        """What the control plane asks of the run."""

    def close(self, timeout: float) -> Optional[Exception]:
        """Deliver what is owed and let go; the reason why that failed, if it did."""


class Online:
    """Through the spool to the control plane."""

    def __init__(self, config: Config, policy: Policy) -> None:
        import tempfile

        root = config.spool_dir or tempfile.mkdtemp(prefix="signalbox-")
        self._policy = policy
        self._config = config
        self.box = Outbox(config, root, policy, temporary=config.spool_dir is None)
        self.box.open()
        self._asked = Asked(config, policy)

    def put(self, stream: str, items: Items) -> int:
        """Spool and return."""
        return self.box.put(stream, items)

    def settle(self, n: int) -> None:
        """Wait for delivery, through a restart of the control plane."""
        self.box.settle(n, self._policy.settle_timeout)

    def check(self) -> None:
        """Raise a refusal."""
        self.box.check()

    def flush(self, timeout: float) -> bool:
        """Wait for delivery of everything."""
        return self.box.flush(timeout)

    def upload(self, file: str, kind: str) -> Dict[str, Any]:
        """Through the signed URL."""
        from .upload import Upload

        return Upload(self._config, self._policy).send(file, kind)

    def asked(self) -> Asked:
        """From the control plane."""
        return self._asked

    def close(self, timeout: float) -> Optional[Exception]:
        """Also delivers what children of this process left behind."""
        self._asked.end()
        self.box.adopt_orphans()
        began = time.monotonic()
        delivered = self.box.flush(timeout, stuck=False) or self.box.owed(logs=False) == 0
        left = timeout - (time.monotonic() - began)
        self.box.flush(max(0.0, min(left, self._policy.log_timeout)))
        failure = None if delivered else self.box.undelivered()
        self.box.close()
        if failure is None and self.box.refused:
            return self.box.refused[0]
        return failure


class Offline:
    """No network: a JSONL file where a folder is given, else nothing."""

    def __init__(self, config: Config) -> None:
        self._lock = threading.Lock()
        self._path: Optional[str] = None
        if config.local_dir:
            os.makedirs(config.local_dir, exist_ok=True)
            self._path = os.path.join(config.local_dir, "signalbox.jsonl")

    def put(self, stream: str, items: Items) -> int:
        """One line a report: {"stream": ..., "report": ...}."""
        if self._path is not None:
            head = b'{"stream":%s,"report":' % encode(stream)
            lines = [head + _whole(stream, fragment) + b"}\n" for fragment, _ in items]
            with self._lock, open(self._path, "ab") as file:
                file.write(b"".join(lines))
        return 0

    def settle(self, n: int) -> None:
        """Nothing to wait for."""

    def check(self) -> None:
        """Nothing is ever refused."""

    def flush(self, timeout: float) -> bool:
        """Nothing to wait for."""
        return True

    def upload(self, file: str, kind: str) -> Dict[str, Any]:
        """The file stays where it is."""
        from .pack import digest

        return {"path": os.path.abspath(file), "size_bytes": digest(file)[0]}

    def asked(self) -> Unasked:
        """Nobody asks."""
        return Unasked()

    def close(self, timeout: float) -> Optional[Exception]:
        """Nothing is owed."""
        return None


def _whole(stream: str, fragment: bytes) -> bytes:
    """A metrics fragment is points joined by commas: as a file's line it needs its brackets."""
    return b"[" + fragment + b"]" if stream in ("metrics", "hardware") else fragment


def undelivered(failure: Exception) -> int:
    """Reports still in the spool after this failure."""
    return failure.records if isinstance(failure, UndeliveredError) else 0

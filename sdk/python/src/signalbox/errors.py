"""What can go wrong while reporting, and how loudly."""

from __future__ import annotations

from typing import Optional


class SignalboxError(Exception):
    """Base of every error this package raises on purpose."""


class ConfigError(SignalboxError):
    """The SERVICE_JOB_* environment is missing or contradicts itself."""


class SensitiveFileError(SignalboxError):
    """A file that is named like a secret would leave the machine; nothing was sent."""


class SpoolError(SignalboxError):
    """A report could not be written to the spool, so it is not kept."""


class Unreachable(SignalboxError):
    """No answer came back; the same request is safe to send again."""


class IngestError(SignalboxError):
    """The control plane refused a report for good (a 4xx that is no 408 or 429, or a 501)."""

    def __init__(self, route: str, status: int, detail: str) -> None:
        super().__init__(f"{route}: HTTP {status}: {detail}")
        self.route = route
        self.status = status
        self.detail = detail


class UndeliveredError(SignalboxError):
    """Time ran out with reports still in the spool; they can be replayed."""

    def __init__(self, records: int, spool: str, cause: Optional[str]) -> None:
        why = f" (last fault: {cause})" if cause else ""
        super().__init__(
            f"{records} report(s) were not delivered{why}; they are kept in {spool}: "
            f"python -m signalbox flush {spool}"
        )
        self.records = records
        self.spool = spool
        self.cause = cause

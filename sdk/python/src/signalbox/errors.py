"""The exceptions of this package."""

from __future__ import annotations

from typing import Optional


class SignalboxError(Exception):
    """Base class of all errors of this package."""

    said = False  # True once on_error="warn" has printed the error


class ConfigError(SignalboxError):
    """The SERVICE_JOB_* environment is missing or inconsistent."""


class SensitiveFileError(SignalboxError):
    """The name of a file to be uploaded is typical of a secret. Nothing was sent."""


class SpoolError(SignalboxError):
    """The spool could not be opened, written or read. The report of the call that raised this error is lost."""


class Unreachable(SignalboxError):
    """No response arrived. The same request can safely be repeated."""


class IngestError(SignalboxError):
    """The control plane permanently refused a request (3xx, 4xx except 408 and 429, or 501).

    A report that is too large for a request was not sent; its status is 413.
    """

    def __init__(self, route: str, status: int, detail: str) -> None:
        super().__init__(f"{route}: HTTP {status}: {detail}")
        self.route = route
        self.status = status
        self.detail = detail


class UndeliveredError(SignalboxError):
    """A timeout expired while reports were still in the spool, or before a file was uploaded.

    Reports can be delivered later. For a file that was not uploaded, `file` is its path and `spool` is None.
    """

    def __init__(
        self, records: int, spool: Optional[str], cause: Optional[str], file: Optional[str] = None
    ) -> None:
        why = f" (last fault: {cause})" if cause else ""
        if file is not None:
            text = f"{file} was not uploaded{why}; call artifact again while the run is not finished"
        else:
            text = (
                f"{records} report(s) were not delivered{why}; they are in {spool}; "
                f"deliver them with python -m signalbox flush {spool}"
            )
        super().__init__(text)
        self.records = records
        self.spool = spool
        self.cause = cause
        self.file = file

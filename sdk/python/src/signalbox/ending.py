"""The end of a run: it is owed from the call that reports it until it is in the spool."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

from .errors import SpoolError
from .transport import words
from .wire import EVENTS, encode, now

if TYPE_CHECKING:
    from .kept import Folder
    from .sinks import Sink

ENDS = EVENTS[2:]


class Ending:
    """The end of a run. A run without a job has a folder, in which the end is marked."""

    def __init__(self, folder: Optional["Folder"]) -> None:
        self.event: Optional[str] = None  # the end that was reported last; None if none was
        self.outside = folder is not None
        self._folder = folder
        self._report: Optional[bytes] = None  # the report while it is owed

    @property
    def owed(self) -> bool:
        """Whether the end was reported and is not in the spool yet."""
        return self._report is not None

    def owe(self, event: str) -> None:
        """Report an end, which `write` then writes to the spool."""
        self.event = event
        self._report = encode({"event": event, "ts": now()})

    def write(self, sink: "Sink") -> int:
        """Write the end to the spool. Return the number of its report.

        Raises SpoolError if that fails. The end is then still owed, and a later call tries again.
        """
        if self._report is None:
            raise ValueError("no end is owed")
        if self._folder is not None:
            self._folder.end()
        try:
            n = sink.put("lifecycle", [(self._report, 1)])
        except (SpoolError, OSError) as err:
            if self._folder is not None:
                self._folder.reopen()
            raise SpoolError(f"the end of the run ({self.event}) is not reported yet, because {_why(err)}; free space, and finish tries it again") from err
        self._report = None
        return n

    def attempt(self, sink: "Sink") -> Optional[SpoolError]:
        """Write the end if it is owed. Return the error, after which it is still owed."""
        try:
            if self._report is not None:
                self.write(sink)
        except SpoolError as err:
            return err
        return None

    def last(self, sink: "Sink", run_id: str) -> Optional[SpoolError]:
        """Do the same as attempt, for the last time. The error states what the run needs then."""
        failure = self.attempt(sink)
        if failure is None:
            return None
        rest = "the state of the job follows from the exit status of its command"
        if self.outside:
            rest = f"free space, and end the run with init(project=..., resume={run_id!r}).finish()"
        return SpoolError(f"the end of run {run_id} ({self.event}) is not reported, because {_why(failure.__cause__)}; {rest}")

    def tidy(self) -> None:
        """Delete the folder of a run without a job if the run has ended and nothing is left to deliver."""
        if self._folder is not None:
            self._folder.tidy()


def _why(err: Optional[BaseException]) -> str:
    return words(err) if isinstance(err, OSError) else str(err)


def is_success(error: Optional[BaseException]) -> bool:
    """Return whether a training that ends with this exception, or with None, has succeeded."""
    return error is None or (isinstance(error, SystemExit) and error.code in (None, 0))


def summary(error: Optional[BaseException]) -> str:
    """Return the type of an exception and the beginning of its message."""
    text = str(error)
    return type(error).__name__ + (f": {text[:2000]}" if text else "")

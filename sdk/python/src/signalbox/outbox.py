"""The reports of a process, from the reporting call to their delivery.

`put` writes to the spool and returns. One daemon thread, the sender, owns the connection. One lock
guards all state and is never held during network calls. A forked child starts with its own writer
and sender and delivers none of its parent's reports.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import deque
from typing import Deque, List, Optional, Sequence, Set, Tuple

from . import forks
from .backlog import FOREVER, Backlog
from .config import Config
from .errors import IngestError, SignalboxError, UndeliveredError
from .notices import notice
from .policy import Policy
from .recover import adopt, writers
from .sender import Sender
from .spool import Spool
from .transport import Transport, warm


# The number of refusals that are kept until they are raised or printed. Further ones are only counted.
MAX_REFUSED = 1000


class Outbox:
    """The reports of one process for one run."""

    def __init__(self, config: Config, root: str, policy: Policy, temporary: bool = False) -> None:
        self.config = config
        self.root = root
        self.policy = policy
        self.cond = threading.Condition()
        self.backlogs: List[Backlog] = []  # adopted backlogs first, the backlog of this process last
        # The refusals that were not raised or printed yet, of the control plane or because the spool cannot be read.
        self.refused: Deque[SignalboxError] = deque()
        self.refusal: Optional[SignalboxError] = None  # the first refusal
        self._more = 0  # refusals beyond MAX_REFUSED
        self.closed_by: Optional[IngestError] = None  # set if the control plane refused the token
        self.fault: Optional[str] = None  # the last network error
        self.paused_until = 0.0
        self.outages = 0  # consecutive failures to reach the server
        self.wake_time = FOREVER
        self.stopping = False
        self._notices: List[str] = []
        self.own: Optional[Backlog] = None  # the backlog of this process; all others are adopted
        self._temporary = temporary
        self._warned = False
        self.dropped = 0  # reports that the control plane refused and that are not an error of the training
        self._stated: Set[str] = set()  # the kinds of dropped reports that a warning has named
        self._thread: Optional[threading.Thread] = None
        forks.watch(self)

    def open(self) -> None:
        """Create the spool of this process and adopt the spools that ended processes of the run left behind."""
        with self.cond:
            self._open(adopting=True)
        self.speak()

    def adopt_orphans(self) -> Tuple[int, List[str]]:
        """Adopt the spools of ended writers. Return how many reports they had, and the writers that were skipped."""
        found, left_alone = 0, []
        with self.cond:
            held = {b.spool.writer for b in self.backlogs}
            for name in writers(self.root):
                if name in held:
                    continue
                left = adopt(self.root, name, self.config.run_id, self.policy.segment_bytes)
                if left is None:
                    left_alone.append(name)
                    continue
                if left.damaged:
                    self.warn(f"{left.damaged} report(s) in {left.spool.folder} are damaged and cannot be delivered")
                backlog = Backlog.restore(left, self.policy)
                found += backlog.owed()
                own = 1 if self.own is not None else 0
                self.backlogs.insert(len(self.backlogs) - own, backlog)
            if found:
                self._start()
                self.cond.notify_all()
        return found, left_alone

    def put(self, stream: str, items: Sequence[Tuple[bytes, int]]) -> int:
        """Write reports, each its JSON and its number of points, to the spool. Return the number of the last report.

        Once this returns, the reports survive the end of the process.
        """
        with self.cond:
            own = self._open()
            now = time.monotonic()
            last = -1
            for fragment, count in items:
                last = own.put(stream, count, fragment, now)
            due = own.lanes[stream].due(self.policy, own.urgent)
            if max(due, self.paused_until) < self.wake_time:
                self.cond.notify_all()
            return last

    def settle(self, n: int, timeout: float) -> None:
        """Wait until report n and all earlier ones are settled, but not for a log stream that keeps failing.

        Raises UndeliveredError after the timeout, or the refusal of the token.
        """
        with self.cond:
            own = self._open()
            own.urgent = max(own.urgent, n)
            self._kick()
            if not self._wait(lambda: own.oldest(with_stuck=False) > n, timeout):
                raise self.undelivered()

    def flush(self, timeout: float, stuck: bool = True) -> bool:
        """Wait until all reports so far are settled. Return False after the timeout or if the token is refused.

        Without `stuck`, do not wait for a log stream that keeps failing.
        """
        with self.cond:
            marks = [(b, b.spool.next_n - 1) for b in self.backlogs]
            for backlog, n in marks:
                backlog.urgent = max(backlog.urgent, n)
            self._kick()
            return self._wait(lambda: all(b.oldest(stuck) > n for b, n in marks), timeout)

    def check(self) -> None:
        """Raise the refusal of the token, if it was refused; otherwise the oldest refusal not raised yet."""
        with self.cond:
            if self.closed_by is not None:
                raise self.closed_by
            if self.refused:
                raise self.refused.popleft()

    def refuse(self, error: SignalboxError) -> None:
        """Keep the refusal of a report until it is raised or printed. The caller holds the lock."""
        self.refusal = self.refusal or error
        if len(self.refused) < MAX_REFUSED:
            self.refused.append(error)
        else:
            self._more += 1

    def unraised(self) -> List[SignalboxError]:
        """Return the refusals that were not raised or printed yet. The caller must raise or print them."""
        with self.cond:
            found, more = list(self.refused), self._more
            self.refused.clear()
            self._more = 0
        return found + [SignalboxError(f"{more} more report(s) were refused")] * bool(more)

    def close(self) -> int:
        """Stop the sender and release the spools. Delete the spools whose reports are all settled.

        Return the number of unsettled reports.
        """
        with self.cond:
            self.stopping = True
            self.cond.notify_all()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(self.policy.request_timeout if not self.owed() else 0.2)
        with self.cond:
            owed = self.owed()
            for backlog in self.backlogs:
                backlog.spool.close(remove=backlog.owed() == 0)
            self.backlogs, self.own = [], None
        self.speak()
        if self._temporary:
            with contextlib.suppress(OSError):  # the folder may still contain reports, also of a child process
                os.rmdir(self.root)
        return owed

    def owed(self, logs: bool = True) -> int:
        """Return the number of unsettled reports. Without `logs`, do not count log lines."""
        with self.cond:
            return sum(b.owed(logs) for b in self.backlogs)

    def undelivered(self) -> SignalboxError:
        """Return the error to raise when a timeout expires: the refusal of the token, else UndeliveredError."""
        if self.closed_by is not None:
            return self.closed_by
        return UndeliveredError(self.owed(), self.root, self.fault)

    def warn(self, words: str) -> None:
        """Queue one line for stderr.

        Printing it with the lock held could deadlock: stderr may be the full pipe of Capture, whose reader
        needs the lock.
        """
        self._notices.append(words)

    def speak(self) -> None:
        """Print the queued lines. Never call this with the lock held."""
        while self._notices:
            notice(self._notices.pop(0))

    def warn_once(self, words: str) -> None:
        """Queue a warning for the first failure only, after which the reports are sent again."""
        if not self._warned:
            self._warned = True
            self.warn(f"{words}; reports are kept in {self.root} and will be sent again")

    def drop(self, kind: str, reports: int, words: str) -> None:
        """Count reports that are not sent again. Queue a warning for the first reports of each kind."""
        self.dropped += reports
        if kind not in self._stated:
            self._stated.add(kind)
            self.warn(f"{words}; they are dropped")

    def retire(self, backlog: Backlog) -> None:
        """Delete the spool of an adopted writer whose reports are all settled."""
        self.backlogs.remove(backlog)
        backlog.spool.close(remove=True)

    def _open(self, adopting: bool = False) -> Backlog:
        if self.own is None:
            if self.stopping:
                raise SignalboxError("this run is finished; it accepts no more reports")
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            if adopting:
                self.adopt_orphans()
            spool = Spool.create(self.root, self.config.run_id, self.policy.segment_bytes, self.config.rank)
            self.own = Backlog(spool, self.policy)
            self.backlogs.append(self.own)
            self._start()
        return self.own

    def _start(self) -> None:
        if self._thread is None:
            config = self.config
            transport = Transport(config, self.policy.request_timeout)
            warm()
            sender = Sender(self, transport)
            self._thread = threading.Thread(target=sender.run, name="signalbox", daemon=True)
            self._thread.start()

    def _kick(self) -> None:
        if self.outages:  # a caller is waiting: try at once, and start again with the shortest pause
            self.paused_until, self.outages = 0.0, 1
        self.cond.notify_all()

    def _wait(self, done: "forks.Predicate", timeout: float) -> bool:
        deadline = time.monotonic() + timeout
        while not done():
            left = deadline - time.monotonic()
            if left <= 0 or self.closed_by is not None:
                return False
            self.cond.wait(min(left, 1.0))
        return True

    def before_fork(self) -> None:
        """Take the lock before a fork, so that the child gets consistent state."""
        self.cond.acquire()

    def after_fork_in_parent(self) -> None:
        """Release the lock."""
        self.cond.release()

    def after_fork_in_child(self) -> None:
        """Close the parent's spools in the child. The child's first report opens a new spool and starts a sender."""
        self.cond = threading.Condition()
        for backlog in self.backlogs:
            backlog.spool.close(remove=False)
        self.backlogs = []
        self.refused.clear()
        self.own, self._thread, self.refusal, self._more = None, None, None, 0
        self.paused_until, self.outages, self.wake_time = 0.0, 0, FOREVER
        self._temporary = False

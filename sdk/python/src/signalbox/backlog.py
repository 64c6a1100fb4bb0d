"""The undelivered reports of one writer, by stream.

Reports of a stream are sent in the order of the calls, one request at a time. Only lifecycle and artifact reports
wait for other streams: until all earlier reports are settled (delivered or refused), except those of a log stream
that keeps failing, or of a stream of an earlier process that keeps failing.
A request with several reports that is refused is taken apart: smaller requests find the reports that are refused.
The classes are not thread-safe; the outbox uses them with its lock held.
"""

from __future__ import annotations

import contextlib
from collections import deque
from typing import Deque, Dict, List, Mapping, NamedTuple, Optional

from .errors import SpoolError
from .policy import Policy
from .recover import Left
from .spool import Record, Spool
from .wire import BARRIERS, LISTS, STREAMS, body

FOREVER = float("inf")
# After this many failures in a row, other streams no longer wait for the log, because the log must never harm a run.
LOG_PATIENCE = 3
# After this many failures in a row, later processes no longer wait for this stream of an earlier one.
EARLIER_PATIENCE = 8
# After this many refused reports in a row, other streams come before this one, and they no longer wait for the log.
REFUSED_PATIENCE = 16


class Batch(NamedTuple):
    """One request, recorded in the spool."""

    stream: str
    seq: int
    records: List[Record]


class Lane:
    """One stream of one writer: its planned requests and the reports that are not in a request yet."""

    def __init__(self, stream: str) -> None:
        self.stream = stream
        self.batches: Deque[Batch] = deque()
        self.pending: Deque[Record] = deque()
        self.points = 0
        self.size = 0
        self.born = 0.0  # when the oldest pending report arrived, in monotonic seconds
        self.failures = 0
        self.lost = 0  # requests in a row that got no response
        self.denials = 0  # requests in a row that were refused with 401 or 403, although the token is valid
        self.refused = 0  # reports in a row that were refused
        self.most: float = FOREVER  # how many reports a request may contain, after one with more was refused
        self.not_before = 0.0

    def add(self, record: Record, now: float) -> None:
        """Queue a report."""
        if not self.pending:
            self.born = now
        self.pending.append(record)
        self.points += record.points
        self.size += record.size

    def oldest(self) -> float:
        """Return the number of the oldest unsettled report, or FOREVER if all are settled."""
        first = self.batches[0].records[0].n if self.batches else FOREVER
        return min(first, self.pending[0].n) if self.pending else first

    @property
    def hopeless(self) -> bool:
        """Return whether many reports in a row were refused."""
        return self.refused >= REFUSED_PATIENCE

    @property
    def stuck(self) -> bool:
        """Return whether other streams no longer wait for this lane."""
        return self.stream == "logs" and (self.failures >= LOG_PATIENCE or self.hopeless)

    @property
    def passed(self) -> bool:
        """Return whether later processes no longer wait for this lane."""
        return self.stuck or (self.stream not in BARRIERS and self.failures + self.lost >= EARLIER_PATIENCE)

    def owed(self) -> int:
        """Return the number of unsettled reports."""
        return len(self.pending) + sum(len(b.records) for b in self.batches)

    def due(self, policy: Policy, urgent: float) -> float:
        """Return when the lane's next request may be sent, in monotonic seconds."""
        if self.batches or not self.pending:
            return self.not_before if self.batches else FOREVER
        full = self.points >= policy.max_points or self.size >= policy.max_bytes
        if full or self.stream not in LISTS or self.pending[0].n <= urgent or self.most < FOREVER:
            return self.not_before
        return max(self.not_before, self.born + policy.linger)

    def take(self, policy: Policy, now: float) -> List[Record]:
        """Remove the reports of the next request from `pending` and return them. There is at least one."""
        taken = [self.pending.popleft()]
        points, size = taken[0].points, taken[0].size
        while self.pending and self.stream in LISTS and len(taken) < self.most:
            points += self.pending[0].points
            size += self.pending[0].size
            if points > policy.max_points or size > policy.max_bytes:
                break
            taken.append(self.pending.popleft())
        self.points -= sum(r.points for r in taken)
        self.size -= sum(r.size for r in taken)
        self.born = now
        return taken

    def give_back(self, records: List[Record]) -> None:
        """Queue reports again that `take` has removed."""
        self.pending.extendleft(reversed(records))
        self.points += sum(r.points for r in records)
        self.size += sum(r.size for r in records)

    def answered(self, policy: Policy, taken: int, refused: bool) -> None:
        """Count a response to a request with `taken` reports. If it was accepted, the next one may contain twice as many."""
        self.failures, self.lost, self.denials, self.not_before = 0, 0, 0, 0.0
        if not refused:
            self.refused = 0
            self.most = 2 * self.most if 2 * self.most < policy.max_points else FOREVER
        elif taken > 1:
            self.most = taken // 2
        else:
            self.refused += 1


class Backlog:
    """One writer: its spool and its lanes."""

    def __init__(self, spool: Spool, policy: Policy) -> None:
        self.spool = spool
        self.urgent: float = -1.0  # reports up to this number are sent without waiting for a batch
        self.lanes: Dict[str, Lane] = {stream: Lane(stream) for stream in STREAMS}
        self.unasked = False  # True for an adopted writer until the control plane has sent its watermarks
        self._policy = policy

    @classmethod
    def restore(cls, left: Left, policy: Policy) -> Backlog:
        """Return the backlog of a writer whose process has ended. All its reports are urgent."""
        backlog = cls(left.spool, policy)
        backlog.urgent = FOREVER
        backlog.unasked = bool(left.batches)
        for stream, seq, records in left.batches:
            backlog.lanes[stream].batches.append(Batch(stream, seq, records))
        for record in left.pending:
            backlog.lanes[record.stream].add(record, 0.0)
        return backlog

    def put(self, stream: str, count: int, fragment: bytes, now: float) -> int:
        """Write one report to the spool and queue it. Return its number."""
        record = self.spool.append(stream, count, fragment)
        self.lanes[stream].add(record, now)
        if stream in BARRIERS:
            self.urgent = max(self.urgent, record.n)
        return record.n

    def next_lane(self, now: float, earlier_done: bool) -> Optional[Lane]:
        """Return the due lane with the oldest report; None if no lane is due.

        A lane whose last request got no response comes after the others: it may be the only one that gets none. So does a
        lane whose reports are all refused.
        """
        ready = [x for x in self.lanes.values() if x.due(self._policy, self.urgent) <= now]
        ready = [x for x in ready if self._free(x, earlier_done)]
        return min(ready, key=lambda x: (x.lost, x.hopeless, x.oldest()), default=None)

    def wake_at(self, earlier_done: bool) -> float:
        """Return when the next lane is due, in monotonic seconds. A response may make a lane due earlier."""
        free = (x for x in self.lanes.values() if self._free(x, earlier_done))
        return min((x.due(self._policy, self.urgent) for x in free), default=FOREVER)

    def _free(self, lane: Lane, earlier_done: bool) -> bool:
        if lane.stream not in BARRIERS:
            return True
        others = (x for x in self.lanes.values() if x is not lane and not x.stuck)
        return earlier_done and all(x.oldest() > lane.oldest() for x in others)

    def plan(self, lane: Lane, now: float) -> Batch:
        """Return the lane's next request. A new request is first recorded in the spool."""
        if not lane.batches:
            records = lane.take(self._policy, now)
            try:
                seq = self.spool.seal(lane.stream, records)
            except Exception:
                lane.give_back(records)
                raise
            lane.batches.append(Batch(lane.stream, seq, records))
        return lane.batches[0]

    def key(self, batch: Batch) -> str:
        """Return the Idempotency-Key of the request."""
        return f"{self.spool.writer}:{batch.seq}"

    def body(self, batch: Batch) -> bytes:
        """Return the body of the request, read from the spool."""
        fragments = [self.spool.read(record) for record in batch.records]
        return body(self.spool.run_id, batch.stream, fragments, self.spool.rank)

    def answered(self, lane: Lane, status: int) -> None:
        """Mark the lane's first request as settled, also in the spool."""
        batch = lane.batches.popleft()
        lane.answered(self._policy, 1, status >= 300)
        # If the disk is full, the record is lost: a replay then repeats the request, which is harmless.
        with contextlib.suppress(SpoolError, OSError):
            self.spool.settle(lane.stream, batch.seq, status)
            self.spool.drop_before(int(min(self.oldest(), self.spool.next_n)))

    def take_apart(self, lane: Lane) -> None:
        """Plan the reports of the lane's first request again, in smaller requests, because it was refused as a whole.

        Raises SpoolError or OSError if this cannot be recorded; the request then stays.
        """
        batch = lane.batches[0]
        self.spool.undo(lane.stream, batch.seq)
        lane.batches.popleft()
        lane.give_back(batch.records)
        lane.answered(self._policy, len(batch.records), True)

    def skip(self, marks: Mapping[str, int]) -> None:
        """Settle the requests up to the watermarks: for each stream, the last request that the control plane stored."""
        for stream, mark in marks.items():
            lane = self.lanes.get(stream)
            while lane is not None and lane.batches and lane.batches[0].seq <= mark:
                self.answered(lane, 200)

    def oldest(self, with_stuck: bool = True) -> float:
        """Return the number of the oldest unsettled report of any stream, or FOREVER if all are settled.

        Without `with_stuck`, ignore a log stream that keeps failing.
        """
        lanes = (x for x in self.lanes.values() if with_stuck or not x.stuck)
        return min(x.oldest() for x in lanes)

    def lets_pass(self) -> bool:
        """Return whether the events of later processes may be sent: all reports are settled, or their streams fail."""
        return all(x.passed or x.oldest() == FOREVER for x in self.lanes.values())

    def owed(self, logs: bool = True) -> int:
        """Return the number of unsettled reports. Without `logs`, do not count log lines."""
        return sum(x.owed() for x in self.lanes.values() if logs or x.stream != "logs")

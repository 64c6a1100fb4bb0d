"""The thread that sends reports to the control plane."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Dict, List, Optional, Tuple

from .backlog import FOREVER, Backlog, Batch, Lane
from .errors import IngestError, SpoolError, Unreachable
from .policy import backoff, draw
from .transport import Reply, Transport, words
from .wire import ROUTES, code, detail

if TYPE_CHECKING:
    from .outbox import Outbox

Job = Tuple[Backlog, Lane, Batch, bytes]
# Statuses that refuse the token, or one report. If they refuse the token, no later report of this process can succeed.
CREDENTIAL = (401, 403)
# If the token is valid, a report that is refused with one of these statuses is tried this often.
DENIALS = 3
# The watermark only saves requests. After this many requests for it without a response, reports are sent without it.
MARK_TRIES = 3
# A report that cannot be read from the spool is tried this often, because a network file system may recover.
READ_TRIES = 10
# Codes with which reports beyond a limit of the run are refused. The training continues without these reports.
LIMITS = ("points_limit", "reports_limit")
# Codes that concern the whole run and not one report, so that no part of a request would be accepted either.
CLOSED = "run_closed"
ENDED = (CLOSED, "attempt_replaced", "run_mismatch")


class Sender:
    """Sends due requests, oldest first, until the outbox stops."""

    def __init__(self, outbox: Outbox, transport: Transport) -> None:
        self._box = outbox
        self._transport = transport
        self._synced = time.monotonic()
        self._unmarked = 0  # requests for the watermark in a row that got no response

    def run(self) -> None:
        """Send requests until the outbox stops. This is the main function of the thread."""
        box = self._box
        while True:
            with box.cond:
                if box.stopping:
                    break
                unasked = self._unasked()
                job = None if unasked else self._next()
            if unasked:
                self._ask(unasked)
            if job is not None:
                self._deliver(job)
            box.speak()
            self._sync()
        self._transport.close()

    def _unasked(self) -> List[Backlog]:
        box = self._box
        if box.closed_by is not None or box.paused_until > time.monotonic():
            return []
        return [b for b in box.backlogs if b.unasked]

    def _next(self) -> Optional[Job]:
        """Return a due request, or wait and return None. The caller holds the lock; it is released during the wait."""
        box, now = self._box, time.monotonic()
        if box.closed_by is None and box.paused_until <= now:
            try:
                job = self._due(now)
            except Exception as err:  # the disk is full, or the spool was deleted
                box.warn_once(words(err))
                job, now = None, time.monotonic()
                box.fault, box.paused_until = words(err), now + 1.0
            if job is not None:
                return job
        wake = max(self._wake(), box.paused_until)
        if any(b.spool.dirty for b in box.backlogs):
            wake = min(wake, self._synced + box.policy.sync_every)
        box.wake_time = wake
        box.cond.wait(None if wake == FOREVER else max(0.0, wake - now))
        box.wake_time = -1.0
        return None

    def _due(self, now: float) -> Optional[Job]:
        while (due := self._next_lane(now)) is not None:
            backlog, lane = due
            batch = backlog.plan(lane, now)
            try:
                return backlog, lane, batch, backlog.body(batch)
            except (SpoolError, OSError) as err:
                self._unreadable(backlog, lane, batch, err, now)
        return None

    def _next_lane(self, now: float) -> Optional[Tuple[Backlog, Lane]]:
        """Return a due lane of the first backlog. A lane whose last request got no response comes after all others."""
        earlier_done, found = True, []
        for backlog in self._box.backlogs:
            lane = backlog.next_lane(now, earlier_done)
            if lane is not None:
                found.append((backlog, lane))
            earlier_done = earlier_done and backlog.lets_pass()
        return min(found, key=lambda due: (due[1].lost, due[1].hopeless), default=None)

    def _unreadable(self, backlog: Backlog, lane: Lane, batch: Batch, err: Exception, now: float) -> None:
        """Try later to read a request from the spool. If it is truncated or was tried often enough, give it up."""
        box = self._box
        lane.failures += 1
        lane.not_before = now + backoff(box.policy, lane.failures, draw())
        if not isinstance(err, SpoolError) and lane.failures < READ_TRIES:
            box.fault = words(err)
            return
        text = f"{len(batch.records)} report(s) of {batch.stream} cannot be read from the spool and are lost ({err})"
        if batch.stream == "logs":
            box.drop("unreadable logs", len(batch.records), text)
        else:
            box.refuse(SpoolError(text))
        self._settled(backlog, lane, 0)
        box.cond.notify_all()

    def _wake(self) -> float:
        box, earlier_done, wake = self._box, True, FOREVER
        if box.closed_by is not None:
            return wake
        for backlog in box.backlogs:
            wake = min(wake, backlog.wake_at(earlier_done))
            earlier_done = earlier_done and backlog.lets_pass()
        return wake

    def _deliver(self, job: Job) -> None:
        backlog, lane, batch, content = job
        box, route = self._box, ROUTES.get(batch.stream, batch.stream)
        try:
            reply = self._transport.post(route, backlog.key(batch), content)
            denied = reply.status in CREDENTIAL and self._denied()
        except Exception as err:  # the thread must survive any error and try again
            self._unreachable(str(err) if isinstance(err, Unreachable) else words(err), lane)
            return
        with box.cond:
            if backlog not in box.backlogs:
                return  # the outbox was closed meanwhile; the report stays in the spool
            box.outages = lane.lost = 0
            self._answer(backlog, lane, batch, reply, denied)
            box.cond.notify_all()

    def _denied(self) -> bool:
        """Return whether the control plane refuses the token itself, and not only one report.

        Raises Unreachable if it cannot say so now.
        """
        reply = self._transport.get("watermark", {"run_id": self._box.config.run_id})
        if reply.transient:
            raise Unreachable(f"watermark: HTTP {reply.status}: {detail(reply.body)}")
        return reply.status in CREDENTIAL

    def _ask(self, adopted: List[Backlog]) -> None:
        """Get the watermarks of adopted writers, and skip the requests that the control plane has already stored."""
        box = self._box
        marks: Dict[str, Dict[str, int]] = {}
        try:
            marks = _marks(self._transport.get("watermark", {"run_id": box.config.run_id}))
        except Exception as err:
            self._unmarked += 1
            if self._unmarked < MARK_TRIES:
                self._unreachable(str(err) if isinstance(err, Unreachable) else words(err))
                return
        self._unmarked = 0
        with box.cond:
            for backlog in adopted:
                backlog.unasked = False
                backlog.skip({s: m.get(backlog.spool.writer, 0) for s, m in marks.items()})
                if backlog in box.backlogs and backlog.owed() == 0:
                    box.retire(backlog)
            box.cond.notify_all()

    def _unreachable(self, fault: str, lane: Optional[Lane] = None) -> None:
        """Pause all streams, or only the lane if it is the only one whose requests get no response."""
        box = self._box
        with box.cond:
            box.fault = fault
            box.warn_once(f"cannot reach {box.config.endpoint} ({fault})")
            if lane is not None:
                lane.lost += 1
                if lane.lost > 1 and not box.outages:
                    lane.failures += 1
                    lane.not_before = time.monotonic() + backoff(box.policy, lane.failures, draw())
                    return
            box.outages += 1
            delay = backoff(box.policy, box.outages, draw())
            box.paused_until = time.monotonic() + delay

    def _answer(self, backlog: Backlog, lane: Lane, batch: Batch, reply: Reply, denied: bool) -> None:
        box, again = self._box, reply.transient
        if reply.status in CREDENTIAL and not denied:
            lane.denials += 1
            again = lane.denials < (1 if _divisible(batch, reply) and lane.most < FOREVER else DENIALS)
        if again:
            lane.failures += 1
            delay = backoff(box.policy, lane.failures, draw())
            lane.not_before = time.monotonic() + max(delay, reply.retry_after or 0.0)
            box.fault = f"{batch.stream}: HTTP {reply.status}: {detail(reply.body)}"
            box.warn_once(f"{box.config.endpoint} returned {box.fault}")
            return
        if not reply.ok:
            error = IngestError(batch.stream, reply.status, detail(reply.body))
            if denied:
                box.closed_by = error
                return
            if _divisible(batch, reply):
                self._take_apart(backlog, lane)
                return
            self._refused(backlog, batch, error, reply)
        self._settled(backlog, lane, reply.status)

    def _settled(self, backlog: Backlog, lane: Lane, status: int) -> None:
        backlog.answered(lane, status)
        if backlog is not self._box.own and backlog.owed() == 0:
            self._box.retire(backlog)

    def _take_apart(self, backlog: Backlog, lane: Lane) -> None:
        """Send the reports of a refused request in smaller ones, so that only those are lost that are refused alone."""
        try:
            backlog.take_apart(lane)
        except (SpoolError, OSError) as err:  # the disk is full: repeat the request, and try again
            lane.failures += 1
            lane.not_before = time.monotonic() + backoff(self._box.policy, lane.failures, draw())
            self._box.fault = words(err)

    def _refused(self, backlog: Backlog, batch: Batch, error: IngestError, reply: Reply) -> None:
        box = self._box
        refusal = code(reply.body)
        if refusal in LIMITS:
            box.drop(refusal, len(batch.records), f"the control plane stores no more of these reports ({error})")
        elif batch.stream == "logs":
            box.drop("logs", len(batch.records), f"the control plane refused log lines ({error})")
        elif refusal == CLOSED and backlog.spool.rank > 0 and batch.stream != "artifact":
            box.drop(refusal, len(batch.records), f"the first process has ended the run before the reports of this one ({error})")
        elif batch.stream == "lifecycle" and backlog is not box.own and error.status == 409:
            box.warn(f"a report of an earlier process was refused ({error})")
        else:
            box.refuse(error)

    def _sync(self) -> None:
        """Sync the spools to the disk every policy.sync_every seconds, which bounds the loss at a power failure."""
        now, box = time.monotonic(), self._box
        if now - self._synced < box.policy.sync_every:
            return
        self._synced = now
        for backlog in list(box.backlogs):
            if backlog.spool.dirty:
                backlog.spool.sync()


def _divisible(batch: Batch, reply: Reply) -> bool:
    """Return whether some reports of a refused request may be accepted without the others."""
    refusal = code(reply.body)
    return len(batch.records) > 1 and 400 <= reply.status < 500 and refusal not in ENDED and refusal not in LIMITS


def _marks(reply: Reply) -> Dict[str, Dict[str, int]]:
    """Return {stream: {writer: highest contiguous seq}}. Return {} if the response is invalid."""
    try:
        found = json.loads(reply.body) if reply.ok else {}
    except ValueError:
        return {}
    streams = found.items() if isinstance(found, dict) else ()
    marks = {s: m for s, m in streams if isinstance(m, dict)}
    return {s: {w: q for w, q in m.items() if isinstance(q, int)} for s, m in marks.items()}

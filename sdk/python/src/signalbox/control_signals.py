"""Signals of the control plane to a training run: save a checkpoint, pause, stop.

The first check for a signal, or the first registered callback, starts a thread that requests signals and waits for
them. A training without checks and callbacks sends no such request, so the control plane knows that the training does
not listen for signals.
"""

from __future__ import annotations

import json
import os
import threading
import time
from typing import Callable, Dict, List, NamedTuple, Optional

from . import forks
from .config import Config
from .errors import IngestError, Unreachable
from .policy import Policy, backoff, draw
from .transport import Reply, Transport
from .wire import detail, encode

NONE, CHECKPOINT, PAUSE, STOP = "none", "checkpoint", "pause", "stop"


class Paused(SystemExit):
    """The checkpoint is stored and the run is paused. Ends the process with status 0."""

    def __init__(self) -> None:
        super().__init__(0)


class Signal(NamedTuple):
    """A signal with its id. At `deadline` the platform acts even if the training has not acknowledged the signal."""

    signal: str = NONE
    id: str = ""
    deadline: Optional[str] = None


Callback = Callable[[Signal], None]


class ControlSignals:
    """Receives signals on a thread and stores the current one. Safe to use from several threads."""

    def __init__(self, config: Config, policy: Policy) -> None:
        self._config = config
        self._policy = policy
        self._lock = threading.Lock()
        self._now = Signal()
        self._acknowledged = ""
        self._pid = 0  # id of the process in which the thread runs
        self._ended = False
        self._callbacks: List[Callback] = []
        forks.renew(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held."""
        self._lock = threading.Lock()

    def now(self) -> Signal:
        """Return the current signal, or `none` if it was already acknowledged. The first call starts the thread."""
        self._start()
        with self._lock:
            return Signal() if self._now.id == self._acknowledged else self._now

    def call(self, callback: Callback) -> None:
        """Call `callback` with every new signal, on the thread that receives signals."""
        with self._lock:
            self._callbacks.append(callback)
        self._start()

    def leaving(self) -> bool:
        """Return whether the current signal is `pause`. A paused run ends its process and continues in a later one."""
        return self._now.signal == PAUSE

    def acknowledge(self, signal: Signal) -> Signal:
        """Acknowledge a signal and return the next one.

        Raises IngestError if the control plane refuses the acknowledgement or cannot be reached in time.
        """
        body = encode({"run_id": self._config.run_id, "id": signal.id})
        transport = Transport(self._config, self._policy.request_timeout)
        deadline = time.monotonic() + self._policy.settle_timeout
        failures = 0
        try:
            while True:
                fault = ""
                try:
                    reply = transport.send("signals/ack", body)
                    if reply.ok:
                        return self._took(signal, _read(reply))
                    fault = detail(reply.body)
                    if not reply.transient or time.monotonic() > deadline:
                        raise IngestError("signals/ack", reply.status, fault)
                except Unreachable as err:
                    if time.monotonic() > deadline:
                        raise IngestError("signals/ack", 503, str(err)) from err
                failures += 1
                time.sleep(backoff(self._policy, failures, draw()))
        finally:
            transport.close()

    def end(self) -> None:
        """Stop receiving signals."""
        self._ended = True

    def _took(self, acknowledged: Signal, then: Signal) -> Signal:
        with self._lock:
            self._acknowledged = acknowledged.id
            if then.signal != NONE:
                self._now = then
        return then

    def _start(self) -> None:
        with self._lock:
            if self._pid == os.getpid() or self._ended:
                return
            self._pid = os.getpid()  # a forked child does not have its parent's threads
            threading.Thread(target=self._wait, name="signalbox-signals", daemon=True).start()

    def _wait(self) -> None:
        wait = self._policy.signal_wait
        transport = Transport(self._config, wait + self._policy.request_timeout)
        failures = 0
        while not self._ended:
            query: Dict[str, object] = {"run_id": self._config.run_id, "wait": int(wait)}
            if self._now.id:
                query["after"] = self._now.id
            try:
                reply = transport.get("signals", query)
            except Exception:  # the thread must survive any error and try again
                reply = Reply(503, b"")
            if reply.ok:
                failures = 0
                self._hear(_read(reply))
                continue
            if not reply.transient:
                break  # the run has ended, or the control plane does not support signals
            failures += 1
            time.sleep(max(backoff(self._policy, failures, draw()), reply.retry_after or 0.0))
        transport.close()

    def _hear(self, heard: Signal) -> None:
        with self._lock:
            news = heard.id != self._now.id
            self._now = heard
            callbacks = list(self._callbacks) if news and heard.id else []
        for callback in callbacks:
            callback(heard)


class NoSignals:
    """Replaces `ControlSignals` if there is no control plane. It never has a signal."""

    def now(self) -> Signal:
        """Return no signal."""
        return Signal()

    def call(self, callback: Callback) -> None:
        """Do nothing: there are no signals."""

    def leaving(self) -> bool:
        """Return False."""
        return False

    def acknowledge(self, signal: Signal) -> Signal:
        """Return no signal."""
        return Signal()

    def end(self) -> None:
        """Do nothing: there is no thread."""


def _read(reply: Reply) -> Signal:
    """Return the signal in a response, or the signal `none` if the response cannot be parsed."""
    try:
        found = json.loads(reply.body)
    except ValueError:
        return Signal()
    if not isinstance(found, dict) or not isinstance(found.get("signal"), str):
        return Signal()
    return Signal(found["signal"], found.get("id") or "", found.get("deadline"))

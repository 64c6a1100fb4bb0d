"""SIGTERM and interpreter exit: deliver pending reports for a bounded time, then continue as usual."""

from __future__ import annotations

import atexit
import os
import signal
import threading
from types import FrameType
from typing import Callable, Optional

from .notices import notice
from .policy import Policy

Flush = Callable[[float], bool]


def on_term(flush: Flush, policy: Policy) -> None:
    """Flush on SIGTERM. A handler that was installed earlier runs at once. Without such a handler, the signal ends
    the process as usual, after at most policy.term_timeout seconds. If SIGTERM was ignored, it stays ignored."""
    if threading.current_thread() is not threading.main_thread():
        return
    earlier = signal.getsignal(signal.SIGTERM)
    pid = os.getpid()

    def end() -> None:
        try:
            flush(policy.term_timeout)
        finally:
            os.kill(os.getpid(), signal.SIGTERM)

    def handle(number: int, frame: Optional[FrameType]) -> None:
        # The interrupted code may hold the outbox's lock, so the flush runs on a separate thread.
        if callable(earlier):
            threading.Thread(target=flush, args=(policy.term_timeout,), daemon=True).start()
            earlier(number, frame)
        elif earlier != signal.SIG_IGN:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            if os.getpid() != pid:
                os.kill(os.getpid(), signal.SIGTERM)
                return
            threading.Thread(target=end, daemon=True).start()

    signal.signal(signal.SIGTERM, handle)


def at_exit(finish: Callable[[float], object], policy: Policy) -> None:
    """If finish() was not called, deliver for at most policy.exit_timeout seconds."""
    pid = os.getpid()

    def last() -> None:
        if os.getpid() != pid:
            return
        try:
            finish(policy.exit_timeout)
        except Exception as err:
            notice(err)

    atexit.register(last)

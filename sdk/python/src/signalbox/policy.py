"""The parameters of batching, retrying and waiting."""

from __future__ import annotations

import os
from typing import NamedTuple


class Policy(NamedTuple):
    """Times in seconds, sizes in bytes. The defaults are meant for production."""

    linger: float = 0.5  # how long a report may wait to be batched
    max_bytes: int = 512 * 1024  # maximum size of one request with several reports
    max_points: int = 1000  # maximum number of points in one request
    chunk_bytes: int = 1024 * 1024  # approximate maximum size of one validation or benchmark request
    backoff_base: float = 0.5
    backoff_cap: float = 30.0
    request_timeout: float = 30.0
    settle_timeout: float = 900.0  # lifecycle and artifact calls wait this long for delivery
    log_timeout: float = 5.0  # finish waits at most this long for log lines after all other reports
    term_timeout: float = 5.0  # limit of the flush on SIGTERM
    exit_timeout: float = 10.0  # limit of the flush at interpreter exit if finish() was not called
    sync_every: float = 1.0  # interval of fsync of the spool; a power failure can lose the reports of the last interval
    signal_wait: float = 50.0  # one request waits this long for a signal; proxies often time out after 60 s
    show_after: float = 3.0  # an unfinished line, such as a progress bar, goes into the log for the first time after this
    show_most: float = 10.0  # the interval at which a line that stays unfinished goes into the log grows up to this
    segment_bytes: int = 32 * 1024 * 1024  # size at which the next report begins a new spool file


def draw() -> float:
    """Return a uniform number in [0, 1). The random module is not used: training seeds it, and its import is slow."""
    return int.from_bytes(os.urandom(6), "big") / float(1 << 48)


def backoff(policy: Policy, failures: int, drawn: float) -> float:
    """Return the seconds to wait after this number of failures, with full jitter. `drawn` is uniform in [0, 1)."""
    ceiling = min(policy.backoff_cap, policy.backoff_base * 2.0 ** min(failures - 1, 30))
    return ceiling * drawn

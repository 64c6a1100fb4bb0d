"""Fixtures: a control plane, and the environment of a run that reports to it."""

from __future__ import annotations

from pathlib import Path
from typing import Callable, Dict, Iterator

import pytest
import signalbox
from control import TOKEN, Control
from signalbox import Policy

# The production policy with short pauses, so that a retry takes only milliseconds.
QUICK = Policy(
    linger=0.01,
    backoff_base=0.005,
    backoff_cap=0.05,
    request_timeout=2.0,
    settle_timeout=10.0,
    log_timeout=0.3,
    exit_timeout=0.1,
    signal_wait=1.0,
    show_after=0.2,
    show_most=0.8,
)

Env = Dict[str, str]
Start = Callable[..., signalbox.Run]


@pytest.fixture
def control() -> Iterator[Control]:
    """A running control plane."""
    plane = Control()
    plane.start()
    yield plane
    plane.stop()


@pytest.fixture
def env(control: Control, tmp_path: Path) -> Env:
    """The environment that the platform injects."""
    return {
        "SERVICE_JOB_ENABLED": "1",
        "SERVICE_JOB_ENDPOINT": f"http://127.0.0.1:{control.port}/api/ingest",
        "SERVICE_JOB_RUN_ID": "run_1",
        "SERVICE_JOB_TOKEN": TOKEN,
        "SERVICE_JOB_SPOOL_DIR": str(tmp_path / "spool"),
    }


@pytest.fixture
def start(env: Env) -> Start:
    """A function that calls init() with short pauses and without a signal handler."""

    def begin(policy: Policy = QUICK, **options: object) -> signalbox.Run:
        options.setdefault("hardware", 0)  # samples only in tests that enable them
        return signalbox.init(policy=policy, env=env, handle_sigterm=False, **options)  # type: ignore[arg-type]

    return begin

"""The runs without a job that a control plane for tests has created."""

from __future__ import annotations

import threading
from typing import Any, Dict, List


class Runs:
    """Creates runs. They all report with the same token."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.created: List[Any] = []  # the bodies of the requests that created a run
        self.states: Dict[str, str] = {}  # of the created runs
        self.state_answer: Any = None  # the response to requests for the state, if it is set
        self.expires = "2126-11-27T09:00:00+00:00"

    def create(self, body: Any, endpoint: str, token: str) -> Any:
        """Create a run. Return the response."""
        with self.lock:
            self.created.append(body)
            name = f"run_{len(self.created):04}"
            self.states[name] = "running"
            at = f"2026-11-27T09:00:{len(self.created):02}+00:00"
        run = {"id": name, "state": "running", "created_at": at}
        return {"run": run, "endpoint": endpoint, "token": token, "token_expires_at": self.expires}

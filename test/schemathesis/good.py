"""Valid requests of operations for which the default request is not sufficient.

The default request has the smallest valid body and path variables from lists. The function of an operation creates the
objects that its request needs, and returns the differences from the default request.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import requests

from client import Harness


@dataclass
class Good:
    """The differences between a valid request and the default request."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    kind: str | None = None
    #: A URL to use instead of the operation's path.
    url: str | None = None
    #: The HTTP session to use if the address of the client matters.
    session: requests.Session | None = None


Maker = Callable[[Harness], Good]
GOOD: dict[str, Maker] = {}


def good(operation: str) -> Callable[[Maker], Maker]:
    def keep(f: Maker) -> Maker:
        GOOD[operation] = f
        return f

    return keep


MOMENT = "2026-11-21T03:00:00.000000+00:00"


def body(operation: str, make: Callable[[Harness], Any]) -> None:
    GOOD[operation] = lambda h: Good(body=make(h))


def report(operation: str, **fields: Any) -> None:
    body(operation, lambda h: {"run_id": h["live_run"], **fields})


def job(h: Harness) -> dict[str, Any]:
    return {
        "api": "service/v1",
        "spec": {
            "name": h.unique(), "project": h["project"], "source": {"command": ["sleep", "1"]},
            "recipe": {"name": "custom/custom", "version": h["recipe_version"], "lock": json.loads(h["recipe_lock"])},
            "resources": {"pools": [{"pool": "default"}]},
        },
    }


def project(h: Harness) -> str:
    return str(h.post("/api/projects", {"key": h.unique("p"), "name": "P"})["id"])


def dataset(h: Harness) -> str:
    return str(h.post("/api/datasets", {"name": h.unique("d"), "project": h["project"], "format": "jsonl"})["id"])


LINE = b'{"question": "1+1?"}\n'


def manifest(data: bytes, version: str = "v1") -> dict[str, Any]:
    return {"version": version, "files": [{"path": "a.jsonl", "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}]}


def pushed(h: Harness, commit: bool = True) -> str:
    """Create a dataset, upload its version v1 and return its id. If `commit` is set, also commit the version."""
    made = dataset(h)
    for target in h.post(f"/api/datasets/{made}/versions", manifest(LINE))["uploads"]:
        path = target["url"].removeprefix(h.url)
        h.ask(target["method"], path, "none", LINE, target["headers"]).raise_for_status()
    if commit:
        h.post(f"/api/datasets/{made}/versions/v1/commit")
    return made


def until(holds: Callable[[], Any], patience: float = 120) -> Any:
    """Poll until holds() returns a true value, and return that value. Raises RuntimeError after `patience` seconds."""
    end = time.monotonic() + patience
    while not (found := holds()):
        if time.monotonic() > end:
            raise RuntimeError("timed out waiting for a condition")
        time.sleep(0.1)
    return found


# Jobs and runs.
body("submitJob", job)


@good("stopJob")
def _stop(h: Harness) -> Good:
    return Good(path={"job_id": h.post("/api/jobs", job(h))["id"]})


# Reports.
report("reportLifecycle", event="running", ts=MOMENT)
report("reportMetrics", points=[{"key": "loss", "step": 1, "value": 0.5, "ts": MOMENT}])
report("reportHparams", params={"optim.lr": 0.1})
report("reportValidation", step=1, samples=[{"user": "q", "assistant": "a", "reward": 1}])
report("reportLogs", chunks=["a line\n"])
report("reportHardware", points=[{"key": "gpu_util", "value": 0.5, "ts": MOMENT}])
report("reportEnvironment", python="3.11")
report("reportNodes", nodes=[{"rank": 0, "host": "a"}])
report("reportBenchmark", name="arithmetic", metric="exact_match", value=0.5)
GOOD["getWatermark"] = lambda h: Good(query={"run_id": h["live_run"]})
GOOD["awaitSignal"] = lambda h: Good(query={"run_id": h["live_run"], "wait": "0"})


def ticket(h: Harness) -> tuple[dict[str, Any], bytes, str]:
    data = h.unique().encode()
    digest = hashlib.sha256(data).hexdigest()
    query = {"run_id": h["live_run"], "kind": "eval_report", "path": "report.json", "size_bytes": str(len(data)), "sha256": digest}
    response = h.ask("GET", "/api/ingest/artifact/upload-url", "ingest", params=query)
    response.raise_for_status()
    return response.json(), data, digest


@good("getArtifactUploadURL")
def _upload_url(h: Harness) -> Good:
    return Good(query={"run_id": h["live_run"], "kind": "eval_report", "path": "r.json", "size_bytes": "3", "sha256": "a" * 64})


@good("registerArtifact")
def _artifact(h: Harness) -> Good:
    signed, data, _ = ticket(h)
    h.ask(signed["method"], signed["url"].removeprefix(h.url), "none", data, signed["headers"]).raise_for_status()
    return Good(body={
        "run_id": h["live_run"], "kind": "eval_report", "path": signed["object_uri"], "format": "json", "size_bytes": len(data),
    })


@good("putBlob")
def _put(h: Harness) -> Good:
    signed, data, _ = ticket(h)
    return Good(url=signed["url"].removeprefix(h.url), body=data, headers=signed["headers"])


# Datasets.
body("createDataset", lambda h: {"name": h.unique("d"), "project": h["project"]})
GOOD["createDatasetVersion"] = lambda h: Good(path={"dataset_id": dataset(h)}, body=manifest(LINE, "v2"))
GOOD["commitDatasetVersion"] = lambda h: Good(path={"dataset_id": pushed(h, False), "version": "v1"})
GOOD["archiveDatasetVersion"] = lambda h: Good(path={"dataset_id": pushed(h), "version": "v1"})
GOOD["deleteDatasetVersion"] = lambda h: Good(path={"dataset_id": pushed(h, False), "version": "v1"})
GOOD["updateDataset"] = lambda h: Good(path={"dataset_id": dataset(h)}, body={"description": "d"})
GOOD["signDatasetDownload"] = lambda h: Good(path={"dataset_id": h["dataset"], "version": "v1"}, body={"path": "a.jsonl"})


@good("getBlob")
def _get_blob(h: Harness) -> Good:
    signed = h.post(f"/api/datasets/{h['dataset']}/versions/v1/download-url", {"path": "a.jsonl"})
    return Good(url=signed["url"].removeprefix(h.url))

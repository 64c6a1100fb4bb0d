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

from client import World


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


Maker = Callable[[World], Good]
GOOD: dict[str, Maker] = {}


def good(operation: str) -> Callable[[Maker], Maker]:
    def keep(f: Maker) -> Maker:
        GOOD[operation] = f
        return f

    return keep


MOMENT = "2026-11-21T03:00:00.000000+00:00"


def body(operation: str, make: Callable[[World], Any]) -> None:
    GOOD[operation] = lambda w: Good(body=make(w))


def report(operation: str, **fields: Any) -> None:
    body(operation, lambda w: {"run_id": w["live_run"], **fields})


def job(w: World) -> dict[str, Any]:
    return {
        "api": "service/v1",
        "spec": {
            "name": w.unique(), "project": w["project"], "source": {"command": ["sleep", "1"]},
            "recipe": {"name": "custom/custom", "version": w["recipe_version"], "lock": json.loads(w["recipe_lock"])},
            "resources": {"pools": [{"pool": "default"}]},
        },
    }


def project(w: World) -> str:
    return str(w.post("/api/projects", {"key": w.unique("p"), "name": "P"})["id"])


def dataset(w: World) -> str:
    return str(w.post("/api/datasets", {"name": w.unique("d"), "project": w["project"], "format": "jsonl"})["id"])


LINE = b'{"question": "1+1?"}\n'


def manifest(data: bytes, version: str = "v1") -> dict[str, Any]:
    return {"version": version, "files": [{"path": "a.jsonl", "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}]}


def pushed(w: World, commit: bool = True) -> str:
    """Create a dataset, upload its version v1 and return its id. If `commit` is set, also commit the version."""
    made = dataset(w)
    for target in w.post(f"/api/datasets/{made}/versions", manifest(LINE))["uploads"]:
        path = target["url"].removeprefix(w.url)
        w.ask(target["method"], path, "none", LINE, target["headers"]).raise_for_status()
    if commit:
        w.post(f"/api/datasets/{made}/versions/v1/commit")
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
def _stop(w: World) -> Good:
    return Good(path={"job_id": w.post("/api/jobs", job(w))["id"]})


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
GOOD["getWatermark"] = lambda w: Good(query={"run_id": w["live_run"]})
GOOD["awaitSignal"] = lambda w: Good(query={"run_id": w["live_run"], "wait": "0"})


def ticket(w: World) -> tuple[dict[str, Any], bytes, str]:
    data = w.unique().encode()
    digest = hashlib.sha256(data).hexdigest()
    query = {"run_id": w["live_run"], "kind": "eval_report", "path": "report.json", "size_bytes": str(len(data)), "sha256": digest}
    response = w.ask("GET", "/api/ingest/artifact/upload-url", "ingest", params=query)
    response.raise_for_status()
    return response.json(), data, digest


@good("getArtifactUploadURL")
def _upload_url(w: World) -> Good:
    return Good(query={"run_id": w["live_run"], "kind": "eval_report", "path": "r.json", "size_bytes": "3", "sha256": "a" * 64})


@good("registerArtifact")
def _artifact(w: World) -> Good:
    signed, data, _ = ticket(w)
    w.ask(signed["method"], signed["url"].removeprefix(w.url), "none", data, signed["headers"]).raise_for_status()
    return Good(body={
        "run_id": w["live_run"], "kind": "eval_report", "path": signed["object_uri"], "format": "json", "size_bytes": len(data),
    })


@good("putBlob")
def _put(w: World) -> Good:
    signed, data, _ = ticket(w)
    return Good(url=signed["url"].removeprefix(w.url), body=data, headers=signed["headers"])


# Datasets.
body("createDataset", lambda w: {"name": w.unique("d"), "project": w["project"]})
GOOD["createDatasetVersion"] = lambda w: Good(path={"dataset_id": dataset(w)}, body=manifest(LINE, "v2"))
GOOD["commitDatasetVersion"] = lambda w: Good(path={"dataset_id": pushed(w, False), "version": "v1"})
GOOD["archiveDatasetVersion"] = lambda w: Good(path={"dataset_id": pushed(w), "version": "v1"})
GOOD["updateDataset"] = lambda w: Good(path={"dataset_id": dataset(w)}, body={"description": "d"})
GOOD["signDatasetDownload"] = lambda w: Good(path={"dataset_id": w["dataset"], "version": "v1"}, body={"path": "a.jsonl"})


@good("getBlob")
def _get_blob(w: World) -> Good:
    signed = w.post(f"/api/datasets/{w['dataset']}/versions/v1/download-url", {"path": "a.jsonl"})
    return Good(url=signed["url"].removeprefix(w.url))

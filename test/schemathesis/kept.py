"""Valid requests for environments, rubrics, solutions, shares, packages and jobs."""

from __future__ import annotations

import hashlib
import io
import tarfile
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from client import World
from good import GOOD, MOMENT, Good, body, good, job, until


def environment(w: World) -> str:
    return str(w.post("/api/environments", {"name": w.unique("e"), "project": w["project"]})["id"])


def uploaded(w: World, made: str, kind: str, data: bytes) -> dict[str, Any]:
    """Upload an object of an environment. Return its digest and size."""
    announced = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    target = w.post(f"/api/environments/{made}/upload-url", {"kind": kind} | announced)
    if target.get("url"):
        path = str(target["url"]).removeprefix(w.url)
        w.ask(target["method"], path, "none", data, target["headers"]).raise_for_status()
    return announced


def archive(words: str = "") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        text = f"class Env: pass  # {words}\n".encode()
        member = tarfile.TarInfo("env.py")
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    return out.getvalue()


def environment_version(w: World, made: str) -> dict[str, Any]:
    tasks = b'{"id": "t1", "prompt": "1+1?"}\n'
    taskset = uploaded(w, made, "taskset", tasks)
    return {
        "version": w.unique("v"), "package": uploaded(w, made, "package", archive()),
        "manifest": {"api": "env/v1", "entry": "env:Env", "taskset": {"digest": "sha256:" + taskset["sha256"], "count": 1}},
    }


body("createEnvironment", lambda w: {"name": w.unique("e"), "project": w["project"]})
GOOD["updateEnvironment"] = lambda w: Good(path={"environment_id": environment(w)}, body={"description": "d"})
GOOD["deleteEnvironment"] = lambda w: Good(path={"environment_id": environment(w)})
GOOD["signEnvironmentUpload"] = lambda w: Good(
    path={"environment_id": environment(w)}, body={"kind": "taskset", "size_bytes": 3, "sha256": "a" * 64}
)


@good("createEnvironmentVersion")
def _version(w: World) -> Good:
    made = environment(w)
    return Good(path={"environment_id": made}, body=environment_version(w, made))


@good("deprecateEnvironmentVersion")
def _deprecate(w: World) -> Good:
    made = environment(w)
    version = str(w.post(f"/api/environments/{made}/versions", environment_version(w, made))["version"])
    until(lambda: w.get(f"/api/environments/{made}/versions/{version}")["state"] == "ready")
    return Good(path={"environment_id": made, "version": version})


CONTENT = {"criteria": [{"key": "right", "kind": "exact", "weight": 1, "config": {}}]}


def rubric(w: World) -> str:
    return str(w.post("/api/rubrics", {"name": w.unique("r"), "project": w["project"]})["id"])


body("createRubric", lambda w: {"name": w.unique("r"), "project": w["project"]})
GOOD["createRubricVersion"] = lambda w: Good(path={"rubric_id": rubric(w)}, body={"content": CONTENT})


@good("publishRubricVersion")
def _publish(w: World) -> Good:
    made = rubric(w)
    number = w.post(f"/api/rubrics/{made}/versions", {"content": CONTENT})["version"]
    return Good(path={"rubric_id": made, "version": str(number)})


def manifest(w: World) -> dict[str, str]:
    return {"name": w.unique("s"), "version": "1", "recipe": "custom/custom@" + w["recipe_version"]}


body("createSolution", lambda w: {"project": w["project"], "manifest": manifest(w)})
body("createSolutionApplication", lambda w: {"project": w["project"], "solution": manifest(w), "bindings": {
    "model": w["model_ref"], "train_dataset": w["train_ref"], "validation_dataset": w["held_ref"], "taskset": w["taskset_ref"],
    "rubric": w["rubric_ref"],
}})


# Shares and sessions.
body("createShare", lambda w: {"kind": "job", "target_ids": [w["job"]]})
GOOD["revokeShare"] = lambda w: Good(path={"share_id": str(w.post("/api/shares", {"kind": "job", "target_ids": [w["job"]]})["id"])})
for _name in ("getShared", "getSharedConfig", "listSharedMetrics", "listSharedSamples"):
    GOOD[_name] = lambda w: Good(path={"token": str(w.post("/api/shares", {"kind": "job", "target_ids": [w["job"]], "fields": ["metrics", "config", "samples"]})["token"])})


# Packages.
def package(w: World, bring: bool = True) -> dict[str, Any]:
    data = archive(w.unique())
    announced = {"project": w["project"], "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    made = dict(w.post("/api/submit/packages", announced))
    if bring:
        target = made["upload"]
        w.ask(target["method"], target["url"].removeprefix(w.url), "none", data, target["headers"]).raise_for_status()
    return made


body("createPackage", lambda w: {"project": w["project"], "size_bytes": 3, "sha256": hashlib.sha256(w.unique().encode()).hexdigest()})
GOOD["getPackage"] = lambda w: Good(path={"package_id": package(w, False)["id"]})
GOOD["commitPackage"] = lambda w: Good(path={"package_id": package(w)["id"]})


# Existing jobs.
GOOD["updateJob"] = lambda w: Good(path={"job_id": w["job"]}, body={"labels": {"a": "b"}})
body("preflightJob", job)


@good("cloneJob")
def _clone(w: World) -> Good:
    return Good(path={"job_id": w["job"]}, body={})


@good("retryJob")
def _retry(w: World) -> Good:
    made = w.post("/api/jobs", job(w))["id"]
    w.post(f"/api/jobs/{made}/stop")
    until(lambda: w.get(f"/api/jobs/{made}")["state"] == "stopped")
    return Good(path={"job_id": made})


body("setMaintenance", lambda w: {"mode": "off"})


@dataclass
class Training:
    """A running job whose reports this program sends, with the token that the job's command wrote to a file."""

    job: str
    run: str
    token: dict[str, str]


GIVES = 'printf %s "$SERVICE_JOB_TOKEN" > "$0.new" && mv "$0.new" "$0"; exec sleep 600'


def training(w: World) -> Training:
    """Submit a job, wait until it runs, report the event `running` and read the signal once, so that it can be paused."""
    place = Path(tempfile.mkdtemp()) / "token"
    spec = job(w)
    spec["spec"] |= {"source": {"command": ["sh", "-c", GIVES, str(place)]}, "checkpoint": {"grace_s": 1, "required_for_pause": False}}
    made = w.post("/api/jobs", spec)
    until(place.exists)
    t = Training(made["id"], made["run_id"], {"X-Service-Token": place.read_text()})
    event = {"run_id": t.run, "event": "running", "ts": MOMENT}
    w.ask("POST", "/api/ingest/lifecycle", "none", event, t.token).raise_for_status()
    signal(w, t)
    return t


def signal(w: World, t: Training) -> Any:
    """Return the id of the run's current signal, or None."""
    response = w.ask("GET", "/api/ingest/signals", "none", headers=t.token, params={"run_id": t.run, "wait": "0"})
    response.raise_for_status()
    return response.json()["id"]


GOOD["pauseJob"] = lambda w: Good(path={"job_id": training(w).job})


@good("ackSignal")
def _ack(w: World) -> Good:
    t = training(w)
    w.post(f"/api/jobs/{t.job}/pause")
    return Good(body={"run_id": t.run, "id": until(partial(signal, w, t))}, headers=t.token)


@good("resumeJob")
def _resume(w: World) -> Good:
    t = training(w)
    w.post(f"/api/jobs/{t.job}/pause")
    until(lambda: w.get(f"/api/jobs/{t.job}")["state"] == "paused")
    return Good(path={"job_id": t.job})

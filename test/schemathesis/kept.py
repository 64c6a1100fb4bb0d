"""Valid requests for environments, rubrics, solutions, shares, packages and jobs."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import tempfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from client import Harness
from good import GOOD, MOMENT, Good, body, good, job, until


def environment(h: Harness) -> str:
    return str(h.post("/api/environments", {"name": h.unique("e"), "project": h["project"]})["id"])


def uploaded(h: Harness, made: str, kind: str, data: bytes) -> dict[str, Any]:
    """Upload an object of an environment. Return its digest and size."""
    announced = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    target = h.post(f"/api/environments/{made}/upload-url", {"kind": kind} | announced)
    if target.get("url"):
        path = str(target["url"]).removeprefix(h.url)
        h.ask(target["method"], path, "none", data, target["headers"]).raise_for_status()
    return announced


def archive(words: str = "", name: str = "env.py") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        text = (words if name == "recipe.json" else f"class Env: pass  # {words}\n").encode()
        member = tarfile.TarInfo(name)
        member.size = len(text)
        tar.addfile(member, io.BytesIO(text))
    return out.getvalue()


def environment_version(h: Harness, made: str) -> dict[str, Any]:
    tasks = b'{"id": "t1", "prompt": "1+1?"}\n'
    taskset = uploaded(h, made, "taskset", tasks)
    return {
        "version": h.unique("v"), "package": uploaded(h, made, "package", archive()),
        "manifest": {"api": "env/v1", "entry": "env:Env", "taskset": {"digest": "sha256:" + taskset["sha256"], "count": 1}},
    }


body("createEnvironment", lambda h: {"name": h.unique("e"), "project": h["project"]})
GOOD["updateEnvironment"] = lambda h: Good(path={"environment_id": environment(h)}, body={"description": "d"})
GOOD["deleteEnvironment"] = lambda h: Good(path={"environment_id": environment(h)})
GOOD["signEnvironmentUpload"] = lambda h: Good(
    path={"environment_id": environment(h)}, body={"kind": "taskset", "size_bytes": 3, "sha256": "a" * 64}
)


@good("createEnvironmentVersion")
def _version(h: Harness) -> Good:
    made = environment(h)
    return Good(path={"environment_id": made}, body=environment_version(h, made))


@good("deprecateEnvironmentVersion")
def _deprecate(h: Harness) -> Good:
    made = environment(h)
    version = str(h.post(f"/api/environments/{made}/versions", environment_version(h, made))["version"])
    until(lambda: h.get(f"/api/environments/{made}/versions/{version}")["state"] == "ready")
    return Good(path={"environment_id": made, "version": version})


CONTENT = {"criteria": [{"key": "right", "kind": "exact", "weight": 1, "config": {}}]}


def rubric(h: Harness) -> str:
    return str(h.post("/api/rubrics", {"name": h.unique("r"), "project": h["project"]})["id"])


body("createRubric", lambda h: {"name": h.unique("r"), "project": h["project"]})
GOOD["createRubricVersion"] = lambda h: Good(path={"rubric_id": rubric(h)}, body={"content": CONTENT})


@good("publishRubricVersion")
def _publish(h: Harness) -> Good:
    made = rubric(h)
    number = h.post(f"/api/rubrics/{made}/versions", {"content": CONTENT})["version"]
    return Good(path={"rubric_id": made, "version": str(number)})


def manifest(h: Harness) -> dict[str, str]:
    return {"name": h.unique("s"), "version": "1", "recipe": "custom/custom@" + h["recipe_version"]}


body("createSolution", lambda h: {"project": h["project"], "manifest": manifest(h)})
body("createSolutionApplication", lambda h: {"project": h["project"], "solution": manifest(h), "bindings": {
    "model": h["model_ref"], "train_dataset": h["train_ref"], "validation_dataset": h["held_ref"], "taskset": h["taskset_ref"],
    "rubric": h["rubric_ref"],
}})


# Shares and sessions.
body("createShare", lambda h: {"kind": "job", "target_ids": [h["job"]]})
GOOD["revokeShare"] = lambda h: Good(path={"share_id": str(h.post("/api/shares", {"kind": "job", "target_ids": [h["job"]]})["id"])})
for _name in ("getShared", "getSharedConfig", "listSharedMetrics", "listSharedSamples"):
    GOOD[_name] = lambda h: Good(path={"token": str(h.post("/api/shares", {"kind": "job", "target_ids": [h["job"]], "fields": ["metrics", "config", "samples"]})["token"])})


# Packages.
def package(h: Harness, bring: bool = True, data: bytes | None = None) -> dict[str, Any]:
    data = data or archive(h.unique())
    announced = {"project": h["project"], "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    made = dict(h.post("/api/submit/packages", announced))
    if bring:
        target = made["upload"]
        h.ask(target["method"], target["url"].removeprefix(h.url), "none", data, target["headers"]).raise_for_status()
    return made


body("createPackage", lambda h: {"project": h["project"], "size_bytes": 3, "sha256": hashlib.sha256(h.unique().encode()).hexdigest()})
GOOD["getPackage"] = lambda h: Good(path={"package_id": package(h, False)["id"]})
GOOD["commitPackage"] = lambda h: Good(path={"package_id": package(h)["id"]})


def recipe_package(h: Harness, name: str) -> str:
    manifest = {
        "api": "service/v1", "name": f"{h['project']}/{name}", "version": "1.0", "title": "Own", "entrypoint": ["true"],
        "framework": {"name": "none", "runtime_id": "none-1"}, "params_schema": {"type": "object"},
    }
    made = package(h, data=archive(json.dumps(manifest), "recipe.json"))["id"]
    h.post(f"/api/submit/packages/{made}/commit")
    return str(made)


def own_recipe(h: Harness) -> dict[str, str]:
    name = h.unique("r")
    h.post("/api/recipes", {"package_id": recipe_package(h, name)})
    return {"namespace": h["project"], "name": name, "version": "1.0"}


body("publishRecipe", lambda h: {"package_id": recipe_package(h, h.unique("r"))})
GOOD["updateRecipe"] = lambda h: Good(path=own_recipe(h), body={"state": "deprecated"})
GOOD["listRecipeDownloads"] = lambda h: Good(path=own_recipe(h))


# Existing jobs.
GOOD["updateJob"] = lambda h: Good(path={"job_id": h["job"]}, body={"labels": {"a": "b"}})
body("preflightJob", job)


# Runs.
body("createRun", lambda h: {"name": "notebook", "project": h["project"], "tags": ["a"], "labels": {"a": "b"}, "silence_s": 3600})
GOOD["getRunReferences"] = lambda h: Good(path={"run_id": h["run"]})


@good("deleteRun")
def _delete_run(h: Harness) -> Good:
    """Create a run without a job and report its end."""
    made = dict(h.post("/api/runs", {"name": "notebook"}))
    run = str(made["run"]["id"])
    event = {"run_id": run, "event": "succeeded", "ts": "2026-11-21T03:00:00+00:00"}
    h.ask("POST", "/api/ingest/lifecycle", "none", event, {"X-Service-Token": str(made["token"])}).raise_for_status()
    return Good(path={"run_id": run})


@good("deleteJob")
def _delete_job(h: Harness) -> Good:
    """Submit a job and stop it while it waits."""
    made = str(h.post("/api/jobs", job(h))["id"])
    h.post(f"/api/jobs/{made}/stop")
    until(lambda: h.get(f"/api/jobs/{made}")["state"] == "stopped")
    return Good(path={"job_id": made})


GOOD["updateRun"] = lambda h: Good(path={"run_id": h["run"]}, body={"name": "renamed", "tags": ["a"], "notes": h.unique()})
body("compareRuns", lambda h: {"run_ids": [h["run"]], "keys": ["loss"], "points": 5, "x": "time", "prompts": 2, "step": 1})
body("aggregateRuns", lambda h: {"group_by": ["owner", "hparam.optim.lr"], "values": ["metric.loss.last"], "limit": 3})
GOOD["search"] = lambda h: Good(query={"q": "signal 信号", "kinds": "run", "limit": "3"})
body("searchRuns", lambda h: {"filter": {"field": "hparam.optim.lr", "op": "exists"}, "sort": "metric.loss.last", "columns": ["hparam.optim.lr"], "limit": 3})


@good("getRunNotes")
def _run_notes(h: Harness) -> Good:
    """Write notes and read their version."""
    made = h.ask("PATCH", f"/api/runs/{h['run']}", "operator", {"notes": h.unique()})
    made.raise_for_status()
    return Good(path={"run_id": h["run"], "version": str(made.json()["notes_version"])})


@good("cloneJob")
def _clone(h: Harness) -> Good:
    return Good(path={"job_id": h["job"]}, body={})


@good("retryJob")
def _retry(h: Harness) -> Good:
    made = h.post("/api/jobs", job(h))["id"]
    h.post(f"/api/jobs/{made}/stop")
    until(lambda: h.get(f"/api/jobs/{made}")["state"] == "stopped")
    return Good(path={"job_id": made})


body("setMaintenance", lambda h: {"mode": "off"})


@dataclass
class Training:
    """A running job whose reports this program sends, with the token that the job's command wrote to a file."""

    job: str
    run: str
    token: dict[str, str]


GIVES = 'printf %s "$SERVICE_JOB_TOKEN" > "$0.new" && mv "$0.new" "$0"; exec sleep 600'


def training(h: Harness) -> Training:
    """Submit a job, wait until it runs, report the event `running` and read its signals once, so that it can be paused."""
    place = Path(tempfile.mkdtemp()) / "token"
    spec = job(h)
    spec["spec"] |= {"source": {"command": ["sh", "-c", GIVES, str(place)]}, "checkpoint": {"grace_s": 1, "required_for_pause": False}}
    made = h.post("/api/jobs", spec)
    until(place.exists)
    t = Training(made["id"], made["run_id"], {"X-Service-Token": place.read_text()})
    event = {"run_id": t.run, "event": "running", "ts": MOMENT}
    h.ask("POST", "/api/ingest/lifecycle", "none", event, t.token).raise_for_status()
    signal(h, t)
    return t


def signal(h: Harness, t: Training) -> Any:
    """Return the id of the run's current signal, or None."""
    response = h.ask("GET", "/api/ingest/signals", "none", headers=t.token, params={"run_id": t.run, "wait": "0"})
    response.raise_for_status()
    return response.json()["id"]


#: A job's command that copies the file with the job's lease, and with it the lease's token, to the path in $0.
LEASES = 'cat "$SERVICE_JOB_WORKDIR/../run/lease.json" > "$0.new" && mv "$0.new" "$0"; exec sleep 600'


@good("renewLease")
def _renew(h: Harness) -> Good:
    place = Path(tempfile.mkdtemp()) / "lease"
    spec = job(h)
    spec["spec"]["source"] = {"command": ["sh", "-c", LEASES, str(place)]}
    h.post("/api/jobs", spec)
    until(place.exists)
    lease = json.loads(place.read_text())
    return Good(body={"work_id": lease["work_id"], "token": lease["token"]})


@good("trustRecipe")
def _trust(h: Harness) -> Good:
    newest = h.get("/api/recipes/demo/chat-tiny")
    path = {"namespace": "demo", "name": "chat-tiny", "version": newest["version"]}
    return Good(path=path, body={"digest": newest["digest"], "trusted": True})


GOOD["pauseJob"] = lambda h: Good(path={"job_id": training(h).job})


@good("ackSignal")
def _ack(h: Harness) -> Good:
    t = training(h)
    h.post(f"/api/jobs/{t.job}/pause")
    return Good(body={"run_id": t.run, "id": until(partial(signal, h, t))}, headers=t.token)


@good("resumeJob")
def _resume(h: Harness) -> Good:
    t = training(h)
    h.post(f"/api/jobs/{t.job}/pause")
    until(lambda: h.get(f"/api/jobs/{t.job}")["state"] == "paused")
    return Good(path={"job_id": t.job})

"""Requests that succeed, of what is kept beside datasets and models: environments, rubrics, solutions, shares and
playground sessions; and of jobs that are there already."""

from __future__ import annotations

import hashlib
import io
import tarfile
from typing import Any

from client import World
from good import GOOD, Good, body, good, job, until


def environment(w: World) -> str:
    return str(w.post("/api/environments", {"name": w.unique("e"), "project": w["project"]})["id"])


def uploaded(w: World, made: str, kind: str, data: bytes) -> dict[str, Any]:
    """An object of an environment, brought to where its address says."""
    said = {"sha256": hashlib.sha256(data).hexdigest(), "size_bytes": len(data)}
    target = w.post(f"/api/environments/{made}/upload-url", {"kind": kind} | said)
    if target.get("url"):
        path = str(target["url"]).removeprefix(w.url)
        w.ask(target["method"], path, "none", data, target["headers"]).raise_for_status()
    return said


def archive() -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        text = b"class Env: pass\n"
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


# Shares and sessions.
body("createShare", lambda w: {"kind": "job", "target_ids": [w["job"]]})
GOOD["revokeShare"] = lambda w: Good(path={"share_id": str(w.post("/api/shares", {"kind": "job", "target_ids": [w["job"]]})["id"])})
for _name in ("getShared", "getSharedConfig", "listSharedMetrics", "listSharedSamples"):
    GOOD[_name] = lambda w: Good(path={"token": str(w.post("/api/shares", {"kind": "job", "target_ids": [w["job"]], "fields": ["metrics", "config", "samples"]})["token"])})


# Jobs that are there.
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

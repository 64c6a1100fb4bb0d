"""Requests that succeed, for operations where the smallest body and the values of lists do not. One function an
operation: it makes what the request needs and gives what differs from the request that is made for every operation."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from client import World


@dataclass
class Good:
    """What a request that succeeds has: the rest is made as for all others."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    kind: str | None = None
    #: A whole address instead of the operation's path.
    url: str | None = None


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


def user(w: World) -> dict[str, Any]:
    made = w.post("/api/admin/users", {"username": w.unique("u"), "role": "operator", "password": "a long enough one"}, "admin")
    return dict(made["user"])


def team(w: World) -> str:
    return str(w.post("/api/teams", {"key": w.unique("t"), "name": "T"}, "admin")["id"])


def project(w: World) -> str:
    return str(w.post("/api/projects", {"key": w.unique("p"), "name": "P"})["id"])


def dataset(w: World) -> str:
    return str(w.post("/api/datasets", {"name": w.unique("d"), "project": w["project"], "format": "jsonl"})["id"])


LINE = b'{"question": "1+1?"}\n'


def manifest(data: bytes, version: str = "v1") -> dict[str, Any]:
    return {"version": version, "files": [{"path": "a.jsonl", "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}]}


def pushed(w: World, commit: bool = True) -> str:
    """A dataset whose version v1 is uploaded."""
    made = dataset(w)
    for target in w.post(f"/api/datasets/{made}/versions", manifest(LINE))["uploads"]:
        path = target["url"].removeprefix(w.url)
        w.ask(target["method"], path, "none", LINE, target["headers"]).raise_for_status()
    if commit:
        w.post(f"/api/datasets/{made}/versions/v1/commit")
    return made


def model(w: World) -> str:
    return str(w.post("/api/models", {"name": w.unique("m"), "project": w["project"]})["id"])


def version(w: World) -> str:
    made = model(w)
    w.post(f"/api/models/{made}/versions", {"source": {"run_id": w["run"], "artifact_id": w["artifact"]}})
    return made


def deployment(w: World) -> str:
    return str(w.post("/api/model-deployments", {"name": w.unique("dp"), "project": w["project"]})["id"])


def code(w: World) -> dict[str, Any]:
    return dict(w.post("/api/cli/device/code", {}, "none"))


# Signing in.
body("login", lambda w: {"username": "vera", "password": "a good password of vera"})


@good("refresh")
def _refresh(w: World) -> Good:
    answer = w.ask("POST", "/api/auth/login", "none", {"username": "stan", "password": "a good password of stan"})
    return Good(headers={"Cookie": answer.headers["Set-Cookie"].split(";")[0]}, kind="none")


@good("pollDeviceToken")
def _poll(w: World) -> Good:
    made = code(w)
    w.post("/api/cli/device/requests/" + made["user_code"], {"decision": "approve"})
    return Good(body={"device_code": made["device_code"]})


@good("getDeviceRequest")
def _asked(w: World) -> Good:
    return Good(path={"user_code": code(w)["user_code"]})


@good("decideDeviceRequest")
def _decide(w: World) -> Good:
    return Good(path={"user_code": code(w)["user_code"]}, body={"decision": "deny"})


# People.
body("createUser", lambda w: {"username": w.unique("u"), "role": "operator"})
body("createTeam", lambda w: {"key": w.unique("t"), "name": "T"})
body("createProject", lambda w: {"key": w.unique("p"), "name": "P"})
for _name in ("updateUser", "resetPassword", "listOwned", "getUser"):
    GOOD[_name] = lambda w: Good(path={"user_id": user(w)["id"]}, body=None)
for _name in ("updateTeam", "deleteTeam"):
    GOOD[_name] = lambda w: Good(path={"team_id": team(w)}, kind="admin")
for _name in ("updateProject",):
    GOOD[_name] = lambda w: Good(path={"project_id": project(w)})
GOOD["listProjectMembers"] = GOOD["getProject"] = lambda w: Good(path={"project_id": project(w)})
GOOD["putProjectMember"] = lambda w: Good(path={"project_id": project(w), "username": "vera"}, body={"role": "viewer"})
GOOD["putTeamMember"] = lambda w: Good(path={"team_id": team(w), "username": "vera"}, body={"role": "member"}, kind="admin")
GOOD["getTeam"] = lambda w: Good(path={"team_id": team(w)}, kind="admin")


@good("removeProjectMember")
def _leave(w: World) -> Good:
    made = project(w)
    w.ask("PUT", f"/api/projects/{made}/members/vera", "operator", {"role": "viewer"}).raise_for_status()
    return Good(path={"project_id": made, "username": "vera"})


@good("removeTeamMember")
def _quit(w: World) -> Good:
    made = team(w)
    w.ask("PUT", f"/api/teams/{made}/members/vera", "admin", {"role": "member"}).raise_for_status()
    return Good(path={"team_id": made, "username": "vera"}, kind="admin")


@good("transferOwned")
def _transfer(w: World) -> Good:
    gone, kept = user(w)["id"], user(w)["id"]
    w.ask("PATCH", "/api/admin/users/" + gone, "admin", {"disabled": True}).raise_for_status()
    return Good(path={"user_id": gone}, body={"to_user_id": kept})


@good("changePassword")
def _password(w: World) -> Good:
    made, old = user(w), "a long enough one"
    token = w.post("/api/auth/login", {"username": made["username"], "password": old}, "none")["token"]
    return Good(body={"current_password": old, "new_password": "another long one"}, headers={"Authorization": "Bearer " + token})


@good("revokeSession")
def _revoke_session(w: World) -> Good:
    w.post("/api/auth/login", {"username": "ada", "password": "a good password of ada"}, "none")
    return Good(path={"session_id": next(s["id"] for s in w.get("/api/profile/sessions") if not s["current"])})


@good("logout")
def _logout(w: World) -> Good:
    token = w.post("/api/auth/login", {"username": "stan", "password": "a good password of stan"}, "none")["token"]
    return Good(headers={"Authorization": "Bearer " + token})


GOOD["revokeOtherSessions"] = GOOD["logout"]


@good("putSetting")
def _setting(w: World) -> Good:
    row = next(s for s in w.get("/api/admin/settings", "admin") if "announcement" in s["key"])
    return Good(path={"key": row["key"]}, body={"value": "hello", "version": row["version"]})


GOOD["getSetting"] = GOOD["listSettingVersions"] = lambda w: Good(
    path={"key": next(s["key"] for s in w.get("/api/admin/settings", "admin") if "announcement" in s["key"])}
)
body("rotateKey", lambda w: {"purpose": "caller", "revoke": False})


@good("decideAuthorization")
def _authorize(w: World) -> Good:
    return Good(body={
        "response_type": "code", "client_id": "signalbox-mcp", "redirect_uri": "http://127.0.0.1:1/callback", "code_challenge": "a" * 43,
        "code_challenge_method": "S256", "resource": w.url + "/api/mcp", "approve": False,
    })


# Jobs and runs.
body("submitJob", job)


@good("stopJob")
def _stop(w: World) -> Good:
    return Good(path={"job_id": w.post("/api/jobs", job(w))["id"]})


body("createFleet", lambda w: {"name": w.unique("f"), "kind": "agent", "pools": [w.unique("pool")]})

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
report("ackSignal", id="1")
GOOD["getWatermark"] = lambda w: Good(query={"run_id": w["live_run"]})
GOOD["awaitSignal"] = lambda w: Good(query={"run_id": w["live_run"], "wait": "0"})


def ticket(w: World) -> tuple[dict[str, Any], bytes, str]:
    data = w.unique().encode()
    digest = hashlib.sha256(data).hexdigest()
    query = {"run_id": w["live_run"], "kind": "eval_report", "path": "report.json", "size_bytes": str(len(data)), "sha256": digest}
    answer = w.ask("GET", "/api/ingest/artifact/upload-url", "ingest", params=query)
    answer.raise_for_status()
    return answer.json(), data, digest


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


# Models and deployments.
body("createModel", lambda w: {"name": w.unique("m"), "project": w["project"]})
GOOD["createModelVersion"] = lambda w: Good(path={"model_id": model(w)}, body={"source": {"run_id": w["run"], "artifact_id": w["artifact"]}})
for _name in ("promoteModelVersion", "archiveModelVersion"):
    GOOD[_name] = lambda w: Good(path={"model_id": version(w), "version": "1"})
GOOD["putModelCard"] = lambda w: Good(path={"model_id": version(w), "version": "1"}, body={"content": "# Card\n"})
GOOD["deleteModel"] = lambda w: Good(path={"model_id": model(w)})
GOOD["updateModel"] = lambda w: Good(path={"model_id": model(w)}, body={"description": "d"})
GOOD["setModelAlias"] = lambda w: Good(path={"model_id": version(w), "alias": "best"}, body={"version": 1})


@good("deleteModelAlias")
def _unalias(w: World) -> Good:
    made = version(w)
    w.ask("PUT", f"/api/models/{made}/aliases/best", "operator", {"version": 1}).raise_for_status()
    return Good(path={"model_id": made, "alias": "best"})


@good("getModelCard")
def _card(w: World) -> Good:
    made = version(w)
    w.ask("PUT", f"/api/models/{made}/versions/1/card", "operator", {"content": "# Card\n"}).raise_for_status()
    return Good(path={"model_id": made, "version": "1"})


@good("unarchiveModelVersion")
def _unarchive(w: World) -> Good:
    made = version(w)
    w.post(f"/api/models/{made}/versions/1/archive", {})
    return Good(path={"model_id": made, "version": "1"})


body("createDeployment", lambda w: {"name": w.unique("dp"), "project": w["project"]})
for _name in ("deleteDeployment", "updateDeployment", "suspendDeployment"):
    GOOD[_name] = lambda w: Good(path={"deployment_id": deployment(w)})


@good("resumeDeployment")
def _resume(w: World) -> Good:
    made = deployment(w)
    w.post(f"/api/model-deployments/{made}/suspend", {})
    return Good(path={"deployment_id": made})


GOOD["createDeploymentToken"] = lambda w: Good(path={"deployment_id": deployment(w)}, body={"name": "t"})


@good("revokeDeploymentToken")
def _revoke(w: World) -> Good:
    made = deployment(w)
    token = w.post(f"/api/model-deployments/{made}/tokens", {"name": "t"})
    return Good(path={"deployment_id": made, "token_id": token["id"]})


def revision(w: World, deployed: str) -> str:
    made = w.post(f"/api/model-deployments/{deployed}/revisions", {
        "source": {"model_id": w["model"], "version": 1}, "serving": {"engine": "command", "command": json.loads(w["engine"])},
    })
    return str(made["number"])


@good("createRevision")
def _revise(w: World) -> Good:
    return Good(path={"deployment_id": deployment(w)}, body={
        "source": {"model_id": w["model"], "version": 1}, "serving": {"engine": "command", "command": ["false"]},
    })


@good("stopRevision")
def _stop_revision(w: World) -> Good:
    made = deployment(w)
    return Good(path={"deployment_id": made, "number": revision(w, made)})


@good("startRevision")
def _start_revision(w: World) -> Good:
    made = deployment(w)
    number = revision(w, made)
    w.post(f"/api/model-deployments/{made}/revisions/{number}/stop")
    return Good(path={"deployment_id": made, "number": number})


def ready(w: World, deployed: str, number: str) -> bool:
    return bool(w.get(f"/api/model-deployments/{deployed}/revisions/{number}")["ready"])


@good("rollbackDeployment")
def _rollback(w: World) -> Good:
    made = deployment(w)
    for _ in range(2):
        number = revision(w, made)
        until(partial(ready, w, made, number))
        w.post(f"/api/model-deployments/{made}/revisions/{number}/promote")
    return Good(path={"deployment_id": made})


def until(holds: Callable[[], Any], patience: float = 120) -> Any:
    """Waits for what the product does by itself."""
    end = time.monotonic() + patience
    while not (found := holds()):
        if time.monotonic() > end:
            raise RuntimeError("it did not come true")
        time.sleep(0.1)
    return found


@good("getCall")
def _call(w: World) -> Good:
    deployed = w["deployment"]
    w.ask("GET", f"/inference/{deployed}/v1/models", "deployment").raise_for_status()
    rows = until(lambda: w.get(f"/api/model-deployments/{deployed}/traffic"))
    return Good(path={"deployment_id": deployed, "request_id": rows[0]["request_id"]})

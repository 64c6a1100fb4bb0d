"""Valid requests for models, deployments, calls, playground sessions and fleets."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from client import Harness
from good import GOOD, Good, body, good, until


def model(h: Harness) -> str:
    return str(h.post("/api/models", {"name": h.unique("m"), "project": h["project"]})["id"])


def version(h: Harness) -> str:
    made = model(h)
    h.post(f"/api/models/{made}/versions", {"source": {"run_id": h["run"], "artifact_id": h["artifact"]}})
    return made


def deployment(h: Harness) -> str:
    return str(h.post("/api/model-deployments", {"name": h.unique("dp"), "project": h["project"]})["id"])


# Models and deployments.
body("createModel", lambda h: {"name": h.unique("m"), "project": h["project"]})
GOOD["createModelVersion"] = lambda h: Good(path={"model_id": model(h)}, body={"source": {"run_id": h["run"], "artifact_id": h["artifact"]}})
GOOD["signModelUploads"] = lambda h: Good(
    path={"model_id": model(h)}, body={"files": [{"path": "model.gguf", "size_bytes": 1, "sha256": "e3" * 32}]}
)
for _name in ("promoteModelVersion", "archiveModelVersion"):
    GOOD[_name] = lambda h: Good(path={"model_id": version(h), "version": "1"})
GOOD["putModelCard"] = lambda h: Good(path={"model_id": version(h), "version": "1"}, body={"content": "# Card\n"})
GOOD["deleteModel"] = lambda h: Good(path={"model_id": model(h)})
GOOD["updateModel"] = lambda h: Good(path={"model_id": model(h)}, body={"description": "d"})
GOOD["setModelAlias"] = lambda h: Good(path={"model_id": version(h), "alias": "best"}, body={"version": 1})


@good("deleteModelAlias")
def _unalias(h: Harness) -> Good:
    made = version(h)
    h.ask("PUT", f"/api/models/{made}/aliases/best", "operator", {"version": 1}).raise_for_status()
    return Good(path={"model_id": made, "alias": "best"})


@good("getModelCard")
def _card(h: Harness) -> Good:
    made = version(h)
    h.ask("PUT", f"/api/models/{made}/versions/1/card", "operator", {"content": "# Card\n"}).raise_for_status()
    return Good(path={"model_id": made, "version": "1"})


@good("unarchiveModelVersion")
def _unarchive(h: Harness) -> Good:
    made = version(h)
    h.post(f"/api/models/{made}/versions/1/archive", {})
    return Good(path={"model_id": made, "version": "1"})


body("createDeployment", lambda h: {"name": h.unique("dp"), "project": h["project"]})
for _name in ("deleteDeployment", "updateDeployment", "suspendDeployment"):
    GOOD[_name] = lambda h: Good(path={"deployment_id": deployment(h)})


@good("resumeDeployment")
def _resume(h: Harness) -> Good:
    made = deployment(h)
    h.post(f"/api/model-deployments/{made}/suspend", {})
    return Good(path={"deployment_id": made})


GOOD["createDeploymentToken"] = lambda h: Good(path={"deployment_id": deployment(h)}, body={"name": "t"})


@good("revokeDeploymentToken")
def _revoke(h: Harness) -> Good:
    made = deployment(h)
    token = h.post(f"/api/model-deployments/{made}/tokens", {"name": "t"})
    return Good(path={"deployment_id": made, "token_id": token["id"]})


def revision(h: Harness, deployed: str) -> str:
    made = h.post(f"/api/model-deployments/{deployed}/revisions", {
        "source": {"model_id": h["model"], "version": 1}, "serving": {"engine": "command", "command": json.loads(h["engine"])},
    })
    return str(made["number"])


@good("createRevision")
def _revise(h: Harness) -> Good:
    return Good(path={"deployment_id": deployment(h)}, body={
        "source": {"model_id": h["model"], "version": 1}, "serving": {"engine": "command", "command": ["false"]},
    })


@good("stopRevision")
def _stop_revision(h: Harness) -> Good:
    made = deployment(h)
    return Good(path={"deployment_id": made, "number": revision(h, made)})


@good("startRevision")
def _start_revision(h: Harness) -> Good:
    made = deployment(h)
    number = revision(h, made)
    h.post(f"/api/model-deployments/{made}/revisions/{number}/stop")
    return Good(path={"deployment_id": made, "number": number})


def ready(h: Harness, deployed: str, number: str) -> bool:
    return bool(h.get(f"/api/model-deployments/{deployed}/revisions/{number}")["ready"])


@good("rollbackDeployment")
def _rollback(h: Harness) -> Good:
    made = deployment(h)
    for _ in range(2):
        number = revision(h, made)
        until(partial(ready, h, made, number))
        h.post(f"/api/model-deployments/{made}/revisions/{number}/promote")
    return Good(path={"deployment_id": made})


@good("getCall")
def _call(h: Harness) -> Good:
    deployed = h["deployment"]
    h.ask("GET", f"/inference/{deployed}/v1/models", "deployment").raise_for_status()
    rows = until(lambda: h.get(f"/api/model-deployments/{deployed}/traffic"))
    return Good(path={"deployment_id": deployed, "request_id": rows[0]["request_id"]})


# Playground sessions. Only the session of the Harness has a running engine. The other sessions are in a pool without nodes.
def session(h: Harness) -> dict[str, Any]:
    return {"project": h["project"], "ttl_s": 900, "targets": [{
        "source": {"model_id": h["model"], "version": 1}, "serving": {"engine": "command", "command": ["false"], "pool": "nowhere"},
    }]}


body("createPlaygroundSession", session)
for _name in ("extendPlaygroundSession", "stopPlaygroundSession"):
    GOOD[_name] = lambda h: Good(path={"playground_id": h.post("/api/playground/sessions", session(h))["id"]})
for _name in ("get", "head", "options", "post", "put", "patch", "delete"):
    GOOD[_name + "Playground"] = lambda h: Good(path={"playground_id": h["session"], "target": "1", "rest": "models"})


# Fleets on which nothing runs.
def fleet(h: Harness) -> dict[str, Any]:
    return {"name": h.unique("f"), "kind": "agent", "pools": [h.unique("pool")]}


def founded(h: Harness) -> str:
    return str(h.post("/api/fleets", fleet(h), "admin")["id"])


body("createFleet", fleet)
for _name in ("updateFleet", "deleteFleet", "createJoinToken"):
    GOOD[_name] = lambda h: Good(path={"fleet_id": founded(h)})


@good("updatePool")
def _update_pool(h: Harness) -> Good:
    made = h.post("/api/fleets", fleet(h), "admin")
    return Good(path={"pool": made["pools"][0]}, body={"isolation": "none"})


@good("joinFleet")
def _join(h: Harness) -> Good:
    token = h.post(f"/api/fleets/{founded(h)}/join-tokens", {}, "admin")["token"]
    request = json.loads(f'"{h["certificate_request"]}"')
    return Good(body={"token": token, "hostname": h.unique("h"), "certificate_request": request})


@good("revokeJoinToken")
def _revoke_join(h: Harness) -> Good:
    made = founded(h)
    return Good(path={"fleet_id": made, "join_token_id": h.post(f"/api/fleets/{made}/join-tokens", {}, "admin")["id"]})

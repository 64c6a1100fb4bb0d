"""Valid requests for models, deployments, calls, playground sessions and fleets."""

from __future__ import annotations

import json
from functools import partial
from typing import Any

from client import World
from good import GOOD, Good, body, good, until


def model(w: World) -> str:
    return str(w.post("/api/models", {"name": w.unique("m"), "project": w["project"]})["id"])


def version(w: World) -> str:
    made = model(w)
    w.post(f"/api/models/{made}/versions", {"source": {"run_id": w["run"], "artifact_id": w["artifact"]}})
    return made


def deployment(w: World) -> str:
    return str(w.post("/api/model-deployments", {"name": w.unique("dp"), "project": w["project"]})["id"])


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


@good("getCall")
def _call(w: World) -> Good:
    deployed = w["deployment"]
    w.ask("GET", f"/inference/{deployed}/v1/models", "deployment").raise_for_status()
    rows = until(lambda: w.get(f"/api/model-deployments/{deployed}/traffic"))
    return Good(path={"deployment_id": deployed, "request_id": rows[0]["request_id"]})


# Playground sessions. Only the session of the World has a running engine. The other sessions are in a pool without nodes.
def session(w: World) -> dict[str, Any]:
    return {"project": w["project"], "ttl_s": 900, "targets": [{
        "source": {"model_id": w["model"], "version": 1}, "serving": {"engine": "command", "command": ["false"], "pool": "nowhere"},
    }]}


body("createPlaygroundSession", session)
for _name in ("extendPlaygroundSession", "stopPlaygroundSession"):
    GOOD[_name] = lambda w: Good(path={"playground_id": w.post("/api/playground/sessions", session(w))["id"]})
for _name in ("get", "head", "options", "post", "put", "patch", "delete"):
    GOOD[_name + "Playground"] = lambda w: Good(path={"playground_id": w["session"], "target": "1", "rest": "models"})


# Fleets on which nothing runs.
def fleet(w: World) -> dict[str, Any]:
    return {"name": w.unique("f"), "kind": "agent", "pools": [w.unique("pool")]}


def founded(w: World) -> str:
    return str(w.post("/api/fleets", fleet(w), "admin")["id"])


body("createFleet", fleet)
for _name in ("updateFleet", "deleteFleet", "createJoinToken"):
    GOOD[_name] = lambda w: Good(path={"fleet_id": founded(w)})


@good("joinFleet")
def _join(w: World) -> Good:
    token = w.post(f"/api/fleets/{founded(w)}/join-tokens", {}, "admin")["token"]
    request = json.loads(f'"{w["certificate_request"]}"')
    return Good(body={"token": token, "hostname": w.unique("h"), "certificate_request": request})


@good("revokeJoinToken")
def _revoke_join(w: World) -> Good:
    made = founded(w)
    return Good(path={"fleet_id": made, "join_token_id": w.post(f"/api/fleets/{made}/join-tokens", {}, "admin")["id"]})

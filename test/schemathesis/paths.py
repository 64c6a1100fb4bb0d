"""Values of path variables: fixed values, ids of the Harness, or values from the list at the path before the variable."""

from __future__ import annotations

from client import Harness

#: Fields of list items that may contain the value of a variable, if no field has the name of the variable.
COLUMNS = ("id", "version", "number", "username", "key", "name", "alias", "request_id")

#: Variables whose values are in the Harness.
KNOWN = {
    "job_id": "job", "run_id": "run", "dataset_id": "dataset", "model_id": "model", "deployment_id": "deployment", "number": "revision",
    "fleet_id": "fleet", "node_id": "node", "project_id": "project_id", "team_id": "team_id", "artifact_id": "artifact",
}

#: Fixed values.
FIXED = {"subject_kind": "users", "subject": "ada", "username": "vera", "namespace": "custom", "rest": "models", "key": "announcement"}


def value(harness: Harness, kind: str, before: str, name: str) -> str:
    """Return a value for the variable `name`. `before` is the path before the variable."""
    if before == "/api/jobs" or before == "/api/runs":
        return harness["job" if before == "/api/jobs" else "run"]
    if before.startswith("/api/recipes/"):
        return {"name": "custom", "version": harness["recipe_version"]}[name]
    if name in KNOWN:
        return harness[KNOWN[name]]
    if before.startswith("/api/datasets/") and name == "version":
        return harness["dataset_version"]
    if before.startswith("/api/models/") and name == "version":
        return harness["model_version"]
    if name in FIXED and not (name == "key" and before == "/api/admin/settings"):
        return FIXED[name]
    response = harness.ask("GET", before, kind)
    rows = response.json() if response.ok else []
    rows = rows.get("items", []) if isinstance(rows, dict) else rows
    for row in rows:
        for column in (name, *COLUMNS):
            if isinstance(row, dict) and row.get(column) not in (None, ""):
                return str(row[column])
    return harness.values.get(name.removesuffix("_id"), "none")


def fill(harness: Harness, kind: str, template: str) -> dict[str, str]:
    """Return values for all variables of a path template."""
    out: dict[str, str] = {}
    before = ""
    for segment in template.split("/")[1:]:
        if segment.startswith("{"):
            name = segment.strip("{}")
            out[name] = value(harness, kind, before, name)
            segment = out[name]
        before += "/" + segment
    return out

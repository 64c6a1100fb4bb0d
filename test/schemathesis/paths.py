"""Values of path variables: fixed values, ids of the World, or values from the list at the path before the variable."""

from __future__ import annotations

from client import World

#: Fields of list items that may contain the value of a variable, if no field has its name.
COLUMNS = ("id", "version", "number", "username", "key", "name", "alias", "request_id")

#: Variables whose values are in the World.
KNOWN = {
    "job_id": "job", "run_id": "run", "dataset_id": "dataset", "model_id": "model", "deployment_id": "deployment", "number": "revision",
    "fleet_id": "fleet", "node_id": "node", "project_id": "project_id", "team_id": "team_id",
}

#: Fixed values.
FIXED = {"subject_kind": "users", "subject": "ada", "username": "vera", "namespace": "custom", "rest": "models", "key": "announcement"}


def value(world: World, kind: str, before: str, name: str) -> str:
    """Return a value for the variable `name`. `before` is the path before the variable."""
    if before == "/api/jobs" or before == "/api/runs":
        return world["job" if before == "/api/jobs" else "run"]
    if before.startswith("/api/recipes/"):
        return {"name": "custom", "version": world["recipe_version"]}[name]
    if name in KNOWN:
        return world[KNOWN[name]]
    if before.startswith("/api/datasets/") and name == "version":
        return world["dataset_version"]
    if before.startswith("/api/models/") and name == "version":
        return world["model_version"]
    if name in FIXED and not (name == "key" and before == "/api/admin/settings"):
        return FIXED[name]
    response = world.ask("GET", before, kind)
    rows = response.json() if response.ok else []
    rows = rows.get("items", []) if isinstance(rows, dict) else rows
    for row in rows:
        for column in (name, *COLUMNS):
            if isinstance(row, dict) and row.get(column) not in (None, ""):
                return str(row[column])
    return world.values.get(name.removesuffix("_id"), "none")


def fill(world: World, kind: str, template: str) -> dict[str, str]:
    """Return values for all variables of a path template."""
    out: dict[str, str] = {}
    before = ""
    for segment in template.split("/")[1:]:
        if segment.startswith("{"):
            name = segment.strip("{}")
            out[name] = value(world, kind, before, name)
            segment = out[name]
        before += "/" + segment
    return out

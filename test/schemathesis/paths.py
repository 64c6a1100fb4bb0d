"""Real values for the variables of paths: what the list in front of a variable shows, else what the world has."""

from __future__ import annotations

from client import World

#: What a variable is called in the rows of a list, besides its own name.
COLUMNS = ("id", "version", "number", "username", "key", "name", "alias", "request_id")

#: Variables that no list shows.
KNOWN = {
    "job_id": "job", "run_id": "run", "dataset_id": "dataset", "model_id": "model", "deployment_id": "deployment", "number": "revision",
    "fleet_id": "fleet", "node_id": "node", "project_id": "project_id", "team_id": "team_id",
}

#: Values that are the same everywhere.
FIXED = {"subject_kind": "users", "subject": "ada", "username": "vera", "namespace": "custom", "rest": "models", "key": "announcement"}


def value(world: World, kind: str, before: str, name: str) -> str:
    """A value of the variable name behind the path before."""
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
    answer = world.ask("GET", before, kind)
    rows = answer.json() if answer.ok else []
    rows = rows.get("items", []) if isinstance(rows, dict) else rows
    for row in rows:
        for column in (name, *COLUMNS):
            if isinstance(row, dict) and row.get(column) not in (None, ""):
                return str(row[column])
    return world.values.get(name.removesuffix("_id"), "none")


def fill(world: World, kind: str, template: str) -> dict[str, str]:
    """Values for all variables of a path."""
    out: dict[str, str] = {}
    before = ""
    for segment in template.split("/")[1:]:
        if segment.startswith("{"):
            name = segment.strip("{}")
            out[name] = value(world, kind, before, name)
            segment = out[name]
        before += "/" + segment
    return out

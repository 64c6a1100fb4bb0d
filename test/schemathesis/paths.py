"""Values of path variables: those of the table of routes, or values from the list at the path before the variable."""

from __future__ import annotations

from client import Harness

#: Fields of list items that may contain the value of a variable, if no field has the name of the variable.
COLUMNS = ("id", "version", "number", "username", "key", "name", "alias", "request_id")


def listed(harness: Harness, kind: str, before: str, name: str) -> str:
    """Return a value for the variable `name` from the list at the path `before`."""
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
            out[name] = harness.paths.get(template, {}).get(name) or listed(harness, kind, before, name)
            segment = out[name]
        before += "/" + segment
    return out

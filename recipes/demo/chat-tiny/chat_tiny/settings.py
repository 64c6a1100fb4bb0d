"""Hyperparameters: the values that the user set, and the manifest's defaults for the others."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

MANIFEST = Path(__file__).resolve().parent.parent / "recipe.json"


class SettingsError(ValueError):
    """A hyperparameter is unknown or has a value that the manifest does not allow."""


def schema() -> dict[str, dict]:
    """Return the manifest's schema of each hyperparameter by its dotted name."""
    return json.loads(MANIFEST.read_text(encoding="utf-8"))["params_schema"]["properties"]


def resolve(given: Mapping[str, object]) -> dict[str, int | float]:
    """Return the values of all hyperparameters, given those that the user set.

    Raises SettingsError if one is unknown, of the wrong type or out of range.
    """
    known = schema()
    unknown = sorted(set(given) - set(known))
    if unknown:
        raise SettingsError(f"hparams: unknown {', '.join(unknown)}")
    return {name: _checked(name, given.get(name, rule["default"]), rule) for name, rule in known.items()}


def _checked(name: str, value: object, rule: dict) -> int | float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or (rule["type"] == "integer" and value != int(value)):
        raise SettingsError(f"hparams: {name} must be of type {rule['type']}, got {value!r}")
    low, high = rule.get("minimum", value), rule.get("maximum", value)
    if not low <= value <= high:
        raise SettingsError(f"hparams: {name} must be between {low} and {high}, got {value}")
    return int(value) if rule["type"] == "integer" else float(value)

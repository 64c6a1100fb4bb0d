"""Toy datasets that the tiny base learns in seconds."""

from __future__ import annotations

import json
from pathlib import Path

COLORS = ("red", "blue", "green", "black", "white", "brown", "pink", "gray", "gold", "teal")
THINGS = {"sky": "blue", "grass": "green", "snow": "white", "coal": "black"}


def colors() -> list[dict]:
    """Return 100 questions whose last digit decides the answer."""
    return [{"question": f"color {i}?", "answer": COLORS[i % 10]} for i in range(100)]


def preferences() -> list[dict]:
    """Return 80 pairs: the right color of a thing and one of the wrong ones."""
    found = list(THINGS.values())
    return [
        {"question": f"{thing} {i}?", "chosen": color, "rejected": found[(found.index(color) + 1 + i % 3) % 4]}
        for thing, color in THINGS.items()
        for i in range(20)
    ]


def guesses() -> list[dict]:
    """Return each of 80 questions with nine answers, three of them right, so that a model learns to guess."""
    found = []
    for thing, right in THINGS.items():
        for i in range(20):
            for color in THINGS.values():
                found += [{"question": f"{thing} {i}?", "answer": color}] * (3 if color == right else 2)
    return found


def things() -> list[dict]:
    """Return the 80 questions with the right answer."""
    return [{"question": f"{thing} {i}?", "answer": color} for thing, color in THINGS.items() for i in range(20)]


def write(folder: Path, rows: list[dict]) -> Path:
    """Write rows as a dataset and return its folder."""
    folder.mkdir(parents=True)
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return folder

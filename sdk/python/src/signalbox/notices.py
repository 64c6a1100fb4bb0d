"""Prints the messages of the SDK to stderr."""

from __future__ import annotations

import sys

from .errors import SignalboxError


def notice(words: object) -> None:
    """Print one line with one write.

    With PYTHONUNBUFFERED, print writes a text and the end of its line separately. What another thread or process writes in
    between would become part of the line.
    """
    print(f"signalbox: {words}\n", end="", file=sys.stderr, flush=True)


def say(err: BaseException) -> None:
    """Print an error, but a refusal only once: finish and, if the token was refused, each call returns it again."""
    if isinstance(err, SignalboxError):
        if err.said:
            return
        err.said = True
    notice(err)

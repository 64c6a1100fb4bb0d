"""Fork safety: every open outbox is locked during a fork and reset in the child."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Callable, List

if TYPE_CHECKING:
    from .outbox import Outbox

    Predicate = Callable[[], bool]

_open: "weakref.WeakSet[Outbox]" = weakref.WeakSet()
_turn = threading.Lock()  # held during a fork, because two threads may fork at once
_held: List["Outbox"] = []


def watch(outbox: Outbox) -> None:
    """Lock this outbox during each fork and reset it in the child, as long as the outbox exists."""
    _open.add(outbox)


def _before() -> None:
    _turn.acquire()
    _held.extend(_open)
    for outbox in _held:
        outbox.before_fork()


def _in_parent() -> None:
    while _held:
        _held.pop().after_fork_in_parent()
    _turn.release()


def _in_child() -> None:
    while _held:
        _held.pop().after_fork_in_child()
    _turn.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

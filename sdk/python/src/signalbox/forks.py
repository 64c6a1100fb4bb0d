"""Fork safety: every open outbox is locked during a fork and reset in the child, which also gets new locks."""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, Callable, List, Protocol

if TYPE_CHECKING:
    from .outbox import Outbox

    Predicate = Callable[[], bool]


class Renewed(Protocol):
    """Has a lock that another thread may hold during a fork. That thread does not exist in the child."""

    def after_fork_in_child(self) -> None:
        """Replace the lock, and what it guards if that may be incomplete."""


_renewed: "weakref.WeakSet[Renewed]" = weakref.WeakSet()
_open: "weakref.WeakSet[Outbox]" = weakref.WeakSet()
_turn = threading.Lock()  # held during a fork, because two threads may fork at once
_held: List["Outbox"] = []


def watch(outbox: Outbox) -> None:
    """Lock this outbox during each fork and reset it in the child, as long as the outbox exists."""
    _open.add(outbox)


def renew(thing: Renewed) -> None:
    """Call `thing.after_fork_in_child` in each forked child, as long as the thing exists."""
    _renewed.add(thing)


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
    for thing in list(_renewed):
        thing.after_fork_in_child()
    _turn.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)

"""Validation rounds: the four fields of a sample that the console shows; all other fields are in `extra`."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from .wire import encode, finite

SHOWN = ("user", "assistant", "env", "reward")


def sample(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return one sample. Unknown keys are moved to `extra` and merged with the caller's `extra`."""
    if not isinstance(given, Mapping):
        raise TypeError(f"a validation sample must be a mapping, got {type(given).__name__}")
    shaped: Dict[str, Any] = {k: finite(given[k]) for k in SHOWN if given.get(k) is not None}
    extra = dict(given.get("extra") or {})
    extra.update((k, v) for k, v in given.items() if k not in SHOWN and k != "extra")
    if extra:
        shaped["extra"] = finite(extra)
    return shaped


def chunks(
    step: int,
    samples: Sequence[Mapping[str, Any]],
    avg_reward: Optional[float],
    accuracy: Optional[float],
    limit: int,
) -> List[bytes]:
    """Return the requests of the round, each of at most about `limit` bytes. A sample is never split."""
    groups: List[List[bytes]] = [[]]
    size = 0
    for given in samples:
        encoded = encode(sample(given))
        if groups[-1] and size + len(encoded) > limit:
            groups.append([])
            size = 0
        groups[-1].append(encoded)
        size += len(encoded) + 1
    rest: Dict[str, Any] = {"total_chunks": len(groups)}
    for name, value in (("avg_reward", avg_reward), ("accuracy", accuracy)):
        if value is not None:
            rest[name] = finite(float(value))
    return [_chunk(step, index, group, rest) for index, group in enumerate(groups)]


def _chunk(step: int, index: int, group: List[bytes], rest: Mapping[str, Any]) -> bytes:
    tail = encode({"chunk_index": index, **rest})
    return b'{"step":%d,"samples":[%s],%s' % (step, b",".join(group), tail[1:])

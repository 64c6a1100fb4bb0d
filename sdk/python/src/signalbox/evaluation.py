"""Evaluations of agents: opaque task keys, and the split of rollouts into benchmark requests.

    key = signalbox.task_key(taskset_digest, task_id)
    run.rollouts("webshop", [{"task": key, "rollout": 0, "reward": 1.0, "turns": 7}], evaluation={...})

A rollout that ended because of an infrastructure error is {"task", "rollout", "error": class, "masked": True}.
It has no reward and is excluded from all statistics. The content of a task is never sent.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Mapping, Optional, Tuple

from .wire import encode, finite

MOST = 2000  # maximum number of rollouts in one request


def task_key(taskset_digest: str, task: str) -> str:
    """Return the key of a task. It is the same in every run of the taskset and reveals nothing about the task."""
    import hashlib
    import hmac

    if not taskset_digest:
        raise ValueError("taskset_digest is empty; the key of a task requires the digest of its taskset")
    return hmac.new(taskset_digest.encode(), task.encode(), hashlib.sha256).hexdigest()


def requests(
    name: str,
    rollouts: Iterable[Mapping[str, Any]],
    version: Optional[str],
    evaluation: Optional[Mapping[str, Any]],
    limit: int,
) -> List[Tuple[bytes, int]]:
    """Split a benchmark into payloads of up to MOST rollouts and about `limit` bytes. Return each with its number of points.

    The first payload contains the fields of the evaluation.
    """
    groups: List[List[bytes]] = [[]]
    size = 0
    for given in rollouts:
        encoded = encode(shaped(given))
        if groups[-1] and (size + len(encoded) > limit or len(groups[-1]) >= MOST):
            groups.append([])
            size = 0
        groups[-1].append(encoded)
        size += len(encoded) + 1
    made: List[Tuple[bytes, int]] = []
    for index, group in enumerate(groups):
        head: Dict[str, Any] = {"name": name}
        if version is not None:
            head["version"] = version
        if evaluation is not None and index == 0:
            head["evaluation"] = finite(evaluation)
        made.append((encode(head)[:-1] + b',"rollouts":[' + b",".join(group) + b"]}", 1))
    return made


def shaped(given: Mapping[str, Any]) -> Dict[str, Any]:
    """Return one rollout as a JSON object; None values are omitted."""
    if not isinstance(given, Mapping):
        raise TypeError(f"a rollout must be a mapping, got {type(given).__name__}")
    for name in ("task", "rollout"):
        if given.get(name) is None:
            raise ValueError(f"a rollout must have the field {name!r}")
    if given.get("masked"):
        if given.get("reward") is not None or not given.get("error"):
            raise ValueError("a masked rollout must have an error and no reward")
    elif given.get("reward") is None:
        raise ValueError("a rollout must have a reward, or an error and masked=True")
    return {str(k): finite(v) for k, v in given.items() if v is not None}

"""The size that a report may have. A larger one is refused in its call, because the control plane never accepts it.

The limits are those of the ingest routes, docs/reference/api.md; a test compares them. A proxy in front of the control
plane may have a lower one, so the sender also survives a refusal by size.
"""

from __future__ import annotations

import json
from typing import Any, Dict, List, Mapping, Sequence, Tuple

from .errors import IngestError
from .wire import encode

BULK_BYTES = 8 * 1024 * 1024  # of a request body of the streams in BULK
USUAL_BYTES = 1024 * 1024  # of a request body of the other streams
BULK = frozenset(("metrics", "validation", "hardware", "hparams", "benchmark"))
# Bytes of a body besides its report: run_id and the brackets.
HEAD = 512

# Lists whose members can be left out: a request without them is still complete.
PARTS: Mapping[str, str] = {"validation": "samples", "benchmark": "rollouts"}

Items = List[Tuple[bytes, int]]  # the JSON and the number of points of each report
Found = List[Tuple[str, int]]  # the names of values that are too large, and their sizes in bytes


def most(stream: str) -> int:
    """Return how many bytes a report of the stream may have."""
    return (BULK_BYTES if stream in BULK else USUAL_BYTES) - HEAD


def fit(stream: str, items: Sequence[Tuple[bytes, int]]) -> Tuple[Sequence[Tuple[bytes, int]], Found]:
    """Return the reports that can be sent, and the values that are too large.

    Hyperparameters are split, and samples and rollouts that are too large are left out.
    """
    limit = most(stream)
    if all(len(report) <= limit for report, _ in items):
        return items, []
    fitting: Items = []
    found: Found = []
    part, before = PARTS.get(stream, ""), 0
    for report, points in items:
        parts = json.loads(report).get(part) or [] if part else []
        if len(report) <= limit:
            fitting.append((report, points))
        elif stream == "hparams":
            fitting += _split(json.loads(report)["params"], limit, found)
        elif parts:
            fitting += _without(report, part, before, limit, found)
        else:
            found.append(_largest(report))
        before += len(parts)
    return fitting, found


def refusal(stream: str, found: Found) -> IngestError:
    """Return the error for values that are too large."""
    named = ", ".join(f"{name} has {size:,} bytes" for name, size in found[:10])
    more = f" and {len(found) - 10} more" if len(found) > 10 else ""
    return IngestError(stream, 413, f"{named}{more}; a report may have at most {most(stream):,} bytes, so this was not sent")


def _split(params: Mapping[str, Any], limit: int, found: Found) -> Items:
    """Split hyperparameters into several reports, which the control plane merges."""
    groups: List[Dict[str, Any]] = [{}]
    room = limit = limit - len(b'{"params":{}}')
    for key, value in params.items():
        size = len(encode({key: value}))
        if size > limit:
            found.append((f"params.{key}", size))
            continue
        if size > room:
            groups.append({})
            room = limit
        groups[-1][key] = value
        room -= size
    return [(encode({"params": group}), 1) for group in groups if group]


def _without(report: bytes, part: str, before: int, limit: int, found: Found) -> Items:
    """Leave out the members of a list that are too large. `before` is the number of members in earlier reports."""
    whole: Dict[str, Any] = json.loads(report)
    kept = []
    for index, member in enumerate(whole[part], before):
        encoded = encode(member)
        if len(encoded) > limit - HEAD:
            name, size = _largest(encoded)
            found.append((f"{part}.{index}.{name}", size))
        else:
            kept.append(member)
    rest = encode({**whole, part: kept})
    if len(rest) > limit:
        found.append(_largest(rest))
        return []
    return [(rest, 1)]


def _largest(report: bytes) -> Tuple[str, int]:
    """Return the name of the largest value in a report, such as packages.numpy, and its size in bytes."""
    value: Any = json.loads(b"[" + report + b"]")  # a report of metrics is a list of points without brackets
    value = value[0] if len(value) == 1 else value
    name: List[str] = []
    while isinstance(value, (dict, list)) and value:
        members = value.items() if isinstance(value, dict) else enumerate(value)
        key, inner = max(members, key=lambda member: len(encode(member[1])))
        if name and len(encode(inner)) < len(encode(value)) // 2:
            break  # no single member is to blame
        name.append(str(key))
        value = inner
    return ".".join(name), len(encode(value))

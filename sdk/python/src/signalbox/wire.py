"""The wire format: streams, request bodies, numbers and times as JSON."""

from __future__ import annotations

import json
import math
from datetime import datetime, timezone
from typing import Any, Dict, List, Mapping, Sequence

STREAMS = (
    "lifecycle",
    "metrics",
    "hparams",
    "validation",
    "logs",
    "artifact",
    "hardware",
    "environment",
    "environment_nodes",
    "benchmark",
)
# Routes of streams whose route has a different name.
ROUTES: Mapping[str, str] = {"environment_nodes": "environment/nodes"}
# Streams whose records share a request, and the field that contains them.
LISTS: Mapping[str, str] = {"metrics": "points", "logs": "chunks", "hardware": "points"}
# A report of these streams is sent only after all earlier reports are settled, except those of a failing log stream.
BARRIERS = frozenset(("lifecycle", "artifact"))
EVENTS = ("starting", "running", "succeeded", "failed")
KINDS = ("checkpoint", "hf_export", "eval_report", "merged_model")


def now() -> str:
    """Return the current time as ISO 8601 in UTC, with microseconds and offset."""
    return datetime.now(timezone.utc).isoformat(timespec="microseconds")


def number(value: float) -> Any:
    """Return a number for JSON: NaN and the infinities become strings."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(value: Any) -> bytes:
    """Return compact UTF-8 JSON on one line; a lone surrogate stays escaped."""
    return _json(value).encode("utf-8", "backslashreplace")


def point(key: str, step: int, value: float, ts: str) -> bytes:
    """Return a metric point as JSON. It is called for every metric of every step, so it must be fast."""
    return encode({"key": key, "step": step, "value": number(value), "ts": ts})


def finite(value: Any) -> Any:
    """Return a JSON value with non-finite floats replaced by strings."""
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return {str(k): finite(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(v) for v in value]
    if value is None or isinstance(value, (str, int)):
        return value
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "shape", ()) == ():
        return finite(item())
    listed = getattr(value, "tolist", None)
    return finite(listed()) if callable(listed) else str(value)


def body(run_id: str, stream: str, fragments: Sequence[bytes], rank: int = 0) -> bytes:
    """Return the body of one request. The same fragments and rank always give the same bytes."""
    head = b'{"run_id":' + encode(run_id) + b","
    if rank > 0:
        head += b'"rank":%d,' % rank
    field = LISTS.get(stream)
    if field is None:
        (only,) = fragments
        return head + only[1:]
    return head + encode(field) + b":[" + b",".join(fragments) + b"]}"


def detail(raw: bytes) -> str:
    """Return the `detail` of an error response as text. In a 422 it is an array."""
    try:
        found: Any = json.loads(raw.decode("utf-8", "replace"))
    except ValueError:
        return raw[:200].decode("utf-8", "replace")
    entries = found.get("detail") if isinstance(found, Dict) else None
    if isinstance(entries, List):
        return "; ".join(_entry(e) for e in entries[:10])
    return str(entries if entries is not None else found)


def code(raw: bytes) -> str:
    """Return the `code` of an error response, or "" if it has none."""
    try:
        found: Any = json.loads(raw.decode("utf-8", "replace"))
    except ValueError:
        return ""
    return str(found.get("code", "")) if isinstance(found, Dict) else ""


def _entry(entry: Any) -> str:
    if not isinstance(entry, Dict):
        return str(entry)
    where = ".".join(str(part) for part in entry.get("loc", ()))
    return f"{where}: {entry.get('msg', '')}"

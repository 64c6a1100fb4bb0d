"""Convert nested metrics and configurations to flat Python values. Values may have types of other libraries."""

from __future__ import annotations

import enum
import operator
import re
from typing import Any, Dict, Iterator, List, Mapping, Tuple, Union

from .wire import finite

Scalar = Union[int, float]
MAX_KEY = 256
_INT64 = 1 << 63
_LARGE = 1 << 1023  # integers of this size are near the limit of a float
_PLAIN = (float, int, str, bool)
_LONE = re.compile("[\ud800-\udfff]")


def metrics(values: Mapping[str, Any]) -> List[Tuple[str, Scalar]]:
    """Convert {"a": {"b": 1}} to [("a.b", 1)]. Raises TypeError if a value is not a single number."""
    if not isinstance(values, Mapping):
        raise TypeError(f"log() requires a mapping of names to numbers, got {type(values).__name__}")
    flat: Dict[str, Scalar] = {}
    for key, value in _leaves(values, ""):
        _check_key(key, flat)
        flat[key] = scalar(key, value)
    return list(flat.items())


def scalar(key: str, value: Any) -> Scalar:
    """Convert a number or a 0-d tensor to a Python number. Raises TypeError for other values."""
    if type(value) is float:
        return value
    if isinstance(value, (int, float)):
        return _number(key, value)
    if isinstance(value, (str, bytes)) or value is None:
        raise TypeError(f"metric {key!r} is not a number: {value!r}")
    shape = getattr(value, "shape", ())
    if tuple(shape) != ():
        raise TypeError(f"metric {key!r} has shape {tuple(shape)}; reduce it to one number first")
    item = getattr(value, "item", None)
    plain = item() if callable(item) else value
    try:
        return _number(key, plain if isinstance(plain, (int, float)) else float(plain))
    except (TypeError, ValueError) as err:
        raise TypeError(f"metric {key!r} is not a number: {type(value).__name__}") from err


def _number(key: str, value: Scalar) -> Scalar:
    if isinstance(value, float):
        return float(value)
    whole = int(value)
    try:
        float(whole)
    except OverflowError:
        raise ValueError(f"metric {key!r} is too large for a float") from None
    return whole


def step_of(step: Any) -> int:
    """Return a training step as an int. Raises TypeError for a bool or float, ValueError beyond 64 bits."""
    if isinstance(step, bool):
        raise TypeError("step must be an integer, not a bool")
    whole = operator.index(step)
    if not -_INT64 <= whole < _INT64:
        raise ValueError(f"step must be from {-_INT64} to {_INT64 - 1}; it is {whole}")
    return whole


def params(config: Any) -> Dict[str, Any]:
    """Return a configuration (dict, dataclass, Namespace, OmegaConf-like) with dot-joined keys."""
    root = _mapping(config)
    if root is None:
        raise TypeError(f"hparams() requires a mapping-like configuration, got {type(config).__name__}")
    flat: Dict[str, Any] = {}
    for key, value in _leaves(root, ""):
        _check_key(key, flat)
        flat[key] = _param(value)
    return flat


def _leaves(values: Mapping[Any, Any], prefix: str) -> Iterator[Tuple[str, Any]]:
    for name, value in values.items():
        key = f"{prefix}{name}"
        if type(value) in _PLAIN:
            yield key, value
            continue
        inner = _mapping(value)
        if inner:
            yield from _leaves(inner, key + ".")
        elif inner is not None:
            continue
        elif isinstance(value, (list, tuple)) and any(_mapping(v) is not None for v in value):
            yield from _leaves(dict(enumerate(value)), key + ".")
        else:
            yield key, value


def _mapping(value: Any) -> Any:
    """Return a mapping-like value as a mapping. Return None for other values."""
    if isinstance(value, Mapping):
        return value
    if isinstance(value, type) or value is None:
        return None
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        return {name: getattr(value, name) for name in fields}
    if type(value).__name__ in ("Namespace", "SimpleNamespace"):
        return vars(value)
    if callable(getattr(value, "items", None)) and callable(getattr(value, "keys", None)):
        return dict(value.items())
    return None


def _param(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (set, frozenset)):
        return sorted((_storable(finite(v)) for v in value), key=str)
    if callable(value):
        return getattr(value, "__qualname__", None) or str(value)
    return _storable(finite(value))


def _storable(value: Any) -> Any:
    """Return a JSON value in which a lone surrogate is U+FFFD, and an integer that is too large for a float is a string.

    The control plane refuses both, and with one value the whole report.
    """
    if isinstance(value, str):
        return value if value.isascii() else _LONE.sub("\ufffd", value)
    if isinstance(value, int):
        return value if -_LARGE < value < _LARGE else str(value)
    if isinstance(value, list):
        return [_storable(v) for v in value]
    if isinstance(value, dict):
        return {_storable(k): _storable(v) for k, v in value.items()}
    return value


def _check_key(key: str, seen: Mapping[str, Any]) -> None:
    if not key or len(key) > MAX_KEY or "\x00" in key:
        raise ValueError(f"a key must have 1 to {MAX_KEY} characters and no NUL: {key[:80]!r}")
    if not key.isascii() and _LONE.search(key):
        raise ValueError(f"a key must not contain a lone surrogate, as in a file name that is not UTF-8: {key[:80]!r}")
    if key in seen:
        raise ValueError(f"two values have the same key {key!r} after flattening")

"""Flattening and scalars: valid values are kept exactly, invalid ones raise."""

from __future__ import annotations

import argparse
import enum
import json
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Dict

import pytest
from hypothesis import given
from hypothesis import strategies as st
from signalbox import flatten
from signalbox.wire import encode, finite, number, point


class Tensor:
    """A tensor with the interface that frameworks have."""

    def __init__(self, value: Any, shape: Any = ()) -> None:
        self.value, self.shape = value, shape

    def item(self) -> Any:
        if self.shape != ():
            raise RuntimeError("a Tensor with 4 elements cannot be converted to Scalar")
        return self.value


class Conf:
    """An OmegaConf-like object: it has keys and items but is not a Mapping."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def keys(self) -> Any:
        return self.values.keys()

    def items(self) -> Any:
        return self.values.items()


@dataclass
class Optim:
    lr: float = 0.1
    betas: Any = (0.9, 0.99)


@dataclass
class Config:
    optim: Optim = field(default_factory=Optim)
    name: str = "a"


def test_nested_metrics_are_joined_by_dots() -> None:
    flat = flatten.metrics({"a": {"b": 1, "c": {"d": 2.5}}, "train/loss": 3})
    assert flat == [("a.b", 1), ("a.c.d", 2.5), ("train/loss", 3)]


@pytest.mark.parametrize(
    ("value", "want"),
    [
        (True, 1),
        (7, 7),
        (Tensor(0.5), 0.5),
        (Tensor(3), 3),
        (Tensor(math.inf), math.inf),
        (2**60, 2**60),
    ],
)
def test_scalar_returns_python_number(value: Any, want: Any) -> None:
    assert flatten.scalar("k", value) == want


@pytest.mark.parametrize(
    "value",
    ["0.5", "NaN", b"1", None, [1], (1, 2), {1}, object(), Tensor(0, (4,)), Tensor(0, (1,)), Tensor("x")],
)
def test_non_scalar_is_type_error(value: Any) -> None:
    with pytest.raises(TypeError, match="'loss'"):
        flatten.metrics({"loss": value})


@pytest.mark.parametrize("values", [[("a", 1)], 5, None, "a"])
def test_metrics_take_a_mapping(values: Any) -> None:
    with pytest.raises(TypeError, match="mapping"):
        flatten.metrics(values)


@pytest.mark.parametrize(
    "values", [{"": 1}, {"k" * 257: 1}, {"a\x00b": 1}, {"a.b": 1, "a": {"b": 2}}, {"a": 10**400}, {"\u00e9/\udcff": 1}, {"\ud800": 1}]
)
def test_invalid_keys_and_values_raise(values: Any) -> None:
    with pytest.raises(ValueError):
        flatten.metrics(values)


@pytest.mark.parametrize("step", [1.0, "1", None, True])
def test_step_must_be_integer(step: Any) -> None:
    with pytest.raises(TypeError):
        flatten.step_of(step)


def test_step_must_fit_64_bits() -> None:
    assert flatten.step_of(2**63 - 1) == 2**63 - 1
    with pytest.raises(ValueError, match="from -9223372036854775808 to 9223372036854775807"):
        flatten.step_of(2**63)


class Mode(enum.Enum):
    FAST = 1


@pytest.mark.parametrize(
    "config",
    [
        {"optim": {"lr": 0.1, "betas": [0.9, 0.99]}, "name": "a"},
        Config(),
        argparse.Namespace(optim=Optim(), name="a"),
        SimpleNamespace(optim=SimpleNamespace(lr=0.1, betas=(0.9, 0.99)), name="a"),
        Conf(optim=Conf(lr=0.1, betas=[0.9, 0.99]), name="a"),
        OrderedDict(optim=OrderedDict(lr=Tensor(0.1), betas=[0.9, 0.99]), name="a"),
    ],
)
def test_all_types_of_configurations_are_flattened(config: Any) -> None:
    assert flatten.params(config) == {"optim.lr": 0.1, "optim.betas": [0.9, 0.99], "name": "a"}


def test_special_values_of_a_configuration() -> None:
    flat = flatten.params(
        {
            "mode": Mode.FAST,
            "path": Path("/x"),
            "none": None,
            "nan": math.nan,
            "fn": test_step_must_fit_64_bits,
            "set": {"b", "a"},
            "layers": [{"n": 1}, {"n": 2}],
            "empty": {},
        }
    )
    assert flat == {
        "mode": "FAST",
        "path": "/x",
        "none": None,
        "nan": "NaN",
        "fn": "test_step_must_fit_64_bits",
        "set": ["a", "b"],
        "layers.0.n": 1,
        "layers.1.n": 2,
    }


def test_values_that_cannot_be_stored_are_converted() -> None:
    """The control plane refuses a whole report because of such a value."""
    given = {"dir": Path("/\u00e9/\udcff"), "seed": -(10**400), "in": [["\ud800", {"\udcff": "b"}]], "n": 2**64, "on": True}
    flat = flatten.params(given)
    assert flat == {
        "dir": "/\u00e9/\ufffd",
        "seed": str(-(10**400)),
        "in": [["\ufffd", {"\ufffd": "b"}]],
        "n": 2**64,
        "on": True,
    }
    with pytest.raises(ValueError, match="lone surrogate"):
        flatten.params({"\udcff": 1})


@pytest.mark.parametrize("config", [5, "lr=1", None, [1]])
def test_configuration_must_be_mapping_like(config: Any) -> None:
    with pytest.raises(TypeError):
        flatten.params(config)


@given(st.floats())
def test_every_float_survives_the_wire(value: float) -> None:
    sent = json.loads(point("k", 3, value, "t"), parse_constant=_bare)["value"]
    back = float(sent)
    assert back == value or (math.isnan(back) and math.isnan(value))
    assert isinstance(sent, str) == (not math.isfinite(value))


def _bare(token: str) -> None:
    raise AssertionError(f"{token} is not valid JSON")


TREES = st.recursive(
    st.integers(-(2**53), 2**53),
    lambda leaf: st.dictionaries(st.text("abc", min_size=1, max_size=3), leaf, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text("xyz", min_size=1, max_size=3), TREES, max_size=4))
def test_flattening_keeps_every_leaf(tree: Dict[str, Any]) -> None:
    flat = dict(flatten.metrics(tree))
    rebuilt: Dict[str, Any] = {}
    for key, value in flat.items():
        *path, last = key.split(".")
        here = rebuilt
        for name in path:
            here = here.setdefault(name, {})
        here[last] = value
    assert rebuilt == _pruned(tree)


def _pruned(tree: Any) -> Any:
    if not isinstance(tree, dict):
        return tree
    inner = {k: _pruned(v) for k, v in tree.items()}
    return {k: v for k, v in inner.items() if v != {}}


JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=10,
)


@given(JSONS)
def test_encode_is_one_line_of_strict_json(value: Any) -> None:
    line = encode(finite(value))
    assert b"\n" not in line
    json.loads(line, parse_constant=_bare)


def test_lone_surrogate_stays_escaped() -> None:
    assert encode("a\ud800") == b'"a\\ud800"'


def test_non_finite_numbers_are_encoded_as_strings() -> None:
    assert [number(x) for x in (math.nan, math.inf, -math.inf, 1.5)] == [
        "NaN",
        "Infinity",
        "-Infinity",
        1.5,
    ]

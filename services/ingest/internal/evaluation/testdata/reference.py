"""Compute the reference values for the tests of the evaluation package with numpy, by independent methods.

    python reference.py            print the values
    python reference.py --check    compare them with reference.json in the folder of this file
"""

import json
import math
import sys
from itertools import combinations
from pathlib import Path

import numpy as np


def student(p: float, freedom: float) -> float:
    """Return the p-quantile of Student's t distribution.

    The quantile is found by bisection on the integral of the density, which is computed by Simpson's rule.
    """
    norm = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)

    def above(t: float) -> float:
        # The substitution x = tan(a) maps the long tail to a bounded interval.
        angles = np.linspace(0.0, math.atan(t), 2_001)
        x = np.tan(angles)
        density = norm * (1 + x * x / freedom) ** (-(freedom + 1) / 2) * (1 + x * x)
        weighted = density[0] + density[-1] + 4 * density[1:-1:2].sum() + 2 * density[2:-1:2].sum()
        return 0.5 + float(weighted * angles[1] / 3)

    low, high = 0.0, 20.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if above(middle) < p else (low, middle)
    return (low + high) / 2


def case(values):
    data = np.array(values)
    stderr = float(data.std(ddof=1) / math.sqrt(len(data)))
    half = student(0.975, len(data) - 1) * stderr
    p10, p50, p90 = (float(v) for v in np.percentile(data, [10, 50, 90]))
    counts, edges = np.histogram(data, bins=10)
    mean = float(data.mean())
    return {
        "Values": values, "Mean": mean, "Stderr": stderr, "Low": mean - half, "High": mean + half,
        "Std": float(data.std(ddof=1)), "P10": p10, "P50": p50, "P90": p90,
        "Edges": [float(e) for e in edges], "Counts": [int(c) for c in counts],
    }


def clustered(tasks):
    """Return the mean of all rollouts and its cluster-robust standard error, with the correction G/(G-1) for G tasks."""
    flat = np.concatenate([np.array(t) for t in tasks])
    mean, groups = flat.mean(), len(tasks)
    meat = sum(float((np.array(t) - mean).sum()) ** 2 for t in tasks)
    stderr = math.sqrt(groups / (groups - 1) * meat) / len(flat)
    return {"Tasks": tasks, "Mean": float(mean), "Stderr": stderr}


def passes(flags, ks):
    """Return pass@k for each k, computed from all subsets of k rollouts of each task."""
    found = {}
    for k in ks:
        shares = []
        for task in flags:
            if len(task) >= k:
                draws = list(combinations(task, k))
                shares.append(sum(any(draw) for draw in draws) / len(draws))
        found[str(k)] = float(np.mean(shares))
    return {"Passed": flags, "At": found}


def bootstrap(deltas, rng):
    """Return the percentile bootstrap interval of the mean, from many more resamples than the product uses."""
    data = np.array(deltas)
    means = np.concatenate([
        data[rng.integers(0, len(data), size=(2000, len(data)))].mean(axis=1) for _ in range(100)
    ])
    low, high = (float(v) for v in np.percentile(means, [2.5, 97.5]))
    # Within is the tolerance for 10,000 resamples: a few standard errors of a percentile.
    return {"Deltas": deltas, "Mean": float(data.mean()), "Low": low, "High": high, "Within": float(means.std() * 0.15)}


def reference():
    rng = np.random.default_rng(20261121)
    normal = [round(float(v), 6) for v in rng.normal(0.4, 0.3, 57)]
    skewed = [round(float(v), 6) for v in rng.exponential(2.0, 200)]
    coins = [float(v) for v in rng.integers(0, 2, 40)]
    tasks = [[round(float(v), 6) for v in rng.normal(m, 0.1, 4)] for m in rng.random(25)]
    flags = [[int(v) for v in rng.random(8) < p] for p in rng.random(20)] + [[1, 0, 1]]
    deltas = [round(float(v), 6) for v in rng.normal(0.05, 0.2, 80)]
    return {
        "Quantiles": {str(f): student(0.975, f) for f in (1, 2, 5, 13.5, 40, 199, 5000)},
        "Cases": [case(v) for v in (normal, skewed, coins, [1.0, 2.0], [0.0, 0.0, 1.0])],
        "Clustered": [clustered(tasks), clustered([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])],
        "Pass": [passes(flags, (1, 2, 3, 4, 8)), passes([[0, 1, 0, 0], [0, 0, 0, 0]], (1, 2, 4))],
        "Bootstrap": [bootstrap(deltas, rng)],
    }


def close(a, b) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(close(x, y) for x, y in zip(a, b))
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12)


def main() -> int:
    made = reference()
    if sys.argv[1:] != ["--check"]:
        print(json.dumps(made, indent=1))
        return 0
    kept = json.loads(Path(__file__).with_name("reference.json").read_text())
    if close(json.loads(json.dumps(made)), kept):
        return 0
    print("reference.json differs from the values that reference.py computes; update it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

"""Write a dataset of additions: rows of {"question": "07+15?", "answer": "22"}.

    python make_dataset.py --digits 2 --pairs 4000 --seed 1 --out additions.jsonl

No pair occurs twice, and both numbers have `digits` digits. With 4000 two-digit
pairs, the recipe reaches an exact match of 0.98 in about half a minute. There
are only 100 one-digit pairs.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path


def rows(digits: int, pairs: int, seed: int) -> list[dict[str, str]]:
    """Return `pairs` different additions in random order. The same seed gives the same rows."""
    limit = 10**digits
    if not 1 <= pairs <= limit * limit:
        raise ValueError(f"--pairs must be between 1 and {limit * limit} for --digits {digits}, got {pairs}")
    drawn = random.Random(seed).sample(range(limit * limit), pairs)
    made = []
    for number in drawn:
        a, b = divmod(number, limit)
        made.append({"question": f"{a:0{digits}d}+{b:0{digits}d}?", "answer": str(a + b)})
    return made


def main(arguments: list[str]) -> int:
    """Write the file and return 0. Invalid arguments exit with status 2."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--digits", type=int, default=2, choices=(1, 2, 3))
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    try:
        made = rows(options.digits, options.pairs, options.seed)
    except ValueError as error:
        parser.error(str(error))
    options.out.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

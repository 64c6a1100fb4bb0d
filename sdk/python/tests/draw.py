"""Selects which rows of a long test matrix are tested, as the Go package test/draw does."""

from __future__ import annotations

import os
import zlib
from typing import List, Sequence


def one_in(n: int, test: str, rows: Sequence[str]) -> List[str]:
    """Return about one in n rows, always the same for a TEST_SEED, and all rows if TEST_LONG is set.

    A row is drawn by its own name, so that a new row does not redraw the others.
    """
    if os.environ.get("TEST_LONG"):
        return list(rows)
    seed = os.environ.get("TEST_SEED", "1")
    ranks = {row: zlib.crc32(f"{seed}\0{test}\0{row}".encode()) for row in rows}
    return [row for row in rows if ranks[row] % n == 0] or [min(rows, key=lambda row: ranks[row])]

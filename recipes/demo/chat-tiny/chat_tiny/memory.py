"""How the C library keeps the memory of freed arrays."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEEP_BELOW = 1 << 28


def keep_freed_arrays() -> bool:
    """Asks glibc to keep freed memory for the next array; whether it did.

    Every training step makes and frees the same arrays. Given back to the
    kernel each time, their pages are zeroed again on every step, which is a
    fifth of the whole run. A C library without the switch changes nothing.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _KEEP_BELOW) and mallopt(_TRIM_THRESHOLD, _KEEP_BELOW))

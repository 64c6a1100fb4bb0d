"""Let the C library reuse the memory of freed arrays."""

from __future__ import annotations

import ctypes

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEEP_BELOW = 1 << 28


def keep_freed_arrays() -> bool:
    """Configure glibc to keep freed memory for later arrays. Return whether it accepted the settings.

    Every training step allocates and frees arrays of the same sizes. If glibc
    returns their memory to the kernel, the kernel zeroes the pages again in
    every step, which takes a fifth of the training time. With another C
    library, the function has no effect and returns False.
    """
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, _KEEP_BELOW) and mallopt(_TRIM_THRESHOLD, _KEEP_BELOW))

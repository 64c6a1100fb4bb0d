"""The safetensors format, read and written by hand.

A file is the length of its header (8 bytes, little endian), a JSON header that
maps each tensor's name to its type, shape and byte range, and the raw numbers.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

HEADER_LIMIT = 1 << 24


def write(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Writes float32 tensors in the order given."""
    header: dict[str, dict] = {"__metadata__": {"format": "pt"}}
    blobs, offset = [], 0
    for name, tensor in tensors.items():
        blob = np.ascontiguousarray(tensor, "<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": [offset, offset + len(blob)]}
        blobs.append(blob)
        offset += len(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        file.writelines(blobs)


def read(path: Path) -> dict[str, np.ndarray]:
    """Reads every tensor of a file that holds float32 only."""
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0] if len(raw) >= 8 else HEADER_LIMIT + 1
    if size > HEADER_LIMIT or 8 + size > len(raw):
        raise ValueError(f"{path.name} is not a safetensors file")
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{path.name}: tensor {name} is {entry['dtype']}, only F32 is read")
        start, end = entry["data_offsets"]
        if not 0 <= start <= end <= len(raw) - 8 - size:
            raise ValueError(f"{path.name}: tensor {name} lies outside the file")
        tensors[name] = np.frombuffer(raw, "<f4", (end - start) // 4, 8 + size + start).reshape(entry["shape"])
    return tensors

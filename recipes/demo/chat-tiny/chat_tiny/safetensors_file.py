"""Read and write files in the safetensors format.

A file consists of the length of the header (8 bytes, little-endian), a JSON
header with the type, shape and byte range of each tensor, and the raw data.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path

import numpy as np

HEADER_LIMIT = 1 << 24


def write(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Write tensors as float32, in the order of the mapping."""
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
    """Return all tensors of a file by name. Raises ValueError if the file is invalid or a tensor is not float32."""
    raw = path.read_bytes()
    size = struct.unpack_from("<Q", raw)[0] if len(raw) >= 8 else HEADER_LIMIT + 1
    if size > HEADER_LIMIT or 8 + size > len(raw):
        raise ValueError(f"{path.name} is not a safetensors file")
    tensors = {}
    for name, entry in json.loads(raw[8 : 8 + size]).items():
        if name == "__metadata__":
            continue
        if entry["dtype"] != "F32":
            raise ValueError(f"{path.name}: tensor {name} is {entry['dtype']}, only F32 is supported")
        start, end = entry["data_offsets"]
        if not 0 <= start <= end <= len(raw) - 8 - size:
            raise ValueError(f"{path.name}: the data of tensor {name} is outside the file")
        tensors[name] = np.frombuffer(raw, "<f4", (end - start) // 4, 8 + size + start).reshape(entry["shape"])
    return tensors

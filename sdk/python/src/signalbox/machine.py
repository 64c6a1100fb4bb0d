"""The static picture of where a run runs. What cannot be told is left out."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from typing import Any, Dict, List, Optional


def picture() -> Dict[str, Any]:
    """{python, packages{}, os, cuda?, driver?, nccl?, gpus[]?, git{}?}; imports no framework."""
    found: Dict[str, Any] = {
        "python": platform.python_version(),
        "packages": packages(),
        "os": platform.platform(),
        "cuda": _torch("version.cuda"),
        "driver": driver(),
        "gpus": gpus(),
        "git": git(),
    }
    return {name: value for name, value in found.items() if value}


def packages() -> Dict[str, str]:
    """Installed distributions and their versions."""
    from importlib import metadata

    found: Dict[str, str] = {}
    for dist in metadata.distributions():
        name = dist.metadata["Name"]
        if name:
            found[str(name)] = dist.version
    return dict(sorted(found.items()))


def driver(proc: str = "/proc/driver/nvidia") -> Optional[str]:
    """Version of the NVIDIA kernel module, None where there is none."""
    match = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)\s", _read(os.path.join(proc, "version")))
    return match.group(1) if match else None


def gpus(proc: str = "/proc/driver/nvidia") -> List[str]:
    """Models of the GPUs that the kernel module knows."""
    root = os.path.join(proc, "gpus")
    try:
        slots = sorted(os.listdir(root))
    except OSError:
        return []
    texts = (_read(os.path.join(root, slot, "information")) for slot in slots)
    models = (re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE) for text in texts)
    return [model.group(1) for model in models if model]


def git() -> Optional[Dict[str, Any]]:
    """{commit, dirty} of the work folder, None where it is no checkout."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return None
    return {"commit": commit, "dirty": bool(_git("status", "--porcelain", "-uno"))}


def _git(*words: str) -> str:
    try:
        done = subprocess.run(["git", *words], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _torch(path: str) -> Optional[str]:
    """An attribute of torch, where the training code has imported it already."""
    value: Any = sys.modules.get("torch")
    for name in path.split("."):
        value = getattr(value, name, None)
    return value if isinstance(value, str) else None


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(65536)
    except OSError:
        return ""

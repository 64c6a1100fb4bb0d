"""The static description of a run's environment. Unknown values are omitted."""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from typing import Any, Dict, List, Mapping, Optional

from .config import distributed, rank


def picture() -> Dict[str, Any]:
    """Return the environment as {python, packages{}, os, cuda?, driver?, gpus[]?, git{}?}. Imports no framework."""
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


def node(env: Mapping[str, str], root: str = "/") -> Dict[str, Any]:
    """Return {rank, host, cpu, mem_gb?, gpus[]?, ib[]?} of this machine."""
    found: Dict[str, Any] = {
        "rank": _count(env, "SERVICE_JOB_NODE_RANK", "GROUP_RANK", "NODE_RANK"),
        "host": platform.node() or "unknown",
        "cpu": processor(root),
        "mem_gb": memory(root),
        "gpus": gpus(os.path.join(root, "proc/driver/nvidia")),
        "ib": ports(root),
    }
    return {name: value for name, value in found.items() if value or name == "rank"}


def first(env: Mapping[str, str], name: str) -> bool:
    """Return whether the process is the first one of the run (RANK) or of its node (LOCAL_RANK)."""
    if distributed(env):
        return env.get(name, "0").strip() in ("", "0")
    return name == "LOCAL_RANK" or rank(env) == 0


def several(env: Mapping[str, str]) -> bool:
    """Return whether the run has more than one node."""
    return _count(env, "SERVICE_JOB_NNODES", "GROUP_WORLD_SIZE", "NNODES") > 1


def _count(env: Mapping[str, str], *names: str) -> int:
    for name in names:
        if env.get(name, "").strip().isdigit():
            return int(env[name])
    return 0


def processor(root: str = "/") -> Dict[str, Any]:
    """Return {cores, model?} of the processor."""
    found: Dict[str, Any] = {"cores": os.cpu_count() or 1}
    text = _read(os.path.join(root, "proc/cpuinfo"))
    model = re.search(r"^model name\s*:\s*(.+?)\s*$", text, re.MULTILINE)
    if model:
        found["model"] = model.group(1)
    return found


def memory(root: str = "/") -> Optional[float]:
    """Return the memory of the machine in GiB; None if unknown."""
    total = re.search(r"^MemTotal:\s*(\d+) kB$", _read(os.path.join(root, "proc/meminfo")), re.MULTILINE)
    return round(int(total.group(1)) / (1 << 20), 1) if total else None


def ports(root: str = "/") -> List[str]:
    """Return the InfiniBand ports and their rates, such as "mlx5_0/1: 400 Gb/sec (4X NDR)"."""
    base = os.path.join(root, "sys/class/infiniband")
    found: List[str] = []
    for device in _names(base):
        for port in _names(os.path.join(base, device, "ports")):
            rate = _read(os.path.join(base, device, "ports", port, "rate")).strip()
            found.append(f"{device}/{port}: {rate}" if rate else f"{device}/{port}")
    return found


def _names(folder: str) -> List[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def packages() -> Dict[str, str]:
    """Return the installed distributions and their versions."""
    from importlib import metadata

    found: Dict[str, str] = {}
    for dist in metadata.distributions():
        name = dist.metadata["Name"]
        if name:
            found[str(name)] = dist.version
    return dict(sorted(found.items()))


def driver(proc: str = "/proc/driver/nvidia") -> Optional[str]:
    """Return the version of the NVIDIA kernel module; None if it is not loaded."""
    match = re.search(r"Kernel Module.*?\s(\d+\.[\d.]+)\s", _read(os.path.join(proc, "version")))
    return match.group(1) if match else None


def gpus(proc: str = "/proc/driver/nvidia") -> List[str]:
    """Return the models of the GPUs that the NVIDIA kernel module reports."""
    root = os.path.join(proc, "gpus")
    try:
        slots = sorted(os.listdir(root))
    except OSError:
        return []
    texts = (_read(os.path.join(root, slot, "information")) for slot in slots)
    models = (re.search(r"^Model:\s*(.+?)\s*$", text, re.MULTILINE) for text in texts)
    return [model.group(1) for model in models if model]


def git() -> Optional[Dict[str, Any]]:
    """Return {commit, dirty} of the working folder, or None if it is not a git checkout."""
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
    """Return an attribute of torch if the training code has imported torch."""
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

"""Samples of the machine while training runs: GPUs (with nvidia-smi), processor, memory, disk, network.

Values that cannot be read are omitted, because sampling must never harm a run.
"""

from __future__ import annotations

import os
import platform
import subprocess
import threading
import time
from typing import Any, Callable, Dict, List, Mapping, Optional, Tuple

Point = Dict[str, Any]
Report = Callable[[List[Point]], None]

SMI_TIMEOUT = 10.0  # seconds; without a timeout, processes would accumulate if the driver hangs
# The fields of nvidia-smi, the keys of the samples, and the factors that convert to percent, bytes, watts and Celsius.
FIGURES: Tuple[Tuple[str, str, float], ...] = (
    ("utilization.gpu", "util", 1.0),
    ("memory.used", "mem", float(1 << 20)),
    ("memory.total", "mem_total", float(1 << 20)),
    ("power.draw", "power", 1.0),
    ("temperature.gpu", "temp", 1.0),
)
SECTOR = 512  # bytes; /proc/diskstats uses this size for all disks


class Probe:
    """Reads the figures of one machine. Rates need two readings, so the first reading has none."""

    def __init__(
        self,
        root: str = "/",
        env: Optional[Mapping[str, str]] = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._root = root
        self._env = os.environ if env is None else env
        self._clock = clock
        self._node = platform.node()
        self._before: Dict[str, float] = {}
        self._at: Optional[float] = None

    def read(self) -> List[Point]:
        """Return the current figures."""
        from .wire import now

        ts = now()
        found = [self._point(ts, key, value) for key, value in self._figures().items()]
        for gpu, key, value in gpus(self._env):
            found.append({**self._point(ts, key, value), "gpu": gpu})
        return found

    def _point(self, ts: str, key: str, value: float) -> Point:
        return {"ts": ts, "node": self._node, "key": key, "value": value}

    def _figures(self) -> Dict[str, float]:
        at, before = self._clock(), self._before
        found: Dict[str, float] = {}
        total, busy = self._processor()
        sums = {**self._network(), **self._disks()}
        if self._at is not None and at > self._at:
            for key, value in sums.items():
                if value >= before.get(key, value + 1):
                    found[key] = (value - before[key]) / (at - self._at)
            if total > before.get("total", total):
                found["cpu"] = 100.0 * (busy - before["busy"]) / (total - before["total"])
        self._before, self._at = {**sums, "total": total, "busy": busy}, at
        found.update(self._memory())
        return found

    def _processor(self) -> Tuple[float, float]:
        """Return the ticks of all processors since boot: total and busy."""
        for line in self._lines("proc/stat"):
            if line.startswith("cpu "):
                ticks = [float(word) for word in line.split()[1:9]]
                idle = sum(ticks[3:5])  # waiting for a disk counts as idle
                return sum(ticks), sum(ticks) - idle
        return 0.0, 0.0

    def _memory(self) -> Dict[str, float]:
        sizes: Dict[str, float] = {}
        for line in self._lines("proc/meminfo"):
            name, _, rest = line.partition(":")
            words = rest.split()
            if name in ("MemTotal", "MemAvailable") and words and words[0].isdigit():
                sizes[name] = float(words[0]) * 1024
        if len(sizes) < 2:
            return {}
        return {"mem": sizes["MemTotal"] - sizes["MemAvailable"], "mem_total": sizes["MemTotal"]}

    def _network(self) -> Dict[str, float]:
        """Return the bytes of all interfaces except loopback."""
        rx = tx = 0.0
        seen = False
        for line in self._lines("proc/net/dev"):
            name, colon, rest = line.partition(":")
            words = rest.split()
            if colon and name.strip() != "lo" and len(words) > 8:
                rx, tx, seen = rx + float(words[0]), tx + float(words[8]), True
        return {"net_rx": rx, "net_tx": tx} if seen else {}

    def _disks(self) -> Dict[str, float]:
        """Return the bytes of whole disks. Partitions and stacked devices would count twice: they are omitted."""
        try:
            names = set(os.listdir(os.path.join(self._root, "sys/block")))
        except OSError:
            return {}
        read = written = 0.0
        seen = False
        for line in self._lines("proc/diskstats"):
            words = line.split()
            if len(words) > 9 and words[2] in names and not words[2].startswith(("loop", "ram", "dm-", "md")):
                read, written, seen = read + float(words[5]), written + float(words[9]), True
        return {"disk_read": read * SECTOR, "disk_write": written * SECTOR} if seen else {}

    def _lines(self, path: str) -> List[str]:
        try:
            with open(os.path.join(self._root, path), encoding="ascii", errors="replace") as file:
                return file.readlines()
        except OSError:
            return []


def gpus(env: Mapping[str, str]) -> List[Tuple[str, str, float]]:
    """Return (GPU, figure, value) for the GPUs that this process may use; empty without nvidia-smi."""
    visible = env.get("CUDA_VISIBLE_DEVICES")
    if visible is not None and visible.strip() in ("", "-1", "NoDevFiles"):
        return []
    words = ["nvidia-smi", "--query-gpu=index," + ",".join(name for name, _, _ in FIGURES)]
    words.append("--format=csv,noheader,nounits")
    if visible is not None:
        words.append(f"--id={visible.strip()}")
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SMI_TIMEOUT, env=dict(env))
    except (OSError, subprocess.SubprocessError, ValueError):
        return []
    if done.returncode != 0:
        return []
    found: List[Tuple[str, str, float]] = []
    for line in done.stdout.splitlines():
        index, *values = [word.strip() for word in line.split(",")]
        for (_, key, scale), word in zip(FIGURES, values):
            try:
                found.append((index, key, float(word) * scale))
            except ValueError:  # "[N/A]": the GPU does not report this figure
                continue
    return found


class Sampler:
    """Reports the readings of a probe every `interval` seconds, on a separate thread, until stopped."""

    def __init__(self, report: Report, interval: float, probe: Optional[Probe] = None) -> None:
        self._report = report
        self._interval = interval
        self._probe = probe or Probe()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._loop, name="signalbox-sampler", daemon=True)

    def start(self) -> None:
        """Start; the first samples are reported after one interval, rates after two."""
        self._thread.start()

    def stop(self, timeout: float = 2.0) -> None:
        """Stop, and wait at most `timeout` seconds for a reading in progress."""
        self._over.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(timeout)

    def _loop(self) -> None:
        while not self._over.wait(self._interval):
            points = self._sample()
            if points and not self._over.is_set():
                self._report(points)

    def _sample(self) -> List[Point]:
        try:
            return self._probe.read()
        except Exception:  # sampling must never harm a run
            return []

"""Serve a GGUF file with the launcher of agent/engine/launch, and complete prompts with it."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

LAUNCHER = Path(__file__).resolve().parents[2] / "agent" / "engine" / "launch" / "llamacpp.py"


class Engine:
    """A running engine."""

    def __init__(self, address: str) -> None:
        self.address = address

    def answer(self, question: str, limit: int) -> str:
        """Return the greedy response to a question, of at most `limit` tokens."""
        turn = {"role": "user", "content": question}
        body = {"model": "default", "messages": [turn], "temperature": 0, "max_tokens": limit, "cache_prompt": False}
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.address + "/v1/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)["choices"][0]["message"]["content"]


@contextlib.contextmanager
def serving(model: Path, folder: Path) -> Iterator[Engine]:
    """Run an engine for one model, with one thread and bit-exact results."""
    command = [sys.executable, str(LAUNCHER), "--model", str(model), "--threads", "1", "--exact"]
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
    try:
        line = process.stdout.readline()
        if not line:
            raise AssertionError((folder / "engine.log").read_text(errors="replace"))
        yield Engine(json.loads(line)["address"])
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()

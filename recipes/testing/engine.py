"""Start llama.cpp with the launcher of agent/engine/launch, and send requests to it. The tests of all recipes use it."""

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
KEY = "a-key-of-the-test"


class Engine:
    """A running engine."""

    def __init__(self, address: str) -> None:
        self.address = address

    def call(self, path: str, body: dict | None = None, key: str = KEY) -> dict:
        """Send one request and return the JSON of the response. Raises HTTPError for an error status."""
        data = json.dumps(body).encode() if body is not None else None
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}"}
        request = urllib.request.Request(self.address + path, data, headers)
        with urllib.request.urlopen(request, timeout=30) as response:
            return json.load(response)

    def answer(self, question: str, limit: int) -> str:
        """Return the greedy response to a question, of at most `limit` tokens."""
        turn = {"role": "user", "content": question}
        body = {"model": "default", "messages": [turn], "temperature": 0, "max_tokens": limit, "cache_prompt": False}
        return self.call("/v1/chat/completions", body)["choices"][0]["message"]["content"]


@contextlib.contextmanager
def serving(model: Path, folder: Path, *flags: str) -> Iterator[Engine]:
    """Run an engine for one model. It must exit with status 0 on SIGTERM."""
    key = folder / "engine.key"
    key.write_text(KEY + "\n")
    # With such a small model, several threads would mostly wait for each other in busy loops.
    options = ["--model", str(model), "--api-key-file", str(key), "--threads", "1"]
    command = [sys.executable, str(LAUNCHER), *options, *flags]
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

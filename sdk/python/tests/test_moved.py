"""The reporter follows a control plane whose address changes."""

from __future__ import annotations

from pathlib import Path
from typing import Optional

import pytest
from conftest import Env, Start
from control import Control
from signalbox.config import load


def move(control: Control, file: Path) -> None:
    """Restart the control plane on another port, and write the new endpoint to the file."""
    control.stop()
    control.port = 0
    file.write_text(control.start() + "\n")


def test_reporter_follows_new_address(
    control: Control, env: Env, start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "endpoint"
    file.write_text(env["SERVICE_JOB_ENDPOINT"])
    env["SERVICE_JOB_ENDPOINT_FILE"] = str(file)
    out = tmp_path / "model"
    out.write_bytes(b"weights")
    with start() as run:
        run.running()
        run.log({"a": 1}, step=1)
        assert run.flush()
        move(control, file)
        run.log({"a": 2}, step=2)
        run.artifact(str(out), kind="hf_export", format="safetensors", step=2)
    assert control.points() == [("a", 1, 1), ("a", 2, 2)]
    assert control.events() == ["running", "succeeded"]
    assert list(control.blobs.values()) == [b"weights"]
    assert not control.conflicts and not control.gaps()


@pytest.mark.parametrize(
    "content", [None, "", "\n", "nowhere", "ftp://x/", "http://", "http://h\u00f6st/", "http://x:y/"]
)
def test_unusable_endpoint_file_is_ignored(
    env: Env, tmp_path: Path, content: Optional[str]
) -> None:
    file = tmp_path / "endpoint"
    env["SERVICE_JOB_ENDPOINT_FILE"] = str(file)
    if content is not None:
        file.write_text(content, encoding="utf-8")
    assert load(env).current() == env["SERVICE_JOB_ENDPOINT"]


def test_endpoint_file_is_parsed_like_environment(env: Env, tmp_path: Path) -> None:
    file = tmp_path / "endpoint"
    env["SERVICE_JOB_ENDPOINT_FILE"] = str(file)
    file.write_text("https://other:1/prefix/api/ingest/\n")
    assert load(env).current() == "https://other:1/prefix/api/ingest"

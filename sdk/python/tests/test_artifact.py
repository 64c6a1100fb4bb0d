"""Artifacts: uploads to signed URLs while faults are injected, and deterministic packing of folders."""

from __future__ import annotations

import hashlib
import io
import os
import tarfile
from collections import deque
from pathlib import Path
from typing import Any, Dict

import pytest
from conftest import QUICK, Env, Start
from control import Control
from signalbox import IngestError, UndeliveredError
from signalbox.pack import pack


def weights(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    (folder / "sub").mkdir()
    (folder / "sub" / "model.safetensors").write_bytes(os.urandom(2000))
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    return folder


def test_upload_url_request(control: Control, start: Start, env: Env, tmp_path: Path) -> None:
    env["SERVICE_JOB_WORKDIR"] = str(tmp_path)
    file = tmp_path / "out" / "m.gguf"
    file.parent.mkdir()
    file.write_bytes(b"abc")
    with start() as run:
        run.artifact(file, kind="checkpoint", format="gguf", step=3)
    (ticket,) = control.tickets
    assert ticket == {
        "run_id": ["run_1"],
        "kind": ["checkpoint"],
        "path": ["out/m.gguf"],
        "size_bytes": ["3"],
        "sha256": [hashlib.sha256(b"abc").hexdigest()],
    }


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("\u30e2\u30c7\u30eb/\u91cd\u307f.safetensors", "\u30e2\u30c7\u30eb/\u91cd\u307f.safetensors"),
        ("out/a b+c&d=%41.bin", "out/a b+c&d=%41.bin"),
        ("out/\udcff.bin", "out/\ufffd.bin"),  # the name of the file is not UTF-8
        ("\u30e2\u30c7\u30eb/", "\u30e2\u30c7\u30eb.tar"),
        ("out/ckpt", "out/ckpt.tar"),
    ],
)
def test_artifact_keeps_its_name(control: Control, start: Start, env: Env, tmp_path: Path, name: str, sent: str) -> None:
    env["SERVICE_JOB_WORKDIR"] = str(tmp_path)
    if sent.endswith(".tar"):
        weights(tmp_path / name)
    else:
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_bytes(b"abc")
    with start() as run:
        for _ in range(2):
            run.artifact(os.path.join(str(tmp_path), name), kind="checkpoint", format="x", step=3)
    assert [ticket["path"] for ticket in control.tickets] == [[sent]] * 2


@pytest.mark.parametrize(
    "faults",
    [
        {"put": ["drop"] * 3},
        {"put": ["lose"]},
        {"put": ["500", "502", "503"]},
        {"put": ["403", "403"]},
        {"upload-url": ["drop", "503", "500"]},
        {"artifact": ["lose", "500", "drop"]},
    ],
)
def test_upload_retries_transient_fault(
    control: Control, start: Start, tmp_path: Path, faults: Dict[str, Any]
) -> None:
    file = tmp_path / "m"
    file.write_bytes(os.urandom(3_000_000))
    control.script_for = {route: deque(found) for route, found in faults.items()}
    with start() as run:
        uri = run.artifact(str(file), kind="merged_model", format="x", step=1)
    assert control.blobs[uri] == file.read_bytes()
    (registered,) = control.bodies("artifact")
    assert registered["path"] == uri and registered["size_bytes"] == 3_000_000
    assert not any(control.script_for.values()), "all faults must have occurred"


@pytest.mark.parametrize("faults", [{"put": ["413"]}, {"put": ["403"] * 3}, {"upload-url": ["403"]}])
def test_upload_refusal_raises(
    control: Control, start: Start, tmp_path: Path, faults: Dict[str, Any]
) -> None:
    file = tmp_path / "m"
    file.write_bytes(os.urandom(3_000_000))
    control.script_for = {route: deque(found * 3) for route, found in faults.items()}
    run = start()
    with pytest.raises(IngestError, match="artifact upload: HTTP 4"):
        run.artifact(file, kind="checkpoint", format="x", step=1)
    assert not control.bodies("artifact")
    run.finish()


def test_upload_timeout_without_control_plane(
    control: Control, start: Start, tmp_path: Path
) -> None:
    file = tmp_path / "m"
    file.write_bytes(b"x")
    run = start(policy=QUICK._replace(settle_timeout=0.2))
    control.stop()
    with pytest.raises(UndeliveredError, match="was not uploaded .*call artifact again") as raised:
        run.artifact(file, kind="checkpoint", format="x", step=1)
    assert "flush" not in str(raised.value), "the error must not suggest a flush: no spool contains the file"
    assert (raised.value.spool, raised.value.file, raised.value.records) == (None, str(file), 0)
    warned = start(on_error="warn", policy=QUICK._replace(settle_timeout=0.2))
    assert warned.artifact(file, kind="checkpoint", format="x", step=1) == ""
    run.finish()
    warned.finish()


@pytest.mark.parametrize(
    ("kind", "format", "error"),
    [("weights", "x", ValueError), ("checkpoint", "", ValueError), ("CHECKPOINT", "x", ValueError)],
)
def test_artifact_checks_kind_and_format(
    control: Control, start: Start, tmp_path: Path, kind: str, format: str, error: Any
) -> None:
    run = start()
    with pytest.raises(error):
        run.artifact(tmp_path, kind=kind, format=format, step=1)
    with pytest.raises(FileNotFoundError):
        run.artifact(tmp_path / "absent", kind="checkpoint", format="x", step=1)
    run.finish()
    assert control.requests == 0


def test_artifact_packs_folder_and_removes_tar(
    control: Control, start: Start, tmp_path: Path
) -> None:
    folder = weights(tmp_path / "out" / "ckpt")
    with start() as run:
        uri = run.artifact(folder, kind="hf_export", format="safetensors", step=1)
    assert os.listdir(tmp_path / "out") == ["ckpt"]
    with tarfile.open(fileobj=io.BytesIO(control.blobs[uri])) as tar:
        assert tar.getnames() == ["config.json", "run.sh", "sub", "sub/model.safetensors"]
        member = tar.extractfile("sub/model.safetensors")
        assert member and member.read() == (folder / "sub" / "model.safetensors").read_bytes()


def test_pack_is_deterministic(tmp_path: Path) -> None:
    one, two = weights(tmp_path / "a" / "one"), tmp_path / "b" / "other"
    two.mkdir(parents=True)
    for name in ("run.sh", "sub/model.safetensors", "config.json"):  # another order, other times
        (two / name).parent.mkdir(exist_ok=True)
        (two / name).write_bytes((one / name).read_bytes())
        os.utime(two / name, (1, 1))
    (two / "run.sh").chmod(0o700)
    (two / "config.json").chmod(0o600)
    first, second = pack(str(one)), pack(str(two) + "/")
    assert Path(first).parent == one.parent, "the tar must be next to the folder"
    assert Path(first).read_bytes() == Path(second).read_bytes()
    with tarfile.open(first) as tar:
        for member in tar.getmembers():
            assert (member.uid, member.gid, member.uname, member.mtime) == (0, 0, "", 0)


def test_pack_follows_links_to_files(tmp_path: Path) -> None:
    folder = tmp_path / "hub"
    folder.mkdir()
    (tmp_path / "blob").write_bytes(b"weights")
    (folder / "a").symlink_to(tmp_path / "blob")
    (folder / "b").write_bytes(b"twice")
    os.link(folder / "b", folder / "c")
    with tarfile.open(pack(str(folder))) as tar:
        found = {m.name: tar.extractfile(m) for m in tar.getmembers()}
        assert {n: f.read() if f else None for n, f in found.items()} == {
            "a": b"weights",
            "b": b"twice",
            "c": b"twice",
        }


def test_pack_rejects_special_files(tmp_path: Path) -> None:
    folder = tmp_path / "f"
    folder.mkdir()
    (folder / "up").symlink_to(tmp_path)
    with pytest.raises(ValueError, match="links to a folder"):
        pack(str(folder))
    (folder / "up").unlink()
    os.mkfifo(folder / "pipe")
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        pack(str(folder))
    assert os.listdir(tmp_path) == ["f"], "the incomplete tar must be deleted"

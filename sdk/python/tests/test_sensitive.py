"""Files with the name of a secret are rejected before any request is sent."""

from __future__ import annotations

from pathlib import Path

import pytest
from conftest import Start
from control import Control
from signalbox import SensitiveFileError

SECRETS = [
    ".env",
    ".ENV",
    ".env.local",
    "server.pem",
    "Server.PEM",
    "id_rsa",
    "id_rsa.pub",
    "id_rsa_backup",
    "id_ed25519",
    "key.p12",
    ".netrc",
    ".git-credentials",
]


@pytest.mark.parametrize("name", SECRETS)
@pytest.mark.parametrize("place", ["", "deep/in/it"])
@pytest.mark.parametrize("on_error", ["raise", "warn"])
def test_folder_with_secret_is_refused(
    control: Control, start: Start, tmp_path: Path, name: str, place: str, on_error: str
) -> None:
    folder = tmp_path / "out"
    (folder / place).mkdir(parents=True)
    (folder / "weights.bin").write_bytes(b"weights")
    (folder / place / name).write_bytes(b"secret")
    run = start(on_error=on_error)
    before = control.requests
    with pytest.raises(SensitiveFileError, match="sensitive_file: .*nothing was sent"):
        run.artifact(folder, kind="checkpoint", format="npz", step=1)
    assert control.requests == before and not control.tickets and not control.blobs
    assert sorted(p.name for p in tmp_path.iterdir() if p.suffix == ".tar") == []
    run.finish()


@pytest.mark.parametrize("name", [".env", "server.pem", "id_rsa.old"])
def test_secret_file_is_refused(control: Control, start: Start, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"secret")
    run = start()
    with pytest.raises(SensitiveFileError):
        run.artifact(tmp_path / name, kind="eval_report", format="json", step=1)
    assert not control.tickets
    run.finish()


@pytest.mark.parametrize("name", ["environment.json", "pem.txt", "grid_rsa", "dotenv", "model.pemx"])
def test_similar_names_are_packed(control: Control, start: Start, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / name).write_bytes(b"fine")
    with start() as run:
        assert run.artifact(folder, kind="checkpoint", format="npz", step=1)


def test_folder_named_like_secret_is_refused(start: Start, tmp_path: Path) -> None:
    (tmp_path / "out" / ".env").mkdir(parents=True)
    run = start()
    with pytest.raises(SensitiveFileError):
        run.artifact(tmp_path / "out", kind="checkpoint", format="npz", step=1)
    run.finish()

"""Pack a folder as a tar, and compute digests. The same contents always give the same bytes.

Files whose names are typical of secrets are rejected.
"""

from __future__ import annotations

import hashlib
import os
import stat
from typing import TYPE_CHECKING, List, Tuple

from .errors import SensitiveFileError

if TYPE_CHECKING:
    import tarfile

# Names that are typical of files with secrets, compared without regard to case.
SENSITIVE = (
    ".env",
    ".env.*",
    "*.pem",
    "id_rsa*",
    "id_dsa*",
    "id_ecdsa*",
    "id_ed25519*",
    "*.p12",
    "*.pfx",
    "*.ppk",
    ".netrc",
    ".pgpass",
    ".git-credentials",
)


def refuse_sensitive(name: str) -> None:
    """Raise SensitiveFileError if a part of the path has a name that is typical of a secret."""
    import fnmatch

    for part in name.replace(os.sep, "/").split("/"):
        for pattern in SENSITIVE:
            if fnmatch.fnmatchcase(part.lower(), pattern):
                raise SensitiveFileError(
                    f"sensitive_file: {name} looks like a secret ({pattern}): it is not packed and nothing was sent"
                )


def pack(folder: str) -> str:
    """Write `<folder>.<pid>.tar` next to the folder and return its path. The caller must delete it."""
    import tarfile

    folder = os.path.abspath(folder)
    target = f"{folder}.{os.getpid()}.tar"
    try:
        with tarfile.open(target, "w", format=tarfile.PAX_FORMAT, dereference=True) as tar:
            for path, name in _members(folder):
                _add(tar, path, name)
    except BaseException:
        if os.path.exists(target):
            os.unlink(target)
        raise
    return target


def _members(folder: str) -> List[Tuple[str, str]]:
    found: List[Tuple[str, str]] = []
    for here, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.join(here, name)
            if name in folders and os.path.islink(path):
                raise ValueError(f"{path} links to a folder; an artifact can contain only files and folders")
            inside = os.path.relpath(path, folder).replace(os.sep, "/")
            refuse_sensitive(inside)
            found.append((path, inside))
    return sorted(found, key=lambda member: member[1])


def _add(tar: tarfile.TarFile, path: str, name: str) -> None:
    """Add a normalized member to the tar: links become files; owner, time and umask are removed."""
    info = tar.gettarinfo(path, name)
    if info.islnk():  # a hard link to a packed file: pack the bytes again
        info.type, info.size = b"0", os.stat(path).st_size
    if not (info.isfile() or info.isdir()):
        raise ValueError(f"{path} is neither a file nor a folder")
    runs = bool(info.mode & stat.S_IXUSR)
    info.mode = 0o755 if info.isdir() or runs else 0o644
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    info.mtime = 0
    info.pax_headers = {}
    if info.isdir():
        tar.addfile(info)
        return
    with open(path, "rb") as file:
        tar.addfile(info, file)


def digest(path: str) -> Tuple[int, str]:
    """Return the size in bytes and the hex SHA-256 of a file, without reading it into memory as a whole."""
    total, sha = 0, hashlib.sha256()
    with open(path, "rb") as file:
        while True:
            piece = file.read(1 << 20)
            if not piece:
                return total, sha.hexdigest()
            total += len(piece)
            sha.update(piece)

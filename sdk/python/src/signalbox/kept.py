"""What this machine keeps of the runs without a job until they end."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import shutil
import tempfile
import time
from datetime import datetime, timezone
from typing import Iterator, List, Mapping, NamedTuple, Optional

from . import forks
from .config import usable
from .errors import ConfigError
from .recover import writers
from .spool import hold, open_own
from .transport import words

TOKEN_LIFE = 30 * 24 * 3600  # seconds
ROOM = 8192  # bytes that are reserved for a run's token and names before the run is created


class Saved(NamedTuple):
    """A run that has not ended, as saved on this machine."""

    run_id: str
    endpoint: str
    token: str
    expires: str  # RFC 3339
    created: str  # RFC 3339
    project: str
    name: str

    def __repr__(self) -> str:
        return f"Saved(run_id={self.run_id!r}, endpoint={self.endpoint!r})"

    def valid(self) -> bool:
        """Return whether the values can be those of a control plane."""
        texts = all(isinstance(value, str) for value in self)
        return texts and usable(self.endpoint) and _is_run_id(self.run_id) and is_token(self.token)


class Folder:
    """The folder of one run."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.spool = os.path.join(path, "spool")
        self._file = os.path.join(path, "run.json")
        self._ended = os.path.join(path, "ended")
        self._claim = -1
        forks.renew(self)

    def after_fork_in_child(self) -> None:
        """Close the child's copy of the claim, which would outlast the one of the parent."""
        self.release()

    def reserve(self) -> None:
        """Create the file for the run's token, readable by this user only, with room for it, and claim the folder."""
        self._claim = os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        hold(self._claim)
        _write(self._claim, b" " * ROOM)

    def keep(self, saved: Saved) -> Folder:
        """Write the run's token to the reserved file. Return the folder under the name of the run, still claimed."""
        content = json.dumps(saved._asdict()).encode()
        named = Folder(os.path.join(os.path.dirname(self.path), saved.run_id))
        try:
            os.lseek(self._claim, 0, os.SEEK_SET)
            _write(self._claim, content)
            os.ftruncate(self._claim, len(content))
            os.rename(self.path, named.path)
        except OSError as err:
            raise ConfigError(f"run {saved.run_id} was created, but its token cannot be kept in {named.path}: {words(err)}") from err
        named._claim, self._claim = self._claim, -1
        return named

    def claim(self) -> bool:
        """Keep other processes from continuing the run until `release` is called. Return False if one does the same.

        The locks of the spool show only processes that have opened it already. Raises OSError if the folder was deleted.
        """
        claim = open_own(self._file)
        if not hold(claim):
            os.close(claim)
            return False
        self._claim = claim
        return True

    def release(self) -> None:
        """End the claim: the process reports to the run, or does not continue it."""
        if self._claim >= 0:
            os.close(self._claim)
            self._claim = -1

    def load(self) -> Optional[Saved]:
        """Return the saved run, or None if the file is missing or this version cannot read it."""
        try:
            with open(self._file, encoding="utf-8") as file:
                found = json.load(file)
            saved = Saved(**found)
        except (OSError, ValueError, TypeError):
            return None
        return saved if saved.valid() else None

    def in_use(self) -> bool:
        """Return whether a running process reports to the run."""
        for name in writers(self.spool):
            try:
                lock = open_own(os.path.join(self.spool, name, "lock"))
            except OSError:
                continue
            held = not hold(lock)
            os.close(lock)
            if held:
                return True
        return False

    def end(self) -> None:
        """Record that the end of the run is reported. From now on, it is not continued.

        If this fails, the end is reported without it: only a process that is killed before the delivery leaves a run that
        can still be continued.
        """
        with contextlib.suppress(OSError):
            os.close(os.open(self._ended, os.O_WRONLY | os.O_CREAT, 0o600))

    def reopen(self) -> None:
        """Record that the end of the run could not be reported after all."""
        with contextlib.suppress(OSError):
            os.unlink(self._ended)

    def has_ended(self) -> bool:
        """Return whether the end of the run was reported, even if the report is not delivered yet."""
        return os.path.exists(self._ended)

    def tidy(self) -> None:
        """Delete the token and the folder if the run has ended and all reports of all processes are delivered."""
        with contextlib.suppress(OSError):
            if self.has_ended() and not (os.path.isdir(self.spool) and os.listdir(self.spool)):
                self.delete()

    def delete(self) -> None:
        """Delete the token and all reports, which the control plane would refuse."""
        shutil.rmtree(self.path, ignore_errors=True)


class Kept:
    """The folders of the runs of one server."""

    def __init__(self, env: Mapping[str, str], place: str) -> None:
        state = env.get("XDG_STATE_HOME", "")
        if not os.path.isabs(state):  # the XDG specification ignores relative paths
            state = os.path.join(env.get("HOME") or os.path.expanduser("~"), ".local", "state")
        if not os.path.isabs(state):
            raise ConfigError("there is no folder for the run's token: set XDG_STATE_HOME to a folder of yours")
        self.root = os.path.join(state, "signalbox", place)

    @contextlib.contextmanager
    def prepare(self) -> Iterator[Folder]:
        """Make a folder for a new run before the run is created, so that no run is created without one."""
        try:
            os.makedirs(self.root, mode=0o700, exist_ok=True)
            new = Folder(tempfile.mkdtemp(prefix=".new-", dir=self.root))
        except OSError as err:
            raise self._unusable(err) from err
        try:
            try:
                new.reserve()
            except OSError as err:
                raise self._unusable(err) from err
            yield new
        finally:
            new.release()
            shutil.rmtree(new.path, ignore_errors=True)  # it has another name if the run was created

    def _unusable(self, err: OSError) -> ConfigError:
        return ConfigError(f"the run's token cannot be kept in {self.root}: {words(err)}; set XDG_STATE_HOME")

    def folder(self, run_id: str) -> Folder:
        """Return the folder of a run."""
        if not _is_run_id(run_id):
            raise ConfigError(f"{run_id!r} is not the id of a run, such as run_01k3f8c0...")
        return Folder(os.path.join(self.root, run_id))

    def all(self) -> List[Saved]:
        """Return the saved runs."""
        found = (Folder(os.path.join(self.root, name)).load() for name in self._names())
        return [saved for saved in found if saved is not None]

    def sweep(self) -> None:
        """Delete what cannot be continued or delivered any more: folders of runs whose token has expired."""
        for name in self._names():
            folder = Folder(os.path.join(self.root, name))
            saved = folder.load()
            with contextlib.suppress(OSError):
                old = os.stat(folder.path).st_mtime < time.time() - TOKEN_LIFE
                if _expired(saved.expires) if saved is not None else old:
                    folder.delete()

    def _names(self) -> List[str]:
        try:
            return os.listdir(self.root)
        except OSError:
            return []


def _write(file: int, content: bytes) -> None:
    if os.write(file, content) != len(content):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _is_run_id(text: str) -> bool:
    return text.startswith("run_") and text.isascii() and text[4:].isalnum()


def is_token(text: str) -> bool:
    """Return whether a text can be sent in an HTTP header."""
    return bool(text) and all(33 <= ord(c) < 127 for c in text)


def _expired(text: str) -> bool:
    """Return whether a time of the control plane has passed. Python 3.9 reads no Z and no fraction of every length."""
    try:
        at = datetime.fromisoformat(re.sub(r"\.[0-9]+", "", text).replace("Z", "+00:00"))
    except ValueError:
        return False
    return at.tzinfo is not None and at < datetime.now(timezone.utc)

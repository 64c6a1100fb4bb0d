"""The SERVICE_JOB_* environment, checked before anything is reported."""

from __future__ import annotations

from typing import Mapping, NamedTuple, Optional
from urllib.parse import urlsplit

from .errors import ConfigError

MOST = 4096  # maximum number of characters of an address
MAX_RANK = 1 << 24


class Config(NamedTuple):
    """The settings that the platform injected into this process."""

    enabled: bool
    endpoint: str
    run_id: str
    token: str
    spool_dir: Optional[str]
    workdir: Optional[str]
    local_dir: Optional[str]
    endpoint_file: Optional[str] = None
    resume_from: Optional[str] = None
    rank: int = 0  # of this process among those of the training

    def __repr__(self) -> str:
        return f"Config(enabled={self.enabled}, endpoint={self.endpoint!r}, run_id={self.run_id!r})"

    def current(self) -> str:
        """Return the base URL of the ingest routes.

        If the address of the control plane has changed, SERVICE_JOB_ENDPOINT_FILE contains the new URL. If the file
        is missing or invalid, the URL stays the same.
        """
        if self.endpoint_file is None:
            return self.endpoint
        try:
            with open(self.endpoint_file, encoding="ascii") as file:
                found = file.read(MOST).strip().rstrip("/")
        except (OSError, ValueError):
            return self.endpoint
        return found if usable(found) else self.endpoint


def load(env: Mapping[str, str]) -> Config:
    """Read the environment. Raises ConfigError with the name of the variable that is missing or invalid."""
    flag = env.get("SERVICE_JOB_ENABLED")
    if flag not in ("0", "1"):
        got = "unset" if flag is None else repr(flag)
        raise ConfigError(f'SERVICE_JOB_ENABLED must be "0" or "1"; it is {got}')
    config = Config(
        enabled=flag == "1",
        endpoint=env.get("SERVICE_JOB_ENDPOINT", "").rstrip("/"),
        run_id=env.get("SERVICE_JOB_RUN_ID", ""),
        token=env.get("SERVICE_JOB_TOKEN", ""),
        spool_dir=env.get("SERVICE_JOB_SPOOL_DIR") or None,
        workdir=env.get("SERVICE_JOB_WORKDIR") or None,
        local_dir=env.get("SERVICE_JOB_DIR") or None,
        endpoint_file=env.get("SERVICE_JOB_ENDPOINT_FILE") or None,
        resume_from=env.get("SERVICE_JOB_RESUME_FROM") or None,
        rank=rank(env),
    )
    if config.enabled:
        _check(config)
    return config


def distributed(env: Mapping[str, str]) -> bool:
    """Return whether a launcher such as torchrun has started this process as one of several.

    Only then do RANK and LOCAL_RANK mean anything: alone, such variables can come from the machine or an outer program.
    """
    return _number(env.get("WORLD_SIZE", "")) > 1


def rank(env: Mapping[str, str]) -> int:
    """Return the rank of the process; 0 if it is the only one or the rank is invalid.

    It is the rank that a launcher has set. Without a launcher, a job on several nodes has one process on each, whose rank
    is that of its node.
    """
    found = 0
    if distributed(env):
        found = _number(env.get("RANK", ""))
    elif _number(env.get("SERVICE_JOB_NNODES", "")) > 1:
        found = _number(env.get("SERVICE_JOB_NODE_RANK", ""))
    return found if found <= MAX_RANK else 0


def _number(text: str) -> int:
    """Return the number, or 0 if the text is not one with at most 8 digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0


def _check(config: Config) -> None:
    required = (
        ("SERVICE_JOB_ENDPOINT", config.endpoint),
        ("SERVICE_JOB_RUN_ID", config.run_id),
        ("SERVICE_JOB_TOKEN", config.token),
    )
    missing = [name for name, value in required if not value]
    if missing:
        raise ConfigError(f'SERVICE_JOB_ENABLED is "1" but {", ".join(missing)} is not set')
    if not all(33 <= ord(c) < 127 for c in config.token):
        raise ConfigError("SERVICE_JOB_TOKEN contains a character that is not allowed in an HTTP header")
    if not usable(config.endpoint):
        raise ConfigError(f"SERVICE_JOB_ENDPOINT is not an http(s) URL: {config.endpoint!r}")


def usable(endpoint: str) -> bool:
    """Return whether a text is an http(s) URL."""
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False
    return usable and endpoint.isascii()

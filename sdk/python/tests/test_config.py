"""The SERVICE_JOB_* environment: init raises for invalid settings, before training begins."""

from __future__ import annotations

from typing import Dict, Optional

import pytest
import signalbox
from conftest import Env
from control import Control
from signalbox import ConfigError
from signalbox.config import load

WHOLE = {
    "SERVICE_JOB_ENABLED": "1",
    "SERVICE_JOB_ENDPOINT": "http://host:8080/api/ingest/",
    "SERVICE_JOB_RUN_ID": "run_1",
    "SERVICE_JOB_TOKEN": "ing_secret",
}


@pytest.mark.parametrize("flag", [None, "", "2", "true", "yes", " 1", "1 ", "01", "on"])
def test_enabled_is_exactly_0_or_1(flag: Optional[str]) -> None:
    env = {k: v for k, v in WHOLE.items() if k != "SERVICE_JOB_ENABLED"}
    if flag is not None:
        env["SERVICE_JOB_ENABLED"] = flag
    with pytest.raises(ConfigError, match="SERVICE_JOB_ENABLED"):
        signalbox.init(env=env)


@pytest.mark.parametrize("name", sorted(set(WHOLE) - {"SERVICE_JOB_ENABLED"}))
@pytest.mark.parametrize("value", [None, ""])
def test_enabled_requires_endpoint_run_and_token(name: str, value: Optional[str]) -> None:
    env: Dict[str, str] = dict(WHOLE)
    del env[name]
    if value is not None:
        env[name] = value
    with pytest.raises(ConfigError, match=name):
        signalbox.init(env=env)


@pytest.mark.parametrize(
    "endpoint",
    ["host:8080", "ftp://host/x", "http://", "http://host:port/", "http://[::1/", "http://h\u00f6st/"],
)
def test_endpoint_must_be_url(endpoint: str) -> None:
    with pytest.raises(ConfigError, match="SERVICE_JOB_ENDPOINT"):
        load({**WHOLE, "SERVICE_JOB_ENDPOINT": endpoint})


@pytest.mark.parametrize("token", ["a b", "a\nb", "a\r\nX-Evil: 1", "t\u00f6ken"])
def test_invalid_token_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(ConfigError, match="SERVICE_JOB_TOKEN") as caught:
        load({**WHOLE, "SERVICE_JOB_TOKEN": token})
    assert token not in str(caught.value)


def test_load_reads_environment() -> None:
    config = load({**WHOLE, "SERVICE_JOB_SPOOL_DIR": "/s", "SERVICE_JOB_WORKDIR": "/w"})
    assert config.enabled and config.endpoint == "http://host:8080/api/ingest"
    assert (config.run_id, config.token) == ("run_1", "ing_secret")
    assert (config.spool_dir, config.workdir, config.local_dir) == ("/s", "/w", None)
    assert "ing_secret" not in repr(config)


def test_offline_requires_no_other_setting() -> None:
    assert not load({"SERVICE_JOB_ENABLED": "0"}).enabled


def test_init_makes_no_request(control: Control, env: Env) -> None:
    run = signalbox.init(env=env, handle_sigterm=False)
    assert control.requests == 0 and control.connections == 0
    run.finish()


def test_on_error_is_checked(env: Env) -> None:
    with pytest.raises(ValueError, match="on_error"):
        signalbox.init(env=env, on_error="ignore")

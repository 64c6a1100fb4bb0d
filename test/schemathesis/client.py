"""An HTTP client that sends requests with each kind of credential, from many client addresses."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import requests
from requests.adapters import HTTPAdapter

TIMEOUT = 30

#: The kinds of credentials. Every operation is called with each of them.
KINDS = ("none", "operator", "admin", "refresh", "ingest", "deployment")

#: Operations that succeed only on the installation whose users sign in through a provider.
PROVIDED = ("getOpenIDConfiguration", "getOpenIDConfigurationHead", "preflightOpenIDConfiguration", "startSignIn", "finishSignIn")


class From(HTTPAdapter):
    """Sends requests from a fixed client address. Rate limits apply to each address."""

    def __init__(self, address: str, endless: tuple[str, ...]) -> None:
        self.address = address
        #: The paths of the streams that do not end by themselves.
        self.endless = endless
        super().__init__(pool_connections=1, pool_maxsize=1)

    def send(self, request: requests.PreparedRequest, **kwargs: Any) -> requests.Response:
        """Send the request. Of an endless stream, return only what arrives first."""
        if not (request.url or "").partition("?")[0].endswith(self.endless):
            return super().send(request, **kwargs)
        response = super().send(request, **kwargs | {"stream": True})
        if response.headers.get("Content-Type", "").startswith("text/event-stream"):
            response._content = next(response.iter_content(None), b"")
            response.close()
        return response

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, source_address=(self.address, 0), **kwargs)


@dataclass
class Harness:
    """The objects of the running installation and the credentials for it."""

    url: str
    values: dict[str, str]
    examples: dict[str, Any]
    #: The values of path variables, by path template and name.
    paths: dict[str, dict[str, str]]
    endless: tuple[str, ...]
    sessions: list[requests.Session] = field(default_factory=list)
    addresses: Iterator[int] = field(default_factory=itertools.count)
    #: The cookie that contains the current refresh token.
    cookie: str = ""

    def __post_init__(self) -> None:
        self.sessions = [self.visitor() for _ in range(100)]
        self.turn = itertools.cycle(self.sessions)

    def visitor(self) -> requests.Session:
        """Return an HTTP session with a new client address."""
        n = next(self.addresses)
        session = requests.Session()
        session.trust_env = False
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        session.mount("http://", From(f"127.{77 + n // 62500}.{1 + n // 250 % 250}.{1 + n % 250}", self.endless))
        return session

    def base(self, operation: str) -> str:
        """Return the base URL of the installation on which the operation can succeed."""
        return self["oidc_url"] if operation in PROVIDED else self.url

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    @staticmethod
    def unique(prefix: str = "x") -> str:
        return prefix + secrets.token_hex(5)

    def credentials(self, kind: str) -> dict[str, str]:
        """Return the headers with a credential of this kind."""
        if kind == "none":
            return {}
        if kind == "ingest":
            return {"X-Service-Token": self["ingest"]}
        if kind == "refresh":
            if not self.cookie:
                self.sign_in(kind)
            return {"Cookie": self.cookie}
        name = {"operator": "operator", "admin": "admin", "deployment": "deployment_token"}[kind]
        return {"Authorization": "Bearer " + self[name]}

    def ask(
        self, method: str, path: str, kind: str = "operator", body: Any = None, headers: dict[str, str] | None = None,
        session: requests.Session | None = None, **more: Any,
    ) -> requests.Response:
        """Send one request. A body that is not bytes is sent as JSON. `path` may be an absolute URL."""
        sent = self.credentials(kind) | (headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        address = path if path.startswith("http:") else self.url + path
        return (session or next(self.turn)).request(
            method, address, data=body, headers=sent, timeout=TIMEOUT, allow_redirects=False, **more
        )

    def get(self, path: str, kind: str = "operator", **query: str) -> Any:
        """Send a GET request, which must succeed, and return the JSON of the response."""
        response = self.ask("GET", path, kind, params=query)
        response.raise_for_status()
        return response.json()

    def post(self, path: str, body: Any = None, kind: str = "operator") -> Any:
        """Send a POST request, which must succeed. Return the JSON of the response, or None if it has no body."""
        response = self.ask("POST", path, kind, body)
        if not response.ok:
            raise RuntimeError(f"POST {path}: {response.status_code} {response.text[:300]}")
        return response.json() if response.content else None

    def sign_in(self, kind: str) -> None:
        """Sign in to get a new credential of this kind, because a request has ended the previous session."""
        name, password = {
            "admin": ("admin", self["admin_password"]), "operator": ("ada", "a good password of ada"), "refresh": ("stan", "a good password of stan"),
        }[kind]
        response = self.ask("POST", "/api/auth/login", "none", {"username": name, "password": password}, session=self.visitor())
        response.raise_for_status()
        if kind == "refresh":
            self.renew(response.headers)
        else:
            self.values[kind] = response.json()["token"]

    def renew(self, headers: Mapping[str, str]) -> None:
        """Store the refresh token of a response. It replaces the previous one, which is no longer valid."""
        if "Set-Cookie" in headers:
            self.cookie = headers["Set-Cookie"].split(";")[0]

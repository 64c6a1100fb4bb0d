"""The client sends requests with every kind of credential, from many client addresses."""

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

#: Operations of the installation whose users sign in with a provider. On the other installation they cannot
#: succeed.
PROVIDED = ("getOpenIDConfiguration", "getOpenIDConfigurationHead", "preflightOpenIDConfiguration", "startSignIn", "finishSignIn")


class From(HTTPAdapter):
    """Sends requests from one client address, because rate limits count requests by address."""

    def __init__(self, address: str) -> None:
        self.address = address
        super().__init__(pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, source_address=(self.address, 0), **kwargs)


@dataclass
class World:
    """The objects of the running installation and the credentials for it."""

    url: str
    values: dict[str, str]
    examples: dict[str, Any]
    sessions: list[requests.Session] = field(default_factory=list)
    addresses: Iterator[int] = field(default_factory=itertools.count)
    #: The cookie that contains the current refresh token.
    cookie: str = ""

    def __post_init__(self) -> None:
        self.sessions = [self.visitor() for _ in range(100)]
        self.turn = itertools.cycle(self.sessions)

    def visitor(self) -> requests.Session:
        """Returns an HTTP session with a new client address."""
        n = next(self.addresses)
        session = requests.Session()
        session.trust_env = False
        session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        session.mount("http://", From(f"127.{77 + n // 62500}.{1 + n // 250 % 250}.{1 + n % 250}"))
        return session

    def base(self, operation: str) -> str:
        """Returns the base URL of the installation on which the operation can succeed."""
        return self["oidc_url"] if operation in PROVIDED else self.url

    def __getitem__(self, name: str) -> str:
        return self.values[name]

    @staticmethod
    def unique(prefix: str = "x") -> str:
        return prefix + secrets.token_hex(5)

    def credentials(self, kind: str) -> dict[str, str]:
        """Returns the headers for a kind of credential."""
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
        """Sends one request. The body is sent as JSON unless it is bytes. path may be an absolute URL."""
        sent = self.credentials(kind) | (headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        address = path if path.startswith("http:") else self.url + path
        return (session or next(self.turn)).request(
            method, address, data=body, headers=sent, timeout=TIMEOUT, allow_redirects=False, **more
        )

    def get(self, path: str, kind: str = "operator", **query: str) -> Any:
        """Returns the JSON of the response to a GET request, which must succeed."""
        response = self.ask("GET", path, kind, params=query)
        response.raise_for_status()
        return response.json()

    def post(self, path: str, body: Any = None, kind: str = "operator") -> Any:
        """Returns the JSON of the response to a POST request, which must succeed. It returns None if there is no body."""
        response = self.ask("POST", path, kind, body)
        if not response.ok:
            raise RuntimeError(f"POST {path}: {response.status_code} {response.text[:300]}")
        return response.json() if response.content else None

    def sign_in(self, kind: str) -> None:
        """Gets a new credential of this kind. It is called if a request has ended the session of the previous one."""
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
        """Stores the refresh token of a response. The previous refresh token is used up."""
        if "Set-Cookie" in headers:
            self.cookie = headers["Set-Cookie"].split(";")[0]

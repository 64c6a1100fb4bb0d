"""Valid requests for sign-in, OAuth clients, users, teams, projects, profiles and settings."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import requests

from client import TIMEOUT, Harness
from good import GOOD, Good, body, good, project


def user(h: Harness) -> dict[str, Any]:
    made = h.post("/api/admin/users", {"username": h.unique("u"), "role": "operator", "password": "a long enough one"}, "admin")
    return dict(made["user"])


def team(h: Harness) -> str:
    return str(h.post("/api/teams", {"key": h.unique("t"), "name": "T"}, "admin")["id"])


def code(h: Harness) -> dict[str, Any]:
    return dict(h.post("/api/cli/device/code", {}, "none"))


# Signing in.
body("login", lambda h: {"username": "vera", "password": "a good password of vera"})
body("useLink", lambda h: {"link": h["sign_in_link"]})


@good("pollDeviceToken")
def _poll(h: Harness) -> Good:
    one = next(h.turn)
    made = h.ask("POST", "/api/cli/device/code", "none", {}, session=one).json()
    h.post("/api/cli/device/requests/" + made["user_code"], {"decision": "approve"})
    return Good(body={"device_code": made["device_code"]}, session=one)


@good("getDeviceRequest")
def _device_request(h: Harness) -> Good:
    return Good(path={"user_code": code(h)["user_code"]})


@good("decideDeviceRequest")
def _decide(h: Harness) -> Good:
    return Good(path={"user_code": code(h)["user_code"]}, body={"decision": "deny"})


# Users, teams and projects.
body("createUser", lambda h: {"username": h.unique("u"), "role": "operator"})
body("createTeam", lambda h: {"key": h.unique("t"), "name": "T"})
body("createProject", lambda h: {"key": h.unique("p"), "name": "P"})
for _name in ("updateUser", "resetPassword", "listOwned", "getUser"):
    GOOD[_name] = lambda h: Good(path={"user_id": user(h)["id"]}, body=None)
for _name in ("updateTeam", "deleteTeam"):
    GOOD[_name] = lambda h: Good(path={"team_id": team(h)}, kind="admin")
for _name in ("updateProject",):
    GOOD[_name] = lambda h: Good(path={"project_id": project(h)})
GOOD["listProjectMembers"] = GOOD["getProject"] = lambda h: Good(path={"project_id": project(h)})
GOOD["putProjectMember"] = lambda h: Good(path={"project_id": project(h), "username": "vera"}, body={"role": "viewer"})
GOOD["putTeamMember"] = lambda h: Good(path={"team_id": team(h), "username": "vera"}, body={"role": "member"}, kind="admin")
GOOD["getTeam"] = lambda h: Good(path={"team_id": team(h)}, kind="admin")


@good("removeProjectMember")
def _leave(h: Harness) -> Good:
    made = project(h)
    h.ask("PUT", f"/api/projects/{made}/members/vera", "operator", {"role": "viewer"}).raise_for_status()
    return Good(path={"project_id": made, "username": "vera"})


@good("removeTeamMember")
def _quit(h: Harness) -> Good:
    made = team(h)
    h.ask("PUT", f"/api/teams/{made}/members/vera", "admin", {"role": "member"}).raise_for_status()
    return Good(path={"team_id": made, "username": "vera"}, kind="admin")


@good("transferOwned")
def _transfer(h: Harness) -> Good:
    gone, kept = user(h)["id"], user(h)["id"]
    h.ask("PATCH", "/api/admin/users/" + gone, "admin", {"disabled": True}).raise_for_status()
    return Good(path={"user_id": gone}, body={"to_user_id": kept})


@good("changePassword")
def _password(h: Harness) -> Good:
    made, old = user(h), "a long enough one"
    token = h.post("/api/auth/login", {"username": made["username"], "password": old}, "none")["token"]
    return Good(body={"current_password": old, "new_password": "another long one"}, headers={"Authorization": "Bearer " + token})


@good("revokeSession")
def _revoke_session(h: Harness) -> Good:
    h.post("/api/auth/login", {"username": "ada", "password": "a good password of ada"}, "none")
    return Good(path={"session_id": next(s["id"] for s in h.get("/api/profile/sessions") if not s["current"])})


@good("logout")
def _logout(h: Harness) -> Good:
    token = h.post("/api/auth/login", {"username": "stan", "password": "a good password of stan"}, "none")["token"]
    return Good(headers={"Authorization": "Bearer " + token})


GOOD["revokeOtherSessions"] = GOOD["logout"]


@good("putSetting")
def _setting(h: Harness) -> Good:
    row = next(s for s in h.get("/api/admin/settings", "admin") if "announcement" in s["key"])
    return Good(path={"key": row["key"]}, body={"value": "hello", "version": row["version"]})


GOOD["getSetting"] = GOOD["listSettingVersions"] = lambda h: Good(
    path={"key": next(s["key"] for s in h.get("/api/admin/settings", "admin") if "announcement" in s["key"])}
)
body("rotateKey", lambda h: {"purpose": "caller", "revoke": False})


# OAuth clients.
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BACK = "http://127.0.0.1:9/back"
VERIFIER = "v" * 43


def form(**fields: str) -> dict[str, Any]:
    return {"body": urlencode(fields).encode(), "headers": FORM}


def authorization(h: Harness) -> dict[str, Any]:
    """Return the body of an authorization request that the user approves."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
    return {
        "response_type": "code", "client_id": h["program"], "redirect_uri": BACK, "code_challenge": challenge,
        "code_challenge_method": "S256", "resource": h.url + "/api/mcp", "scope": "read", "state": h.unique(), "approve": True,
    }


def tokens(h: Harness) -> dict[str, str]:
    """Return the form that exchanges a new authorization code for tokens."""
    given = parse_qs(urlsplit(h.post("/api/oauth/authorize", authorization(h))["redirect_to"]).query)
    return {
        "grant_type": "authorization_code", "code": given["code"][0], "redirect_uri": BACK, "client_id": h["program"],
        "code_verifier": VERIFIER, "resource": h.url + "/api/mcp",
    }


body("decideAuthorization", authorization)
GOOD["authorizeDevice"] = lambda h: Good(**form(client_id="signalbox-cli"))
GOOD["issueToken"] = lambda h: Good(**form(**tokens(h)))


@good("revokeToken")
def _revoke_token(h: Harness) -> Good:
    given = h.ask("POST", "/api/oauth/token", "none", urlencode(tokens(h)).encode(), FORM)
    given.raise_for_status()
    return Good(**form(client_id=h["program"], token=given.json()["refresh_token"]))


# Pages and sign-in with a provider.
for _name in ("getPageAsset", "getPageAssetHead"):
    GOOD[_name] = lambda h: Good(path={"asset": re.findall(r"/pages/([^\"]+)", h.ask("GET", "/login", "none").text)[0]})


@good("finishSignIn")
def _callback(h: Harness) -> Good:
    """Follow the redirects from the installation to the provider and back to the callback."""
    browser = requests.Session()
    browser.trust_env = False
    began = browser.get(h["oidc_url"] + "/api/auth/oidc/start", allow_redirects=False, timeout=TIMEOUT)
    address = began.headers["Location"] + "&login_hint=" + h["oidc_person"]
    while not address.startswith(h["oidc_url"]):
        address = urljoin(address, browser.get(address, allow_redirects=False, timeout=TIMEOUT).headers["Location"])
    back = urlsplit(address)
    return Good(url=f"{back.path}?{back.query}", headers={"Cookie": began.headers["Set-Cookie"].split(";")[0]})

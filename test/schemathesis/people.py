"""Valid requests for sign-in, OAuth clients, users, teams, projects, profiles and settings."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Any
from urllib.parse import parse_qs, urlencode, urljoin, urlsplit

import requests

from client import TIMEOUT, World
from good import GOOD, Good, body, good, project


def user(w: World) -> dict[str, Any]:
    made = w.post("/api/admin/users", {"username": w.unique("u"), "role": "operator", "password": "a long enough one"}, "admin")
    return dict(made["user"])


def team(w: World) -> str:
    return str(w.post("/api/teams", {"key": w.unique("t"), "name": "T"}, "admin")["id"])


def code(w: World) -> dict[str, Any]:
    return dict(w.post("/api/cli/device/code", {}, "none"))


# Signing in.
body("login", lambda w: {"username": "vera", "password": "a good password of vera"})


@good("pollDeviceToken")
def _poll(w: World) -> Good:
    one = next(w.turn)
    made = w.ask("POST", "/api/cli/device/code", "none", {}, session=one).json()
    w.post("/api/cli/device/requests/" + made["user_code"], {"decision": "approve"})
    return Good(body={"device_code": made["device_code"]}, session=one)


@good("getDeviceRequest")
def _device_request(w: World) -> Good:
    return Good(path={"user_code": code(w)["user_code"]})


@good("decideDeviceRequest")
def _decide(w: World) -> Good:
    return Good(path={"user_code": code(w)["user_code"]}, body={"decision": "deny"})


# Users, teams and projects.
body("createUser", lambda w: {"username": w.unique("u"), "role": "operator"})
body("createTeam", lambda w: {"key": w.unique("t"), "name": "T"})
body("createProject", lambda w: {"key": w.unique("p"), "name": "P"})
for _name in ("updateUser", "resetPassword", "listOwned", "getUser"):
    GOOD[_name] = lambda w: Good(path={"user_id": user(w)["id"]}, body=None)
for _name in ("updateTeam", "deleteTeam"):
    GOOD[_name] = lambda w: Good(path={"team_id": team(w)}, kind="admin")
for _name in ("updateProject",):
    GOOD[_name] = lambda w: Good(path={"project_id": project(w)})
GOOD["listProjectMembers"] = GOOD["getProject"] = lambda w: Good(path={"project_id": project(w)})
GOOD["putProjectMember"] = lambda w: Good(path={"project_id": project(w), "username": "vera"}, body={"role": "viewer"})
GOOD["putTeamMember"] = lambda w: Good(path={"team_id": team(w), "username": "vera"}, body={"role": "member"}, kind="admin")
GOOD["getTeam"] = lambda w: Good(path={"team_id": team(w)}, kind="admin")


@good("removeProjectMember")
def _leave(w: World) -> Good:
    made = project(w)
    w.ask("PUT", f"/api/projects/{made}/members/vera", "operator", {"role": "viewer"}).raise_for_status()
    return Good(path={"project_id": made, "username": "vera"})


@good("removeTeamMember")
def _quit(w: World) -> Good:
    made = team(w)
    w.ask("PUT", f"/api/teams/{made}/members/vera", "admin", {"role": "member"}).raise_for_status()
    return Good(path={"team_id": made, "username": "vera"}, kind="admin")


@good("transferOwned")
def _transfer(w: World) -> Good:
    gone, kept = user(w)["id"], user(w)["id"]
    w.ask("PATCH", "/api/admin/users/" + gone, "admin", {"disabled": True}).raise_for_status()
    return Good(path={"user_id": gone}, body={"to_user_id": kept})


@good("changePassword")
def _password(w: World) -> Good:
    made, old = user(w), "a long enough one"
    token = w.post("/api/auth/login", {"username": made["username"], "password": old}, "none")["token"]
    return Good(body={"current_password": old, "new_password": "another long one"}, headers={"Authorization": "Bearer " + token})


@good("revokeSession")
def _revoke_session(w: World) -> Good:
    w.post("/api/auth/login", {"username": "ada", "password": "a good password of ada"}, "none")
    return Good(path={"session_id": next(s["id"] for s in w.get("/api/profile/sessions") if not s["current"])})


@good("logout")
def _logout(w: World) -> Good:
    token = w.post("/api/auth/login", {"username": "stan", "password": "a good password of stan"}, "none")["token"]
    return Good(headers={"Authorization": "Bearer " + token})


GOOD["revokeOtherSessions"] = GOOD["logout"]


@good("putSetting")
def _setting(w: World) -> Good:
    row = next(s for s in w.get("/api/admin/settings", "admin") if "announcement" in s["key"])
    return Good(path={"key": row["key"]}, body={"value": "hello", "version": row["version"]})


GOOD["getSetting"] = GOOD["listSettingVersions"] = lambda w: Good(
    path={"key": next(s["key"] for s in w.get("/api/admin/settings", "admin") if "announcement" in s["key"])}
)
body("rotateKey", lambda w: {"purpose": "caller", "revoke": False})


# OAuth clients.
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
BACK = "http://127.0.0.1:9/back"
VERIFIER = "v" * 43


def form(**fields: str) -> dict[str, Any]:
    return {"body": urlencode(fields).encode(), "headers": FORM}


def authorization(w: World) -> dict[str, Any]:
    """Return the body of an authorization request that the user approves."""
    challenge = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).decode().rstrip("=")
    return {
        "response_type": "code", "client_id": w["program"], "redirect_uri": BACK, "code_challenge": challenge,
        "code_challenge_method": "S256", "resource": w.url + "/api/mcp", "scope": "read", "state": w.unique(), "approve": True,
    }


def tokens(w: World) -> dict[str, str]:
    """Return the form that exchanges a new authorization code for tokens."""
    given = parse_qs(urlsplit(w.post("/api/oauth/authorize", authorization(w))["redirect_to"]).query)
    return {
        "grant_type": "authorization_code", "code": given["code"][0], "redirect_uri": BACK, "client_id": w["program"],
        "code_verifier": VERIFIER, "resource": w.url + "/api/mcp",
    }


body("decideAuthorization", authorization)
GOOD["authorizeDevice"] = lambda w: Good(**form(client_id="signalbox-cli"))
GOOD["issueToken"] = lambda w: Good(**form(**tokens(w)))


@good("revokeToken")
def _revoke_token(w: World) -> Good:
    given = w.ask("POST", "/api/oauth/token", "none", urlencode(tokens(w)).encode(), FORM)
    given.raise_for_status()
    return Good(**form(client_id=w["program"], token=given.json()["refresh_token"]))


# Pages and sign-in with a provider.
for _name in ("getPageAsset", "getPageAssetHead"):
    GOOD[_name] = lambda w: Good(path={"asset": re.findall(r"/pages/([^\"]+)", w.ask("GET", "/login", "none").text)[0]})


@good("finishSignIn")
def _callback(w: World) -> Good:
    """Follow the redirects from the installation to the provider and back to the callback."""
    browser = requests.Session()
    browser.trust_env = False
    began = browser.get(w["oidc_url"] + "/api/auth/oidc/start", allow_redirects=False, timeout=TIMEOUT)
    address = began.headers["Location"] + "&login_hint=" + w["oidc_person"]
    while not address.startswith(w["oidc_url"]):
        address = urljoin(address, browser.get(address, allow_redirects=False, timeout=TIMEOUT).headers["Location"])
    back = urlsplit(address)
    return Good(url=f"{back.path}?{back.query}", headers={"Cookie": began.headers["Set-Cookie"].split(";")[0]})

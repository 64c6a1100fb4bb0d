"""Call every operation of a running installation with valid and invalid requests and every kind of credential, and
check each response against the OpenAPI document.

The program fails if a response has the status 500, an undeclared status, an undeclared content type, or a body or header
that does not match its schema. It also fails if no request to an operation has succeeded. At the end it prints the
response statuses of each operation.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from itertools import cycle, islice
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from jsonschema import Draft202012Validator
from schemathesis import APIOperation, GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.core.parameters import ParameterLocation
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

import kept  # noqa: F401 - it registers its requests in good
import paths
import people  # noqa: F401
import serving  # noqa: F401
from client import KINDS, TIMEOUT, Harness
from good import GOOD, Good

Operation = APIOperation[Any, Any, Any, Any]
Request = Any  # a case of schemathesis

BASELINE = Path(__file__).parents[2] / "proto" / "baseline" / "openapi.json"

CHECKS = [status_code_conformance, content_type_conformance, response_headers_conformance, response_schema_conformance]

#: The parts of a generated request that are sent. Generated headers and cookies with credentials are
#: replaced.
KEPT = (ParameterLocation.BODY, ParameterLocation.QUERY, ParameterLocation.PATH)

#: Operations that end sessions, change global state or block other operations. They are called last, in
#: this order.
LAST = (
    "setHardwareConfig", "putHardwareConfig", "putSetting", "cordonNode", "drainNode", "uncordonNode", "deleteNode", "logout",
    "revokeSession", "revokeOtherSessions", "changePassword", "rotateKey", "setMaintenance",
)

#: The minimum value of --examples with which the bounds of each field are tested too.
MANY = 20

#: The fraction of random requests whose path contains the ids of existing objects.
REAL = 0.7


def readings(text: str) -> list[Any]:
    """Return the values that the text of a query parameter may represent."""
    try:
        return [text, json.loads(text)]
    except ValueError:
        return [text]


def is_time(text: str) -> bool:
    try:
        return datetime.fromisoformat(text).tzinfo is not None
    except ValueError:
        return False


def fits(case: Request, response: Any) -> bool:
    """Return whether a query that was generated as invalid becomes valid when it is encoded in the URL.

    In a URL, an empty list is a missing parameter, and a list of one value looks like a single value.
    """
    sent = parse_qs(urlsplit(response.request.url).query, keep_blank_values=True)
    declared = {p.name: p for p in case.operation.query}
    if not set(sent) <= set(declared) or any(p.is_required and name not in sent for name, p in declared.items()):
        return False
    for name, values in sent.items():
        schema = declared[name].definition.get("schema", {})
        if schema.get("format") == "date-time" and all(is_time(v) for v in values):
            continue
        if "$ref" in schema or ("format" in schema and schema.get("type") == "string"):
            return False
        given = [values] if schema.get("type") == "array" else readings(values[0]) if len(values) == 1 else []
        if not any(Draft202012Validator(schema).is_valid(v) for v in given):
            return False
    return True


class Run:
    """One run over all operations."""

    def __init__(self, document: Path, harness: Harness, examples: int, chosen: str | None, share: int, drawn_by: int) -> None:
        load_all_checks()
        self.harness = harness
        self.examples = examples
        self.random = random.Random(5)
        self.schema = schemathesis.openapi.from_path(document)
        # An upload that is too large gets 413, which is not among the default statuses.
        self.schema.config.checks.negative_data_rejection.expected_statuses = ["4XX", "5XX"]
        self.operations = [r.ok() for r in self.schema.get_all_operations()]  # type: ignore[union-attr]
        if chosen:
            self.operations = [o for o in self.operations if chosen in self.id(o)]
        self.operations.sort(key=self.turn)
        #: The operations that receive random requests: about one in `share`, drawn by a hash of their own id so that a new
        #: operation does not redraw the others, and those that the baseline lacks. All operations receive their valid request.
        known = {o.get("operationId") for path in json.loads(BASELINE.read_text())["paths"].values() for o in path.values()}
        self.drawn = {name for name in map(self.id, self.operations) if name not in known or self.rank(drawn_by, name) % share == 0}
        self.statuses: dict[str, Counter[int]] = defaultdict(Counter)
        self.kinds: dict[str, Counter[str]] = defaultdict(Counter)
        self.failures: Counter[str] = Counter()
        self.shown: dict[str, str] = {}
        #: The path variables of the valid request of each operation, and those that random requests may reuse.
        self.variables: dict[str, dict[str, str]] = {}
        self.real: dict[str, dict[str, str]] = {}
        #: The number of operations that were skipped because the time limit was reached.
        self.cut = 0

    @staticmethod
    def rank(seed: int, name: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8], "big")

    @staticmethod
    def id(operation: Operation) -> str:
        return str(operation.definition.raw["operationId"])

    def turn(self, operation: Operation) -> tuple[int, int, str]:
        """Return the sort key of an operation.

        Operations that create objects come first, then those that read, change and delete objects, then LAST.
        """
        name, method = self.id(operation), operation.method.upper()
        if name in LAST:
            return (9, LAST.index(name), name)
        if name.startswith(("create", "submit", "register")):
            return (0, operation.path.count("{"), name)
        return ({"GET": 1, "HEAD": 1, "OPTIONS": 1, "POST": 2, "PUT": 2, "PATCH": 2}.get(method, 3), 0, name)

    @staticmethod
    def own(operation: Operation) -> tuple[str, ...]:
        """Return the kinds of credentials that the operation accepts."""
        raw = operation.definition.raw
        schemes = [name for way in raw.get("security", []) for name in way]
        if "accessToken" in schemes:
            return ("admin",) if raw.get("x-service-role") == "admin" else ("operator", "admin")
        if "refreshCookie" in schemes:
            return ("refresh",)
        if "ingestToken" in schemes:
            return ("ingest",)
        return ("deployment",) if "deploymentToken" in schemes else ("none",)

    def fail(self, operation: Operation, what: str, detail: str) -> None:
        key = f"{operation.method.upper()} {operation.path}: {what}"
        self.failures[key] += 1
        self.shown.setdefault(key, detail)

    def judge(self, case: Request, response: Any, kind: str, bad: bool = False) -> None:
        """Count a response and check it against the OpenAPI document. If `bad` is set, the response must be an error."""
        operation = case.operation
        self.statuses[operation.label][response.status_code] += 1
        self.kinds[operation.label][kind] += 1
        if response.status_code == 500:
            self.fail(operation, "500", f"{case.as_curl_command()}\n{response.text[:500]}")
        try:
            case.validate_response(response, checks=[*CHECKS, negative_data_rejection] if bad else CHECKS)
        except FailureGroup as group:
            for failure in group.exceptions:
                text = str(failure)
                what = f"{response.status_code} {type(failure).__name__}"
                self.fail(operation, what, f"{text[:700]}\n{case.as_curl_command()[:700]}\n{response.text[:300]}")

    def send(self, case: Request, kind: str) -> Any:
        """Send a request. If the session has ended, sign in again and repeat the request."""
        given = (case.headers or {}).items()
        case.headers = {k: v for k, v in given if k.lower() not in ("authorization", "x-service-token", "cookie")}
        case.cookies = {}
        for again in (False, True):
            headers = dict(case.headers) | self.harness.credentials(kind)
            response = case.call(
                base_url=self.harness.base(self.id(case.operation)), session=next(self.harness.turn), headers=headers, timeout=TIMEOUT,
                allow_redirects=False,
            )
            if kind == "refresh" and self.id(case.operation) == "refresh":
                self.harness.renew({"Set-Cookie": given[0] for given in [response.headers.get("set-cookie")] if given})
            if response.status_code != 401 or again or kind not in ("operator", "admin", "refresh") or kind not in self.own(case.operation):
                return response
            self.harness.sign_in(kind)
        return None

    def reach(self, operation: Operation) -> None:
        """Send the valid request of an operation, which must succeed."""
        name, kind = self.id(operation), self.own(operation)[0]
        try:
            made = GOOD[name](self.harness) if name in GOOD else Good()
            kind = made.kind or kind
            variables = paths.fill(self.harness, kind, operation.path) | made.path if "{" in operation.path else {}
            self.variables[operation.label] = variables
            if "{" in operation.path and operation.method.upper() != "DELETE" and (made.path or operation.method.upper() != "PATCH"):
                self.real[operation.label] = variables
            body = made.body if made.body is not None else self.harness.examples.get(name)
            path = made.url or operation.path.format(**variables)
            address = self.harness.base(name) + path
            response = self.harness.ask(operation.method.upper(), address, kind, body, made.headers, made.session, params=made.query or None)
            if name == "refresh":
                self.harness.renew(response.headers)
        except Exception as error:  # noqa: BLE001 - any error is reported with the operation
            self.fail(operation, "cannot build the valid request", "".join(traceback.format_exception_only(error)))
            return
        case = operation.Case(
            path_parameters=variables, query=made.query, headers=dict(made.headers),
            **({"body": body, "media_type": "application/json"} if body is not None and not isinstance(body, bytes) else {}),
        )
        self.judge(case, schemathesis.Response.from_requests(response, verify=False), kind)
        if response.status_code >= 400:
            request = f"{path} {json.dumps(body, default=str)[:300]}"
            self.shown.setdefault("good " + operation.label, f"{request}\n{response.status_code} {response.text[:400]}")
        if name == "setMaintenance":
            self.harness.ask("POST", "/api/admin/maintenance", "admin", {"mode": "off"})

    def ask(self, case: Request, kind: str) -> None:
        """Send one random request. Skip it if the HTTP client cannot send it."""
        operation = case.operation
        made = case.meta.components if case.meta else {}
        bad = {place for place in KEPT if place in made and made[place].mode.is_negative}
        real = self.real.get(operation.label)
        if real and ParameterLocation.PATH not in bad and self.random.random() < REAL:
            case.path_parameters = dict(real)
        try:
            response = self.send(case, kind)
        except Exception as error:  # noqa: BLE001
            if "Invalid" not in type(error).__name__ and "UnicodeEncode" not in type(error).__name__:
                self.fail(operation, f"no response: {type(error).__name__}", f"{case.as_curl_command()[:500]}\n{error}")
            return
        self.judge(case, response, kind, bool(bad) and not (bad == {ParameterLocation.QUERY} and fits(case, response)))
        if self.id(operation) == "setMaintenance":
            self.harness.ask("POST", "/api/admin/maintenance", "admin", {"mode": "off"})

    def fuzz(self, operation: Operation, mode: GenerationMode, kinds: list[str]) -> list[str]:
        """Send a random request with each kind of credential. Return the kinds for which no request was generated."""
        left = list(kinds)

        def one(case: Request) -> None:
            if left:
                self.ask(case, left.pop(0))

        quiet = settings(
            max_examples=len(kinds), deadline=None, database=None, suppress_health_check=list(HealthCheck),
            phases=[Phase.generate, Phase.explicit],
        )
        run: Callable[[], None] = seed(5)(quiet(given(case=operation.as_strategy(generation_mode=mode))(one)))
        try:
            run()
        except Exception as error:  # noqa: BLE001
            # If a schema accepts everything, no invalid request can be generated.
            if type(error).__name__ not in ("Unsatisfiable", "SkipTest", "InvalidArgument"):
                self.fail(operation, "cannot generate a request", "".join(traceback.format_exception(error))[-1500:])
        return left

    def cover(self, operation: Operation) -> None:
        """Test the bounds of each field with valid and invalid values."""
        modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]
        config = self.schema.config.generation_for(operation=operation)
        kind = self.own(operation)[0]
        for case in self.schema.iter_coverage_cases(operation, generation_modes=modes, generation_config=config):
            self.ask(case, kind)

    def all(self, seconds: float) -> None:
        """Send the valid request of every operation, and then random requests until the time limit."""
        end = time.monotonic() + seconds
        for operation in self.operations:
            self.reach(operation)
        for operation in self.operations if self.examples else []:
            if self.id(operation) not in self.drawn:
                continue
            if time.monotonic() > end:
                self.cut += 1
                continue
            if self.examples >= MANY:
                self.cover(operation)
            own, few = self.own(operation), max(1, self.examples // 10)
            good, bad = -(-self.examples * 2 // 3), -(-self.examples // 3)
            others = [kind for kind in KINDS if kind not in own for _ in range(few)]
            left = self.fuzz(operation, GenerationMode.POSITIVE, [*islice(cycle(own), max(good, len(own))), *others])
            left += self.fuzz(operation, GenerationMode.NEGATIVE, list(islice(cycle(own), bad)))
            for kind in left:
                self.ask(operation.Case(path_parameters=dict(self.variables.get(operation.label, {}))), kind)

    def report(self) -> tuple[str, bool]:
        """Return a report with the response statuses of each operation, and whether the run has passed."""
        lines, missed = [], []
        for operation in sorted(self.operations, key=lambda o: (o.path, o.method)):
            counts = self.statuses[operation.label]
            if not any(200 <= s < 400 for s in counts):
                missed.append(operation.label)
            summary = "  ".join(f"{s}×{n}" for s, n in sorted(counts.items()))
            lines.append(f"{operation.method.upper():7} {operation.path:75} {sum(counts.values()):4}  {summary}")
        kinds: Counter[str] = Counter()
        for c in self.kinds.values():
            kinds.update(c)
        total = sum(sum(c.values()) for c in self.statuses.values())
        lines += ["", f"operations {len(self.operations)}, called successfully {len(self.operations) - len(missed)}, responses {total}"]
        lines += ["responses by credential: " + ", ".join(f"{k} {kinds[k]}" for k in KINDS)]
        fewest = min((sum(c.values()) for c in self.statuses.values()), default=0)
        lines += [f"fewest responses of an operation {fewest}, responses with status 500: {sum(c[500] for c in self.statuses.values())}"]
        lines += [f"failures {len(self.failures)}, operations skipped at the time limit {self.cut}"]
        for key, n in sorted(self.failures.items()):
            lines += ["", f"FAILED {n}× {key}", *("    " + line for line in self.shown[key].splitlines())]
        for label in missed:
            lines += ["", f"NO SUCCESS {label}", *("    " + line for line in self.shown.get("good " + label, "").splitlines())]
        return "\n".join(lines), not self.failures and not missed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--document", type=Path, required=True)
    parser.add_argument("--url", required=True)
    parser.add_argument("--harness", type=Path, required=True)
    parser.add_argument("--examples", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=3600, help="The time limit in seconds, after which no random requests start.")
    parser.add_argument("--only", help="Call only operations whose id contains this text.")
    parser.add_argument("--share", type=int, default=1, help="Send random requests only to one in SHARE operations.")
    parser.add_argument("--seed", type=int, default=1, help="The seed that selects the operations for --share.")
    parser.add_argument("--report", type=Path, required=True)
    args = parser.parse_args()
    harness = json.loads(args.harness.read_text())
    client = Harness(args.url, harness["values"], harness["examples"], harness["paths"], tuple(harness["endless"]))
    run = Run(args.document, client, args.examples, args.only, args.share, args.seed)
    start = time.monotonic()
    run.all(args.seconds)
    text, well = run.report()
    args.report.write_text(text + f"\n{time.monotonic() - start:.0f} s\n")
    print(text)
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())

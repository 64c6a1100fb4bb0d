#!/usr/bin/env python3
"""Summarize the events of `go test -json` that gotestsum has stored.

test-report.py EVENTS prints the ten slowest packages. For each test that failed and then passed when it ran again, it
prints `flaky: PACKAGE TEST` with the output of the failure. It exits with 1 if a package failed although none of its
tests did, for example in TestMain: gotestsum runs no test of such a package again and counts it as passed.
"""

import json
import sys
from collections import defaultdict

SLOWEST = 10
# The last lines of a failed test that are printed. The whole output is above, where the test failed.
LINES = 100


def main(path: str) -> int:
    seconds: dict[str, float] = {}
    package_failed: set[str] = set()
    # The results of each root test, and the output of each test until its first result. A failed subtest fails its root
    # test, which runs again as a whole.
    results: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    printed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    first_failures: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    with open(path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            package, test, action = event.get("Package", ""), event.get("Test", ""), event["Action"]
            root = package, test.partition("/")[0]
            if action == "output" and test:
                if not results[root]:
                    printed[package, test].append(event["Output"])
            elif action in ("pass", "fail") and test:
                lines = printed.pop((package, test), [])
                if action == "fail" and not results[root]:
                    first_failures[root] += lines
                if "/" not in test:
                    results[root].append(action)
            elif action in ("pass", "fail"):
                seconds.setdefault(package, event.get("Elapsed", 0))
                if action == "fail":
                    package_failed.add(package)
    print(f"-- {SLOWEST} slowest packages, in seconds")
    for package, elapsed in sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"{elapsed:8.1f} {package}")
    for (package, test), actions in sorted(results.items()):
        if actions[:1] == ["fail"] and actions[-1] == "pass":
            print(f"flaky: {package} {test}")
            print("".join(first_failures[package, test][-LINES:]), end="")
    explained = {package for (package, _), actions in results.items() if "fail" in actions}
    unexplained = sorted(package_failed - explained)
    for package in unexplained:
        print(f"failed: {package}: the package failed, but none of its tests did", file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

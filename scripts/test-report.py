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
    test_failed: set[str] = set()
    results: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    printed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    with open(path, encoding="utf-8") as events:
        for line in events:
            event = json.loads(line)
            package, action = event.get("Package", ""), event["Action"]
            test = event.get("Test", "").partition("/")[0]  # a failed subtest fails its root test, which runs again
            if action == "output" and test and not results[package, test]:
                printed[package, test].append(event["Output"])
            if action not in ("pass", "fail"):
                continue
            if not test:
                seconds.setdefault(package, event.get("Elapsed", 0))
                if action == "fail":
                    package_failed.add(package)
                continue
            if action == "fail":
                test_failed.add(package)
            if "/" not in event["Test"]:
                results[package, test].append(action)
                if action == "pass" and len(results[package, test]) == 1:
                    del printed[package, test]
    print(f"-- {SLOWEST} slowest packages, in seconds")
    for package, elapsed in sorted(seconds.items(), key=lambda item: -item[1])[:SLOWEST]:
        print(f"{elapsed:8.1f} {package}")
    for (package, test), actions in sorted(results.items()):
        if actions[:1] == ["fail"] and actions[-1] == "pass":
            print(f"flaky: {package} {test}")
            print("".join(printed[package, test][-LINES:]), end="")
    unexplained = sorted(package_failed - test_failed)
    for package in unexplained:
        print(f"failed: {package}: the package failed, but none of its tests did", file=sys.stderr)
    return 1 if unexplained else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

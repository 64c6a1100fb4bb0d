#!/usr/bin/env python3
"""Read the output of `go test -json` and print one line for each package as it ends.

It also prints the output of failed and skipped tests. progress.py TIMES FAILURES appends the duration of each package,
in seconds, to the file TIMES, that of each test to TIMES with `.tests` added to its name, and a summary of each failed
test to the file FAILURES. It exits with 1 if a test or a build failed.
"""

import json
import sys
from collections import defaultdict

SUMMARY_LINES = 40
SUMMARY_COLUMNS = 300


def summary(package: str, test: str, output: list[str]) -> str:
    """Return the first lines that a failed test printed, without the logs of the processes that it started."""
    lines = [line for line in "".join(output).splitlines() if line.strip() and '{"time":' not in line]
    if len(lines) > SUMMARY_LINES:
        lines[SUMMARY_LINES:] = [f"    ({len(lines) - SUMMARY_LINES} more lines above)"]
    return "\n".join([f"{package} {test}", *(line[:SUMMARY_COLUMNS] for line in lines), ""])


def main(times: str, failures: str) -> int:
    printed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    failed = False
    with (
        open(times, "a", encoding="utf-8") as seconds,
        open(f"{times}.tests", "a", encoding="utf-8") as test_seconds,
        open(failures, "a", encoding="utf-8") as failed_tests,
    ):
        for line in sys.stdin:
            try:
                event = json.loads(line)
            except ValueError:  # the go command's own messages
                print(line, end="", flush=True)
                continue
            package, test = event.get("Package", event.get("ImportPath", "")), event.get("Test", "")
            action, output = event["Action"], event.get("Output", "")
            if action == "build-output":
                print(output, end="", flush=True)
            elif action == "output":
                printed[package, test].append(output)
            elif action in ("pass", "fail", "skip") and test:
                lines = printed.pop((package, test), [])
                print(f"{event.get('Elapsed', 0):8.1f} {package} {test}", file=test_seconds, flush=True)
                if action != "pass":
                    print("".join(lines), end="", flush=True)
                if action == "fail":
                    print(summary(package, test, lines), file=failed_tests, flush=True)
            elif action in ("pass", "fail", "skip"):
                # If the package failed, this includes the output of tests that never ended, because of a panic or the
                # time limit.
                rest = [text for (of, _), texts in printed.items() if of == package for text in texts]
                lines = rest if action == "fail" else [text for text in rest if text.startswith(("ok ", "? "))]
                for key in [key for key in printed if key[0] == package]:
                    del printed[key]
                print("".join(lines), end="", flush=True)
                print(f"{event.get('Elapsed', 0):8.1f} {package}", file=seconds, flush=True)
                failed = failed or action == "fail"
            elif action == "build-fail":
                failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))

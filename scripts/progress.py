#!/usr/bin/env python3
"""Read the output of `go test -json` and print one line for each package as it ends.

It also prints the output of failed and skipped tests. progress.py TIMES appends the duration of each package, in
seconds, to the file TIMES. It exits with 1 if a test or a build failed.
"""

import json
import sys
from collections import defaultdict


def main(times: str) -> int:
    printed: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    failed = False
    with open(times, "a", encoding="utf-8") as seconds:
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
                if action != "pass":
                    print("".join(lines), end="", flush=True)
            elif action in ("pass", "fail", "skip"):
                # If the package failed, rest includes tests that never ended, because of a panic or the time limit.
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
    sys.exit(main(sys.argv[1]))

"""Print more than the log may grow at once, and then more than its maximum size."""

import json
import os
import time

work = os.environ["SERVICE_JOB_WORKDIR"]
began = time.time()
print("folder " + work, flush=True)
KIB = 1 << 10
text = (b"too much" * 127 + b"\n") * 64  # about 64 KiB


def fill(size):
    """Write to the output, and to the log itself if that is possible."""
    for _ in range(size // len(text)):
        os.write(1, text)
    try:
        with open(os.path.dirname(work) + "/log", "ab") as log:
            for _ in range(size // len(text)):
                log.write(text)
    except OSError:
        pass


def mark(name):
    """Create a file that reports the end of a part to the test. The file contains the start time."""
    with open(f"{work}/{name}.new", "w") as file:
        json.dump(began, file)
    os.rename(f"{work}/{name}.new", f"{work}/{name}")


fill(8192 * KIB)
mark("mark-0")
while time.time() < began + 14:
    fill(128 * KIB)
    time.sleep(0.2)
mark("mark-1")
time.sleep(600)

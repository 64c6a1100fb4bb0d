"""Open more files than a work may have open, with several processes, and print whether that was possible."""

import json
import os
import resource
import signal
import sys
import time

with open(sys.argv[1]) as f:
    targets = json.load(f)
wanted = targets["files"]
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
each = min(hard - 100, 20_000)
ready = os.pipe()
others = []
for _ in range(wanted // each + 1):
    pid = os.fork()
    if pid == 0:
        opened = [os.open("/dev/null", os.O_RDONLY) for _ in range(each)]
        os.write(ready[1], b"x")
        signal.pause()
    others.append(pid)
for _ in others:
    os.read(ready[0], 1)
time.sleep(targets["files_seconds"])  # the limit is not enforced at once
print("way|file descriptors of several processes|open|", flush=True)
for pid in others:
    os.kill(pid, signal.SIGKILL)

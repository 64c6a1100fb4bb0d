"""Leave a spool with links to other files and files that take forever to read, and exit."""

import json
import os
import signal
import stat
import sys

with open(sys.argv[1]) as f:
    planted = json.load(f)["planted"]
spool, work = os.environ["SERVICE_JOB_SPOOL_DIR"], os.environ["SERVICE_JOB_WORKDIR"]


def huge(path):
    """Create a file without lines that takes no space."""
    with open(path, "wb") as file:
        file.truncate(1 << 40)


WRITERS = {
    "symbolic-link": lambda path: os.symlink(planted + "/symbolic-link", path),
    "hard-link": lambda path: os.link(planted + "/hard-link", path),
    "path-to-the-parent": lambda path: os.symlink("../../../../planted/path-to-the-parent", path),
    "device": lambda path: os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 5)),
    "named-pipe": os.mkfifo,
    "huge-file": huge,
}
for name, make in WRITERS.items():
    os.mkdir(f"{spool}/{name}")
    open(f"{spool}/{name}/lock", "w").close()
    try:
        make(f"{spool}/{name}/00000001.log")
    except OSError as e:
        print(f"cannot create {name}: {e}", flush=True)
os.symlink(planted + "/folder-of-another", spool + "/folder-of-another")
os.mkdir(work + "/signalbox")
for name in ("__init__.py", "__main__.py"):
    with open(f"{work}/signalbox/{name}", "w") as file:
        file.write("print('own code ran')")
print("left behind", flush=True)
os.kill(os.getpid(), signal.SIGKILL)

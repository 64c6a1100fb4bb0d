"""Start processes that try to outlive the job."""

import os
import signal
import sys
import time

CGROUPS = ("/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/memory/cgroup.procs", "/sys/fs/cgroup/cpu/cgroup.procs")


def remain(name):
    """Replace this process with a program that ignores all possible signals. Its arguments contain the name."""
    for number in range(1, signal.NSIG):
        try:
            signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError):
            pass
    environment = {} if name == "changed environment" else dict(os.environ)
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(600)", f"flee {name} {sys.argv[1]}"], environment)


def another_cgroup():
    """Move this process to each root cgroup, if that is allowed."""
    for path in CGROUPS:
        try:
            with open(path, "w") as file:
                file.write("0")
        except OSError:
            pass


replaced, until_replaced = os.pipe()  # a program that replaces a process does not inherit the pipe
for name in ("ignored signals", "second fork", "session of its own", "another cgroup", "changed environment"):
    if os.fork() == 0:
        if name != "ignored signals":
            os.setsid()
            if os.fork():
                os._exit(0)
        if name == "another cgroup":
            another_cgroup()
        remain(name)
os.close(until_replaced)
os.read(replaced, 1)  # returns when no process has the pipe
print("fled", flush=True)
time.sleep(600)

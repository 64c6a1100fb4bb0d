"""Try each way to escape from a work, each in its own process, and print whether the way is open."""

import ctypes
import glob
import json
import os
import signal
import socket
import stat
import struct
import sys
import time
import urllib.parse
import urllib.request

with open(sys.argv[1]) as f:
    at = json.load(f)  # the targets
work = os.environ["SERVICE_JOB_WORKDIR"]
machine = os.uname().machine
CALLS = {
    "x86_64": dict(unshare=272, clone=56, ptrace=101, shmget=29, handle=303, bpf=321, keyctl=250, io_uring=425, perf=298, chroot=161, mount=165, setns=308),
    "aarch64": dict(unshare=97, clone=220, ptrace=117, shmget=194, handle=264, bpf=280, keyctl=219, io_uring=425, perf=241, chroot=51, mount=40, setns=268),
}[machine]
libc = ctypes.CDLL(None, use_errno=True)
SEIZE = 0x4206


def call(name, *args):
    """Make a system call. Raise OSError if it fails."""
    result = libc.syscall(ctypes.c_long(CALLS[name]), *[a if isinstance(a, ctypes.Array) else ctypes.c_long(a) for a in args])
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def read(path):
    """Read the beginning of a file."""
    with open(path, "rb") as file:
        file.read(16)


def change(path):
    """Open a file for writing, but do not change it."""
    os.close(os.open(path, os.O_WRONLY))


def first(pattern):
    """Return the first path that matches the pattern."""
    found = sorted(glob.glob(pattern, recursive=True))
    if not found:
        raise OSError(f"{pattern}: not found")
    return found[0]


def connect(port, host="127.0.0.1"):
    """Connect to a port of the node."""
    with socket.create_connection((host, port), 6):
        pass


def listen(port, family=socket.AF_INET):
    """Listen on a port at the node's address. The separate network of a work does not have this address."""
    with socket.socket(family) as listener:
        # Two ways listen at the same address, maybe at the same time.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((at["address"] if family == socket.AF_INET else "::ffff:" + at["address"], port))
        listener.listen()


def public_port():
    """Return the port of the public listener."""
    return urllib.parse.urlsplit(os.environ["SERVICE_JOB_ENDPOINT"]).port


def search(name, wanted):
    """Look for another process whose file in /proc contains the bytes."""
    for path in glob.glob("/proc/[0-9]*/" + name):
        try:
            with open(path, "rb") as file:
                if wanted in file.read() and path.split("/")[2] != str(os.getpid()):
                    return
        except OSError:
            pass
    raise OSError("no process has it")


def unix(path):
    """Connect to a Unix socket."""
    socket.socket(socket.AF_UNIX).connect(path)


def datagram(port):
    """Send a datagram twice: the refusal of the first is reported when the second is sent."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.connect(("127.0.0.1", port))
    sender.send(b"x")
    time.sleep(0.2)
    sender.send(b"x")


def group(host):
    """Send a datagram to a multicast or broadcast address, and wait for a response from the node."""
    sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sender.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
    sender.settimeout(10)
    sender.sendto(b"x", (host, at["datagrams_of_node"]))
    sender.recv(1)


def link(make):
    """Make a link to the node's key in the work's folder, and read the key through it."""
    name = f"{work}/stolen-{os.getpid()}"
    make(first(at["node_key"]), name)
    try:
        read(name)
    finally:
        os.unlink(name)


def create(path):
    """Create a file and remove it."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    os.unlink(path)


def rename(path):
    """Rename a file and rename it back."""
    os.rename(path, path + ".moved")
    os.rename(path + ".moved", path)


def mode(path):
    """Set the mode of a file to its current mode."""
    os.chmod(path, stat.S_IMODE(os.stat(path).st_mode))


def child():
    """Start a process that sleeps."""
    pid = os.fork()
    if pid == 0:
        time.sleep(30)
        os._exit(0)
    return pid


def cgroup():
    """Leave the cgroup of the work."""
    roots = ["/sys/fs/cgroup/cgroup.procs", "/sys/fs/cgroup/pids/cgroup.procs", "/sys/fs/cgroup/unified/cgroup.procs"]
    with open(first_existing(roots), "w") as file:
        file.write("0")


def first_existing(paths):
    """Return the first path that exists."""
    for path in paths:
        if os.path.exists(path):
            return path
    raise OSError(f"{paths}: not found")


def handle(path):
    """Get the handle of a file. With handles, root can open any file."""
    buffer = (ctypes.c_uint * 64)(128)
    mount, name = ctypes.c_int(), ctypes.create_string_buffer(path.encode())
    call("handle", -100, ctypes.addressof(name), ctypes.addressof(buffer), ctypes.addressof(mount), 0)


def open_files():
    """Open more files than a process of a work may have open."""
    opened = []
    try:
        while len(opened) <= 70_000:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for fd in opened:
            os.close(fd)


def tun():
    """Create a network device."""
    import fcntl

    fd = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(fd, 0x400454CA, struct.pack("16sH22x", b"", 0x1001))


WAYS = {
    "file of another work": lambda: read(at["dir"] + "/work/secret"),
    "list of another work's files": lambda: os.listdir(at["dir"] + "/work"),
    "reports of another work": lambda: os.listdir(at["dir"] + "/spool"),
    "token of another work": lambda: read(at["dir"] + "/assignment.json"),
    "log of another work": lambda: read(at["dir"] + "/log"),
    "start file of another work": lambda: read(at["dir"] + "/run/start.json"),
    "environment of another work": lambda: search("environ", b"VICTIM=of-the-other-victim.py"),
    "command line of another work": lambda: search("cmdline", b"argument-of-the-other"),
    "memory of another work": lambda: os.close(os.open(f"/proc/{at['pid']}/mem", os.O_RDONLY)),
    "files through another work's process": lambda: os.listdir(f"/proc/{at['pid']}/root{at['dir']}/work"),
    "shared memory file of another work": lambda: read(at["shm"]),
    "shared memory segment of another work": lambda: call("shmget", at["segment"], 0, 0),
    "socket of another work": lambda: unix(at["dir"] + "/work/socket"),
    "abstract socket of another work": lambda: unix("\0" + at["abstract"]),
    "port of another work on loopback": lambda: connect(at["engine"]),
    "port of another work on the node's address": lambda: connect(at["engine"], at["address"]),
    "datagram to another work": lambda: datagram(at["datagrams"]),
    "multicast to the node": lambda: group(at["group"]),
    "broadcast to the node": lambda: group("255.255.255.255"),
    "signal to another work": lambda: os.kill(at["pid"], 0),
    "ptrace of another work": lambda: call("ptrace", SEIZE, at["pid"], 0, 0),
    "own token on the node": lambda: read(os.path.dirname(work) + "/assignment.json"),
    "change of its own start file": lambda: change(os.path.dirname(work) + "/run/start.json"),
    "change of its own outcome": lambda: create(os.path.dirname(work) + "/run/exit.json"),
    "key of the node": lambda: read(first(at["node_key"])),
    "hard link to the node's key": lambda: link(os.link),
    "symbolic link to the node's key": lambda: link(os.symlink),
    "list of the agent's files": lambda: os.listdir(at["agent"] + "/node"),
    "keyring": lambda: read(at["keyring"]),
    "key of the CA": lambda: read(first(at["ca"])),
    "key of the audit log": lambda: read(at["audit_key"]),
    "heads of the audit log": lambda: os.listdir(at["audit"]),
    "key of signed URLs": lambda: read(at["blob_key"]),
    "password of the database": lambda: read(at["password"]),
    "files of the database": lambda: os.listdir(at["database_files"]),
    "port of the database": lambda: connect(at["database"]),
    "memory of the control plane": lambda: os.close(os.open(f"/proc/{at['server']}/mem", os.O_RDONLY)),
    "environment of the control plane": lambda: read(f"/proc/{at['server']}/environ"),
    "open files of the control plane": lambda: os.listdir(f"/proc/{at['server']}/fd"),
    "signal to the control plane": lambda: os.kill(at["server"], 0),
    "signal to the shim": lambda: os.kill(at["shim"], 0),
    "ptrace of the shim": lambda: call("ptrace", SEIZE, at["shim"], 0, 0),
    "port for agents": lambda: connect(at["agents"]),
    "port of a service on loopback": lambda: connect(at["service"]),
    "port of a service on the node's address": lambda: connect(at["service"], at["address"]),
    "port of Redis": lambda: connect(at["redis"]),
    "admin port": lambda: connect(at["admin"]),
    "engine on the node": lambda: connect(at["node_engine"]),
    "key of an engine": lambda: read(at["engine_key"]),
    "Unix socket under /tmp": lambda: unix(at["tmp_socket"]),
    "new environment": lambda: create(at["environments"] + "/new-environment"),
    "listener at the public port": lambda: listen(public_port()),
    "listener at the public port over IPv6": lambda: listen(public_port(), socket.AF_INET6),
    "listener at the port of the database": lambda: listen(at["database"]),
    "listener at a port for engines": lambda: listen(20000 + os.getpid() % 3000),
    "Unix socket under /run": lambda: unix(at["run_socket"]),
    "change of a cached object": lambda: change(first(at["objects"])),
    "removal of a cached object": lambda: rename(first(at["objects"])),
    "mode of a cached object": lambda: mode(first(at["objects"])),
    "new file among the cached objects": lambda: create(os.path.dirname(first(at["objects"])) + "/new"),
    "change of its Python environment": lambda: create(os.environ["VIRTUAL_ENV"] + "/new"),
    "change of the reporter": lambda: create(os.environ["PYTHONPATH"] + "/new"),
    "home of root": lambda: os.stat(at["home"]),
    "list of the machine's users": lambda: search_users(),
    "shadow file": lambda: read("/etc/shadow"),
    "log of the kernel": lambda: os.close(os.open("/dev/kmsg", os.O_RDONLY)),
    "settings of the kernel": lambda: change("/proc/sys/kernel/core_pattern"),
    "new device": lambda: os.mknod(work + "/disk", 0o600 | stat.S_IFBLK, os.makedev(254, 0)),
    "device that was not given": lambda: os.close(os.open(at["device"], os.O_RDWR)),
    "GPU without a request": lambda: os.close(os.open(first("/dev/nvidia[0-9]"), os.O_RDWR)),
    "network device": tun,
    "user namespace": lambda: call("unshare", 0x10000000, 0, 0),
    "user namespace of a child": lambda: call("clone", 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0) or os._exit(0),
    "mount namespace": lambda: call("unshare", 0x20000, 0, 0),
    "another root": lambda: os.chroot(work),
    "another user": lambda: os.setuid(1 if os.getuid() == 0 else 0),
    "owner of a file": lambda: os.chown(work, 12345, 12345),
    "another cgroup": cgroup,
    "file by its handle": lambda: handle(work),
    "keys of the session": lambda: call("keyctl", 0, -3, 0),
    "programs in the kernel": lambda: call("io_uring", 1, ctypes.addressof((ctypes.c_char * 240)())),
    "packets of its own making": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "protocol that no filter sees": lambda: socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262),
    "ciphers of the kernel": lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET),
    "ptrace of its own child": lambda: call("ptrace", SEIZE, child(), 0, 0),
    "scheduling before all others": lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)),
    "file descriptors": open_files,
}

# The ways to escape from a work without a network. Such a work tries only these.
CLOSED = {
    "without a network: public listener": lambda: listener(),
    "without a network: port of another work": lambda: connect(at["engine"]),
    "without a network: port of another work on the node's address": lambda: connect(at["engine"], at["address"]),
    "without a network: port of the database": lambda: connect(at["database"]),
    "without a network: port of a service": lambda: connect(at["service"]),
    "without a network: another host": lambda: connect(443, at["host"]),
    "without a network: address of the Internet": lambda: connect(443, at["internet"]),
    "without a network: name server": lambda: look_up(at["host"]),
    "without a network: datagram": lambda: send(at["host"]),
}


def listener():
    """Request a page of the public listener."""
    endpoint = urllib.parse.urlsplit(os.environ["SERVICE_JOB_ENDPOINT"])
    urllib.request.urlopen(f"{endpoint.scheme}://{endpoint.netloc}/api/auth/config", timeout=60).close()


def look_up(host):
    """Send a question to a name server and wait for an answer."""
    asking = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    asking.settimeout(10)
    asking.sendto(b"question", (host, 53))
    asking.recv(512)


def send(host):
    """Send a datagram."""
    socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", (host, 9))


def search_users():
    """Look for a user of the machine in the list of users."""
    with open("/etc/passwd") as file:
        if "daemon" not in file.read():
            raise OSError("the list contains no other users")


def attempt(way):
    """Run one way. Exit with 0 if it is open, with 1 if it is closed and with 2 if it could not be tried."""
    signal.alarm(120)
    try:
        way()
    except OSError as e:
        print("closed:", e, file=sys.stderr)
        os._exit(1)
    except BaseException as e:
        print("cannot try:", repr(e), file=sys.stderr)
        os._exit(2)
    os._exit(0)


def main():
    """Try all ways at once, or those that further arguments name."""
    named = sys.argv[2:]
    if not named:
        # The public listener must be within reach.
        listener()
        print("way|public listener|open|", flush=True)
    running = {}
    for name in named or WAYS:
        way = (WAYS | CLOSED)[name]
        pid = os.fork()
        if pid == 0:
            reader = os.open(f"{work}/way-{len(running)}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
            os.dup2(reader, 2)
            attempt(way)
        running[pid] = (name, f"{work}/way-{len(running)}")
    while running:
        pid, status = os.wait()
        if pid not in running:
            continue
        name, file = running.pop(pid)
        result = {0: "open", 1: "closed"}.get(os.waitstatus_to_exitcode(status), "untried")
        with open(file) as text:
            print(f"way|{name}|{result}|{text.read().strip()[-200:]}", flush=True)
    print("way|end|end", flush=True)


main()

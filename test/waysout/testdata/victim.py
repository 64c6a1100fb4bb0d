"""Act as another work: own a file, shared memory, sockets and a port, and print where they are."""

import ctypes
import json
import os
import socket
import sys
import time

os.umask(0)
work = os.environ["SERVICE_JOB_WORKDIR"]
with open(f"{work}/secret", "w") as f:
    f.write("secret")
shared = f"/dev/shm/signalbox-{os.getpid()}-{time.time_ns()}"
with open(shared, "w") as f:
    f.write("shared")
libc = ctypes.CDLL(None, use_errno=True)
key = 0x51600000 + int(time.time()) % 0xFFFFF
if libc.shmget(key, 4096, 0o1666) < 0:
    raise OSError(ctypes.get_errno(), "shmget")
named, abstract = socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)
os.chdir(work)
named.bind("socket")
named.listen()
abstract.bind("\0" + os.path.basename(shared))
abstract.listen()
engine = socket.create_server(("0.0.0.0", 0))
datagrams = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
datagrams.bind(("127.0.0.1", 0))
print("victim " + json.dumps({
    "dir": os.path.dirname(work), "shm": shared, "segment": key, "abstract": os.path.basename(shared),
    "engine": engine.getsockname()[1], "datagrams": datagrams.getsockname()[1],
}), flush=True)
while True:
    connection, _ = engine.accept()
    try:
        connection.sendall(b"of the other work")
    except OSError:
        pass
    connection.close()

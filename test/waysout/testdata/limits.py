"""Use more memory and processes than the job has, and print whether that was possible."""

import _thread
import json
import mmap
import os
import signal
import socket
import sys
import threading
import time

with open(sys.argv[1]) as f:
    at = json.load(f)  # the targets
MIB = 1 << 20


def memory(size):
    """Allocate size bytes of memory and write to every page."""
    block = bytearray(size)
    for n in range(0, size, 4096):
        block[n] = 1
    return block


def memory_together():
    """Exceed the memory of the job with three processes that each stay below it."""
    ready, again, others = os.pipe(), os.pipe(), []

    def killed(*_):
        raise OSError("a process was killed")

    signal.signal(signal.SIGCHLD, killed)
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            memory(500 * MIB)
            os.write(ready[1], b"x")
            os.read(again[0], 1)
            os.write(ready[1], b"x")
            signal.pause()
        others.append(pid)
    os.close(ready[1])
    try:
        for _ in others:
            os.read(ready[0], 1)
        # The memory of a killed process is free before its parent learns of its end, so ask each process once more.
        os.write(again[1], b"x" * len(others))
        for _ in others:
            os.read(ready[0], 1)
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        for pid in others:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def shared_memory():
    """Fill /dev/shm."""
    name = at["fill"]
    try:
        with open(name, "wb") as file:
            for _ in range(1200):
                file.write(bytes(MIB))
    finally:
        os.unlink(name)


def processes():
    """Start more threads than a job may have processes and threads."""
    wait = threading.Lock()
    wait.acquire()
    threading.stack_size(64 << 10)
    try:
        for _ in range(at["pids"] + 100):
            _thread.start_new_thread(wait.acquire, ())
    except RuntimeError as e:
        raise OSError("no more threads") from e


def shared(fd):
    """Exceed the memory of the job with a shared mapping, which does not count as private memory."""
    block = mmap.mmap(fd, 1300 * MIB)
    for n in range(0, len(block), 4096):
        block[n] = 1


def file_in_memory():
    """Exceed the memory of the job with an in-memory file."""
    fd = os.memfd_create("large")
    os.truncate(fd, 1300 * MIB)
    shared(fd)


def sockets():
    """Exceed the memory of the job with allocated memory and the buffers of connections without a reader."""
    block, taken, opened = memory(850 * MIB), 0, []
    server = socket.create_server(("127.0.0.1", 0), backlog=200)
    for _ in range(150):
        client = socket.create_connection(server.getsockname())
        opened += [client, server.accept()[0]]
        client.setblocking(False)
        waits = 0
        while waits < 20:  # the kernel needs time to move data to the other end
            try:
                taken += client.send(bytes(MIB))
            except BlockingIOError:
                waits += 1
                time.sleep(0.002)
        if taken > 200 * MIB:
            return
    raise OSError(f"only {taken // MIB} MiB beside {len(block) // MIB}")


WAYS = {
    "memory of one process": lambda: memory(1300 * MIB),
    "memory of several processes": memory_together,
    "anonymous shared memory": lambda: shared(-1),
    "file in memory": file_in_memory,
    "memory of sockets": sockets,
    "processes and threads": processes,
    "shared memory": shared_memory,
}


def main():
    """Try one way after another, because each of them uses up a resource of the job."""
    for name, way in WAYS.items():
        print(f"way|{name}|trying|", flush=True)  # the kernel may end the whole job
        pid = os.fork()
        if pid == 0:
            os.setsid()
            try:
                way()
            except (OSError, MemoryError):
                os._exit(1)
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        # The kernel kills a process instead of giving it the memory.
        result = {0: "open", 1: "closed", -signal.SIGKILL: "closed"}.get(os.waitstatus_to_exitcode(status), "untried")
        print(f"way|{name}|{result}|", flush=True)
    print("way|end|end", flush=True)


main()

"""Training code for tests that kill, fork and signal processes. Usage: child.py MODE [ARG].

A mode prints a line with `say` after a call has returned. Each line is written with one unbuffered
write, so the parent gets it even if the process is killed immediately afterwards.
"""

from __future__ import annotations

import multiprocessing
import os
import select
import signal
import sys
import time
from typing import Any

import signalbox
from conftest import QUICK
from signalbox.sinks import Online


def say(words: str) -> None:
    """Write one line for the parent."""
    os.write(1, f"{words}\n".encode())


def chaos(generation: str) -> None:
    """Report until killed. Every line on stdout is a report that must not be lost."""
    run = signalbox.init(policy=QUICK._replace(segment_bytes=20_000))
    for step in range(1500):
        run.log({f"gen{generation}": step}, step=step)
        run.text(f"gen{generation} {step}")
        if step % 100 == 0:
            samples = [{"user": "x" * 300, "reward": step}] * 3
            run.validation(step=int(generation) * 1_000_000 + step, samples=samples)
        say(str(step))
    signal.pause()  # the sender is still sending, so the kill can interrupt it at any point


def term(seconds: str) -> None:
    """Train until SIGTERM, with a report that is still waiting to be batched."""
    run = signalbox.init(policy=QUICK._replace(linger=60.0))
    run.log({"a": 1}, step=0)
    say("ready")
    time.sleep(float(seconds))


def term_own(seconds: str) -> None:
    """Do the same as the mode term, but with a SIGTERM handler of the training code that ends the process."""

    def stop(number: int, frame: Any) -> None:
        say("own handler")
        sys.exit(7)

    signal.signal(signal.SIGTERM, stop)
    with signalbox.init(policy=QUICK._replace(linger=60.0)) as run:
        run.log({"a": 1}, step=0)
        say("ready")
        time.sleep(float(seconds))


def forgot(seconds: str) -> None:
    """Report without calling finish."""
    run = signalbox.init(policy=QUICK._replace(linger=0.3, exit_timeout=float(seconds)))
    run.log({"a": 1}, step=0)


def outside(_: str) -> None:
    """Report to a run without a job until killed."""
    run = signalbox.init(policy=QUICK, project="lab", name="killed", hardware=0)
    for step in range(41):
        run.log({"loss": step}, step=step)
        say(str(step))
    signal.pause()  # the sender is still sending, so the kill can interrupt it at any point


def forks(count: str) -> None:
    """Report from forked workers, while the parent's threads use the lock."""
    with signalbox.init(policy=QUICK) as run:
        run.log({"parent": 0}, step=0)
        context = multiprocessing.get_context("fork")
        workers = []
        for k in range(int(count)):
            workers.append(context.Process(target=_worker, args=(run, k)))
            workers[-1].start()
            run.log({"parent": k + 1}, step=k + 1)
        for worker in workers:
            worker.join(20)
            assert worker.exitcode == 0, worker.exitcode


def _worker(run: signalbox.Run, k: int) -> None:
    for step in range(20):
        run.log({f"worker{k}": step}, step=step)
    if k % 2:
        assert run.flush(10)  # the other workers leave their reports to the parent


def capture(_: str) -> None:
    """Write output from Python, to the descriptors and from a child process while output is captured."""
    with signalbox.init(policy=QUICK) as run:
        run.capture_output()
        print("from print")
        print("from stderr", file=sys.stderr)
        os.system("echo from child")
        os.write(1, b"step 1\rstep 2\rstep 3\n")
        os.write(1, "caf\u00e9 no newline".encode())


def capture_bar(_: str) -> None:
    """Overwrite a line until stdin is closed, and write other lines meanwhile."""
    with signalbox.init(policy=QUICK) as run:
        run.capture_output()
        for n in range(1, 3000):
            os.write(2, f"\rEpoch 1: {n}%".encode())
            if n == 20:
                print("beside")
                run.text("reported")
            if sys.stdin in select.select([sys.stdin], [], [], 0.02)[0]:
                break
        os.write(2, b"\rEpoch 1: done")


def capture_fork(_: str) -> None:
    """Fork while the thread that copies output holds the lock of the log, because it waits for the outbox."""
    with signalbox.init(policy=QUICK) as run:
        run.capture_output()
        assert isinstance(run._sink, Online) and run._capture is not None
        with run._sink.box.cond:
            print("from parent")
            while not run._capture._screen._lock.locked():
                time.sleep(0.001)
            pid = os.fork()
            if pid == 0:
                signal.alarm(15)  # ends a child that hangs
                run.text("from child")
                run.failed("on purpose")
                os._exit(0 if run.flush(5) else 1)
        assert os.waitpid(pid, 0)[1] == 0


def capture_flood(count: str) -> None:
    """Write more output than fits into a pipe, while network failures print warnings to the captured stderr."""
    with signalbox.init(policy=QUICK, on_error="warn") as run:
        run.capture_output()
        for i in range(int(count)):
            print(f"{i} " + "x" * 200)
            run.log({"a": i}, step=i)


if __name__ == "__main__":
    mode = sys.argv[1]
    argument = sys.argv[2] if len(sys.argv) > 2 else ""
    {
        "chaos": chaos,
        "term": term,
        "term_own": term_own,
        "forgot": forgot,
        "forks": forks,
        "outside": outside,
        "capture": capture,
        "capture_bar": capture_bar,
        "capture_fork": capture_fork,
        "capture_flood": capture_flood,
    }[mode](argument)

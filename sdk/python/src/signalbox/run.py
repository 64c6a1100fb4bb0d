"""The run: the API with which training code reports."""

from __future__ import annotations

import contextlib
import os
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, Mapping, Optional, Sequence, Tuple, Type

from . import flatten, forks, limits
from .capture import Capture
from .control_signals import CHECKPOINT, PAUSE, STOP, Callback, Paused
from .ending import ENDS, Ending, is_success, summary
from .errors import SignalboxError, SpoolError
from .notices import notice, say
from .policy import Policy
from .sinks import Sink, undelivered
from .wire import KINDS, encode, finite, now, number, point

if TYPE_CHECKING:
    from .kept import Folder
    from .sampler import Sampler

LOG_PIECE = 64 * 1024  # characters of one log chunk


class Run:
    """Reports of one training run. Safe to use from several threads.

    Every reporting call except `text` raises an error if the control plane has refused a report since the last call;
    refused log lines do not count. With on_error="warn", these errors are printed to stderr instead. Invalid arguments
    always raise.
    """

    def __init__(
        self,
        sink: Sink,
        policy: Policy,
        on_error: str,
        resume_from: Optional[str] = None,
        rank: int = 0,
        id: str = "",
        folder: Optional["Folder"] = None,
    ) -> None:
        self._sink = sink
        self._policy = policy
        self._warns = on_error == "warn"
        self._first = rank == 0
        self._capture: Optional[Capture] = None
        self._sampler: Optional["Sampler"] = None
        self._finished = False
        self._lock = threading.Lock()
        #: The checkpoint to continue from, a file or a folder; None to start from the beginning.
        self.resume_from = resume_from
        #: The id of the run, `run_...`; empty if SERVICE_JOB_ENABLED is "0".
        self.id = id
        self._end = Ending(folder)
        forks.renew(self)

    def after_fork_in_child(self) -> None:
        """Replace the lock, which another thread may have held."""
        self._lock = threading.Lock()

    @property
    def finished(self) -> bool:
        """Whether finish or leave was called."""
        return self._finished

    def starting(self) -> None:
        """Report that preparation begins. Returns once the control plane has stored the report."""
        self._lifecycle("starting")

    def running(self) -> None:
        """Report that training begins; this is the start of billing."""
        self._lifecycle("running")

    def succeeded(self) -> None:
        """Report success; the report is sent after all earlier reports are settled."""
        self._lifecycle("succeeded")

    def failed(self, message: str = "") -> None:
        """Report failure; the message is written to the run's log."""
        if message:
            self.text(f"failed: {message}")
        self._lifecycle("failed")

    def hparams(self, config: Any) -> None:
        """Report hyperparameters, which are merged with earlier ones.

        `config` is a nested dict, a dataclass, a Namespace or an OmegaConf-like object.
        """
        params = flatten.params(config)
        if params:
            self._report("hparams", [(encode({"params": params}), 1)])

    def log(self, values: Mapping[str, Any], step: int) -> None:
        """Report metrics of one step. Nested names are joined by dots; each value must be one number."""
        at, ts = flatten.step_of(step), now()
        self._points("metrics", [point(key, at, value, ts) for key, value in flatten.metrics(values)])

    def validation(
        self,
        step: int,
        samples: Sequence[Mapping[str, Any]],
        avg_reward: Optional[float] = None,
        accuracy: Optional[float] = None,
    ) -> None:
        """Report a validation round with its samples. A large round is sent in several requests."""
        from . import samples as shapes

        at, limit = flatten.step_of(step), min(self._policy.chunk_bytes, limits.BULK_BYTES // 2)
        rounds = shapes.chunks(at, samples, avg_reward, accuracy, limit)
        self._report("validation", [(chunk, 1) for chunk in rounds])

    def text(self, line: str) -> None:
        """Write a line to the run's log. Never raises: the log must not harm the run."""
        try:
            capture = self._capture
            if capture is None:
                self._write(f"{line}\n")
            else:
                capture.line(f"{line}")
        except Exception:
            return

    def _write(self, text: str) -> None:
        """Write a piece of output to the run's log."""
        try:
            whole = text.replace("\x00", "\ufffd")
            pieces = [whole[i : i + LOG_PIECE] for i in range(0, len(whole), LOG_PIECE)]
            self._sink.put("logs", [(encode(piece), 1) for piece in pieces])
        except Exception:
            return

    def capture_output(self) -> None:
        """Start copying standard output and standard error, including those of child processes, to the run's log.

        The text of a line that is not finished, such as a progress bar, is copied after 3 s, then at intervals that grow
        to 10 s, and only from rank 0. The copy ends before the run reports that it has succeeded or failed, because that
        report is its last one.
        """
        with self._lock:
            if self._capture is None:
                self._capture = Capture(self._write, self._policy if self._first else None)
                self._capture.start()

    def artifact(self, path: "str | os.PathLike[str]", kind: str, format: str, step: int) -> str:
        """Upload a file, or a folder as a tar, and register it as an artifact.

        The artifact's `name` is the path, relative to SERVICE_JOB_WORKDIR if it is inside; that of a folder ends in .tar.
        Return its object URI, or its path if the run is offline. With on_error="warn", return "" after an error.
        """
        if kind not in KINDS:
            raise ValueError(f"kind {kind!r} is not one of {', '.join(KINDS)}")
        if not format:
            raise ValueError("format is empty; give the layout, such as safetensors or gguf")
        at, local = flatten.step_of(step), os.fspath(path)
        from .pack import pack, refuse_sensitive

        refuse_sensitive(os.path.basename(os.path.normpath(local)))
        packed = pack(local) if os.path.isdir(local) else None
        try:
            name = os.path.normpath(local) + ".tar" if packed else local
            return self._store(packed or local, name, kind, format, at)
        except (SignalboxError, OSError) as err:
            if isinstance(err, OSError) or not self._warns:
                raise
            say(err)
            return ""
        finally:
            if packed is not None:
                os.unlink(packed)

    def _store(self, file: str, name: str, kind: str, format: str, step: int) -> str:
        self._sink.check()
        stored = self._sink.upload(file, kind, name)
        n = self._sink.put("artifact", [(encode({"kind": kind, "format": format, "step": step, **stored}), 1)])
        self._sink.settle(n)
        self._sink.check()
        return str(stored["path"])

    def should_checkpoint(self) -> bool:
        """Return whether the control plane requests a checkpoint.

        If it does, save the state of the training and pass it to `checkpoint`. Call this method at every step;
        it is cheap. The control plane refuses to pause a run that neither checks for signals nor has a
        checkpoint, unless the job's spec or recipe permits it.
        """
        return self._sink.signals().now().signal == CHECKPOINT

    def should_stop(self) -> bool:
        """Return whether the current signal is to stop or to pause. If so, the training loop must end soon."""
        return self._sink.signals().now().signal in (STOP, PAUSE)

    def on_signal(self, callback: Callback) -> None:
        """Call `callback(signal)` with every new signal, on a separate thread."""
        self._sink.signals().call(callback)

    def checkpoint(self, path: "str | os.PathLike[str]", format: str, step: int) -> str:
        """Upload and register a checkpoint from which training can continue. Return its object URI.

        This acknowledges a request for a checkpoint. If the run is being paused, it then raises `Paused`, which
        ends the process.
        """
        current = self._sink.signals().now()
        uri = self.artifact(path, kind="checkpoint", format=format, step=step)
        if current.signal == CHECKPOINT and uri:
            then = self._sink.signals().acknowledge(current)
            if then.signal == PAUSE:
                raise Paused
        return uri

    def environment(self) -> None:
        """Report the environment: interpreter, packages, CUDA, GPUs, git and system.

        In a run with several processes, only the first one reports it. In a run on several nodes, the first
        process of each node also reports the hardware of the node.
        """
        from . import machine

        if machine.first(os.environ, "RANK"):
            self._report("environment", [(encode(machine.picture()), 1)])
        if machine.several(os.environ) and machine.first(os.environ, "LOCAL_RANK"):
            self.nodes([machine.node(os.environ)])

    def nodes(self, nodes: Iterable[Mapping[str, Any]]) -> None:
        """Report the hardware of the nodes of a run, each as {rank, host, gpus, ib, cpu, mem_gb}."""
        found = [dict(node) for node in nodes]
        if found:
            self._report("environment_nodes", [(encode(finite({"nodes": found})), 1)])

    def benchmark(self, name: str, metric: str, value: float, **fields: Any) -> None:
        """Report an external score. Optional fields are version, n, stderr, config_digest and samples_uri."""
        score = number(flatten.scalar(metric, value))
        body = {"name": name, "metric": metric, "value": score, **fields}
        self._report("benchmark", [(encode(finite(body)), 1)])

    def hardware(self, points: Iterable[Mapping[str, Any]]) -> None:
        """Report hardware samples, each {node, gpu, key, value}. If `ts` is missing, the current time is added."""
        ts = now()
        shaped = [{"ts": ts, **p, "value": number(flatten.scalar(p["key"], p["value"]))} for p in points]
        self._points("hardware", [encode(finite(p)) for p in shaped])

    def monitor(self, interval: float = 10.0) -> None:
        """Start reporting hardware samples every `interval` seconds. Only the first process of each node does so."""
        from . import machine
        from .sampler import Sampler

        if interval <= 0:
            raise ValueError("interval must be greater than 0 seconds")
        with self._lock:
            if self._sampler is None and not self._finished and machine.first(os.environ, "LOCAL_RANK"):
                self._sampler = Sampler(self._sampled, interval)
                self._sampler.start()

    def _sampled(self, points: List[Dict[str, Any]]) -> None:
        """Write samples to the spool. Earlier refusals must be raised in the training code, not in this thread."""
        with contextlib.suppress(SignalboxError, OSError):
            self._sink.put("hardware", [(b",".join(encode(finite(p)) for p in points), len(points))])

    def rollouts(
        self,
        name: str,
        rollouts: Iterable[Mapping[str, Any]],
        version: Optional[str] = None,
        evaluation: Optional[Mapping[str, Any]] = None,
    ) -> None:
        """Report rollouts of an agent's evaluation on the benchmark `name`.

        `evaluation` contains fields of the evaluation, such as model, environment and taskset_digest. Identify
        tasks by `signalbox.task_key`.
        """
        from . import evaluation as shapes

        limit = min(self._policy.chunk_bytes, limits.BULK_BYTES // 2)
        self._report("benchmark", shapes.requests(name, rollouts, version, evaluation, limit))

    def flush(self, timeout: float = 60.0) -> bool:
        """Wait until all reports so far are settled. Return False after the timeout or if the token is refused."""
        return self._sink.flush(timeout)

    def finish(self, timeout: float = 60.0) -> int:
        """Deliver all reports within `timeout` seconds, and close the run.

        A run that init(project=...) made is reported as succeeded, unless its end was reported. Undelivered reports stay
        in the spool for `python -m signalbox flush`. Their number is returned with on_error="warn"; otherwise UndeliveredError
        is raised. Refused reports raise IngestError. If the end cannot be written to the spool, because the disk is full, the
        run stays open, and SpoolError is raised or 1 returned: call finish again.
        """
        if not self._finished:
            if self._end.outside and self._end.event is None:
                self._end.owe("succeeded")
            self._stop()
            failure = self._end.attempt(self._sink)
            if failure is not None:
                return self._fail(failure, 1)
        return self.leave(timeout)

    def leave(self, timeout: float = 60.0) -> int:
        """Do the same as finish, but do not end a run that init(project=...) made, and close the run in any case.

        A later process can continue it with init(resume=True). The interpreter calls this at its exit.
        """
        with self._lock:
            if self._finished:
                return 0
            self._finished = True
        self._stop()
        failures = [f for f in (self._end.last(self._sink, self.id), self._sink.close(timeout)) if f is not None]
        self._end.tidy()
        for failure in failures[1:]:  # only one error can be raised
            notice(failure)
        return self._fail(failures[0], sum(map(undelivered, failures)) + self._end.owed) if failures else 0

    def _fail(self, failure: Exception, reports: int) -> int:
        """Raise the error; with on_error="warn", print it and return the number of reports that it leaves behind."""
        if not self._warns:
            raise failure
        say(failure)
        return reports

    def _stop(self) -> None:
        """Stop the threads that report by themselves: those of the captured output and of the hardware samples."""
        if self._sampler is not None:
            self._sampler.stop()
        if self._capture is not None:
            self._capture.stop()

    def __enter__(self) -> "Run":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if isinstance(error, Paused):
            self.leave()
            return
        try:
            self._conclude(error)
        except Exception as err:
            if is_success(error):
                raise
            say(err)  # the caller's exception takes precedence over a reporting error

    def _conclude(self, error: Optional[BaseException]) -> None:
        """Report the end, unless one was reported, and finish. Of a run without a job, only finish waits for the delivery."""
        try:
            if self._end.event is None and not self._finished:
                if not is_success(error):
                    self.text(f"failed: {summary(error)}")
                self._lifecycle(ENDS[not is_success(error)], settle=not self._end.outside)
        except SpoolError:
            if not self._end.owed:
                raise
        finally:
            self.finish()

    def _lifecycle(self, event: str, settle: bool = True) -> None:
        if event not in ENDS:
            if self._capture is not None:
                self._capture.drain()
            self._report("lifecycle", [(encode({"event": event, "ts": now()}), 1)], settle)
        elif self._finished:
            raise SignalboxError("this run is finished; it accepts no more reports")
        elif self._sink.signals().leaving():
            self._end.event = event  # a paused run has not ended: the next attempt continues it
        else:
            self._stop()  # the control plane accepts no reports after this one
            self._end.owe(event)
            self._deliver(lambda: self._end.write(self._sink), settle)

    def _points(self, stream: str, points: List[bytes]) -> None:
        """Combine points into reports, up to the limits of a request."""
        most = self._policy.max_points
        if points:
            groups = (points[i : i + most] for i in range(0, len(points), most))
            self._report(stream, [(b",".join(group), len(group)) for group in groups])

    def _report(self, stream: str, items: List[Tuple[bytes, int]], settle: bool = False) -> None:
        """Write the reports to the spool, then raise earlier refusals. The reports are kept even if this raises."""
        self._deliver(lambda: self._sink.put(stream, items), settle)

    def _deliver(self, write: Callable[[], int], settle: bool) -> None:
        try:
            n = write()
            if settle:
                self._sink.settle(n)
            self._sink.check()
        except SignalboxError as err:
            if not self._warns:
                raise
            say(err)

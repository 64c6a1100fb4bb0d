"""Report a training run to a Signalbox control plane. Uses only the standard library.

    import signalbox

    with signalbox.init() as run:
        run.starting()
        run.hparams(config)
        run.running()                       # training begins: the start of billing
        for step in range(steps):
            run.log({"train/loss": loss}, step=step)
            if run.should_checkpoint():     # the run is being paused
                save("out/state")
                run.checkpoint("out/state", format="npz", step=step)
        run.artifact("out/model", kind="hf_export", format="safetensors", step=steps)

`run.resume_from` is the checkpoint that an earlier attempt saved, or None.
`init` reads the SERVICE_JOB_* environment that the platform injects. Outside of a job, `init(project="NAME")` creates a
run at the control plane SERVICE_SERVER, with the user's token SERVICE_TOKEN.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Mapping, Optional, Sequence, Union

from .config import load
from .control_signals import Paused, Signal
from .errors import ConfigError, IngestError, SensitiveFileError, SignalboxError, SpoolError, UndeliveredError, Unreachable
from .evaluation import task_key
from .notices import notice
from .policy import Policy
from .run import Run
from .signals import at_exit, on_term
from .sinks import Offline, Online, Sink

if TYPE_CHECKING:
    from .kept import Folder

__version__ = "0.1.0"
__all__ = [
    "ConfigError",
    "IngestError",
    "Paused",
    "Policy",
    "Run",
    "SensitiveFileError",
    "Signal",
    "SignalboxError",
    "SpoolError",
    "UndeliveredError",
    "Unreachable",
    "init",
    "task_key",
]


def init(
    *,
    on_error: str = "raise",
    policy: Optional[Policy] = None,
    env: Optional[Mapping[str, str]] = None,
    handle_sigterm: bool = True,
    hardware: float = 10.0,
    project: Optional[str] = None,
    name: Optional[str] = None,
    tags: Sequence[str] = (),
    labels: Optional[Mapping[str, str]] = None,
    silence: Optional[int] = None,
    resume: Union[bool, str] = False,
    server: Optional[str] = None,
) -> Run:
    """Return the run that SERVICE_JOB_* identifies or, outside of a job, a new run in `project`.

    Raises ConfigError if SERVICE_JOB_ENABLED is neither "0" nor "1", unless it is unset and `project` is given. In a job,
    `project` and the arguments after it are ignored, and with "0" too.

    A new run needs the address of the control plane, `server` or SERVICE_SERVER, and a token of the user,
    SERVICE_TOKEN. It is called `name`, the name of the script by default. It ends with `finish` or the `with` block; if it
    gets no report for `silence` seconds (86,400 by default), it counts as failed. With resume=True, the newest run
    of the project, and of the name if it is given, is continued that this user began on this machine, that has not ended and
    to which no running process reports; without such a run, a new one is created. resume="run_..." continues this run. A run
    that this process has begun with the same project and name, as when a cell of a notebook is run again, is left first.
    Raises IngestError if the control plane refuses, and Unreachable if it does not respond.

    Otherwise init does not wait for any request. Reports that earlier processes of the run left in the spool folder
    are delivered before the lifecycle events and artifacts of this process. The first process of each
    node reports hardware samples of its machine every `hardware` seconds; with 0 it reports none.
    """
    if on_error not in ("raise", "warn"):
        raise ValueError('on_error must be "raise" or "warn"')
    given = os.environ if env is None else env
    steer = policy or Policy()
    folder: Optional[Folder] = None
    if project is not None and "SERVICE_JOB_ENABLED" not in given:
        from . import outside

        request = outside.Request(project, name, tags, labels, silence, resume, server)
        outside.leave(request)
        config, folder = outside.begin(request, given)
    else:
        config = load(given)
        if project is not None and config.enabled:
            notice(f"project {project} is ignored: this process reports to the run of its job, {config.run_id}")
    try:
        sink: Sink = Online(config, steer) if config.enabled else Offline(config)
    finally:
        if folder is not None:
            folder.release()  # the lock of the spool now shows that this process reports to the run
    run = Run(sink, steer, on_error, config.resume_from, config.rank, config.run_id if config.enabled else "", folder)
    if folder is not None:
        outside.opened(request, run)
    if config.enabled:
        at_exit(run.leave, steer)
        if hardware > 0:
            run.monitor(hardware)
        if handle_sigterm:
            on_term(run.flush, steer)
    return run

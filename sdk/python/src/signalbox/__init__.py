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
`init` reads the SERVICE_JOB_* environment that the platform injects.
"""

from __future__ import annotations

import os
from typing import Mapping, Optional

from .config import load
from .control_signals import Paused, Signal
from .errors import ConfigError, IngestError, SensitiveFileError, SignalboxError, SpoolError, UndeliveredError
from .evaluation import task_key
from .policy import Policy
from .run import Run
from .signals import at_exit, on_term
from .sinks import Offline, Online, Sink

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
) -> Run:
    """Return the run that SERVICE_JOB_* identifies. Raises ConfigError unless SERVICE_JOB_ENABLED is "0" or "1".

    init does not wait for any request. Reports that earlier processes of the run left in the spool folder
    are delivered before the lifecycle events and artifacts of this process. The first process of each
    node reports hardware samples of its machine every `hardware` seconds; with 0 it reports none.
    """
    config = load(os.environ if env is None else env)
    steer = policy or Policy()
    sink: Sink = Online(config, steer) if config.enabled else Offline(config)
    run = Run(sink, steer, on_error, config.resume_from, config.rank)
    if config.enabled:
        at_exit(run.finish, steer)
        if hardware > 0:
            run.monitor(hardware)
        if handle_sigterm:
            on_term(run.flush, steer)
    return run

"""Start a training script: several processes on several GPUs, offline defaults, and errors with a clear message."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Callable, Dict, List, Mapping, Optional

import signalbox

from .inputs import InputError, Job, from_environment

# Variables that are set unless the user has set them. Nothing is looked up on a hub, and nothing is reported elsewhere.
DEFAULTS: Mapping[str, str] = {
    "HF_HUB_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",  # the run has metrics; in a log, progress bars hide the other lines
}
INVALID = 2  # exit status for invalid inputs

Train = Callable[["signalbox.Run", Job], None]


def main(train: Train, script: str) -> int:
    """Run `train(run, job)` as the job of this process and return the exit status: 0, or 2 for invalid inputs.

    `script` is the file of the caller, which must be next to recipe.json. A job with several GPUs is started again by
    torchrun, one process a GPU.
    """
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    command = torchrun(script, os.environ)
    if command is not None:
        os.execv(sys.executable, command)
    try:
        with signalbox.init() as run:
            run.starting()
            job = from_environment(Path(script).absolute().parent)
            if rank() == 0:
                run.hparams(job.hparams)
            train(run, job)
    except InputError as err:
        print(f"{Path(script).absolute().parent.name}: {err}", file=sys.stderr, flush=True)
        return INVALID
    return 0


def rank(env: Optional[Mapping[str, str]] = None) -> int:
    """Return the rank of this process. Only the first one, 0, reports and exports."""
    from .. import config

    return config.rank(os.environ if env is None else env)


def torchrun(script: str, env: Mapping[str, str]) -> Optional[List[str]]:
    """Return the command that starts one process for each GPU of the job, or None if one process is enough."""
    gpus, nodes = _number(env, "SERVICE_JOB_GPUS_PER_NODE"), max(1, _number(env, "SERVICE_JOB_NNODES"))
    if "WORLD_SIZE" in env or max(gpus, 1) * nodes < 2:
        return None
    options: Dict[str, str] = {"--nproc-per-node": str(max(gpus, 1)), "--nnodes": str(nodes)}
    if nodes > 1:
        options["--node-rank"] = env.get("SERVICE_JOB_NODE_RANK", "0")
        options["--master-addr"] = env.get("SERVICE_JOB_MASTER_ADDR", "127.0.0.1")
    if env.get("SERVICE_JOB_MASTER_PORT"):
        options["--master-port"] = env["SERVICE_JOB_MASTER_PORT"]
    flags = [word for option in options.items() for word in option]
    return [sys.executable, "-m", "torch.distributed.run", *flags, script]


def _number(env: Mapping[str, str], name: str) -> int:
    value = env.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else 0

"""Use more of the disk than the job may, in one of two ways, and print whether that was possible."""

import json
import os
import sys
import time

with open(sys.argv[1]) as f:
    at = json.load(f)  # the targets
MIB = 1 << 20


def hold():
    """Keep what is used for a while, because a watch does not enforce the limit at once."""
    time.sleep(at["disk_seconds"])


def disk_space():
    """Take four times the space of the job's disk, in every folder that the job can write to."""
    made, taken = [], 0
    try:
        for folder in folders():
            for size in [128, 32, 8, 2] * 4:
                if taken >= 256:
                    hold()
                    return
                name = os.path.join(folder, f"large-{os.getpid()}-{len(made)}")
                try:
                    with open(name, "wb") as file:
                        made.append(name)
                        os.posix_fallocate(file.fileno(), 0, size * MIB)
                        taken += size
                except OSError:
                    pass
        raise OSError(f"only {taken} MiB")
    finally:
        for name in made:
            os.unlink(name)


def inodes():
    """Create more files than the job's disk allows, in every folder that the job can write to."""
    made = []
    try:
        for folder in folders():
            try:
                while len(made) < 20_000:
                    name = os.path.join(folder, f"file-{os.getpid()}-{len(made)}")
                    open(name, "x").close()
                    made.append(name)
            except OSError:
                pass
        if len(made) < 20_000:
            raise OSError(f"only {len(made)} files")
        hold()
    finally:
        for name in made:
            os.unlink(name)


def folders():
    """Return the folders that the job can write to. Each may be on its own disk."""
    return [os.environ["SERVICE_JOB_WORKDIR"], os.environ.get("SERVICE_JOB_SPOOL_DIR", "/tmp"), "/tmp", "/var/tmp", os.getcwd()]


try:
    {"disk space": disk_space, "inodes": inodes}[sys.argv[2]]()
    print(f"way|{sys.argv[2]}|open|", flush=True)
except OSError as e:
    print(f"way|{sys.argv[2]}|closed|{e}", flush=True)

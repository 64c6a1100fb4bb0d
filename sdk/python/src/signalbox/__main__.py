"""`python -m signalbox flush DIR` delivers the reports that ended processes of the run left in a spool folder."""

from __future__ import annotations

import argparse
import os
import sys
from typing import List, Optional

from . import outside
from .config import load
from .errors import ConfigError
from .outbox import Outbox
from .policy import Policy


def main(argv: Optional[List[str]] = None, policy: Policy = Policy()) -> int:
    """Return 0 if all reports were delivered, 1 if one was not delivered, 2 for an invalid configuration."""
    parser = argparse.ArgumentParser(prog="python -m signalbox")
    commands = parser.add_subparsers(dest="command", required=True)
    flush = commands.add_parser("flush", help="Deliver the reports in a spool folder.")
    flush.add_argument("dir", help="The spool folder, as in SERVICE_JOB_SPOOL_DIR or as a message has named it.")
    flush.add_argument("--timeout", type=float, default=60.0, help="Timeout in seconds, 60 by default.")
    args = parser.parse_args(argv)
    try:
        return _flush(args.dir, args.timeout, policy)
    except ConfigError as err:
        print(f"signalbox: {err}", file=sys.stderr)
        return 2


def _flush(folder: str, timeout: float, policy: Policy) -> int:
    config = outside.saved_config(folder) if "SERVICE_JOB_ENABLED" not in os.environ else None
    config = config or load(os.environ)
    if not config.enabled:
        raise ConfigError('flush requires SERVICE_JOB_ENABLED="1" and the endpoint and token of the run')
    if not os.path.isdir(folder):
        raise ConfigError(f"folder {folder} does not exist")
    box = Outbox(config, folder, policy)
    found, left_alone = box.adopt_orphans()
    box.flush(timeout)
    owed = box.close()
    outside.tidy(folder)
    print(f"signalbox: {found - owed - box.dropped} of {found} report(s) delivered")
    for name in left_alone:
        print(f"signalbox: {name}: skipped, because it is in use, belongs to another run or is not a spool", file=sys.stderr)
    refused = box.unraised()
    for error in refused:
        print(f"signalbox: refused: {error}", file=sys.stderr)
    if owed:
        print(f"signalbox: {box.closed_by or box.fault or 'the timeout expired'}", file=sys.stderr)
    return 1 if owed or refused or box.dropped or left_alone else 0


if __name__ == "__main__":
    sys.exit(main())

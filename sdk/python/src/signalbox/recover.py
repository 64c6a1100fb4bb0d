"""Read a spool that an ended process left behind."""

from __future__ import annotations

import json
import os
from typing import Dict, List, NamedTuple, Optional, Tuple

from .errors import SpoolError
from .spool import MAX_LINE, VERSION, Record, Segment, Spool, hold, open_own, parse

Key = Tuple[str, int]  # stream, seq
Span = Tuple[int, int, int]  # number of the first report, number of the last report, count of reports


class Left(NamedTuple):
    """An adopted spool and its unsettled reports, in order."""

    spool: Spool
    batches: List[Tuple[str, int, List[Record]]]  # planned requests that are not settled
    pending: List[Record]  # reports that are not in a request yet
    damaged: int  # requests or reports that cannot be restored


def writers(root: str) -> List[str]:
    """Return the names of the writers in a spool folder, oldest first."""
    try:
        found = [e for e in os.scandir(root) if e.is_dir(follow_symlinks=False) and not e.name.startswith(".")]
    except FileNotFoundError:
        return []
    found = [e for e in found if os.path.exists(os.path.join(e.path, "lock"))]
    return [e.name for e in sorted(found, key=_age)]


def _age(entry: os.DirEntry[str]) -> Tuple[int, str]:
    try:
        return os.stat(os.path.join(entry.path, "lock")).st_mtime_ns, entry.name
    except OSError:
        return 0, entry.name


def adopt(root: str, writer: str, run_id: str, limit: int) -> Optional[Left]:
    """Adopt the spool of an ended writer.

    Return None if the writer is still running, has no spool or belongs to another run, or if its files are not a
    valid spool.
    """
    folder = os.path.join(root, writer)
    try:
        lock = open_own(os.path.join(folder, "lock"))
    except OSError:
        return None
    if not hold(lock):
        os.close(lock)
        return None
    spool = Spool(folder, writer, run_id, lock, limit)
    scan = _Scan(spool)
    names = sorted(n for n in _listing(folder) if n.endswith(".log") and n[:-4].isdigit())
    try:
        for name in names:
            scan.segment(int(name[:-4]))
    except (OSError, SpoolError, ValueError):
        spool.close(remove=False)
        return None
    if not names or scan.run_id != run_id:
        spool.close(remove=not names)
        return None
    return scan.result()


def _listing(folder: str) -> List[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []


def _first(batch: Tuple[Key, Span]) -> int:
    return batch[1][0]


class _Scan:
    def __init__(self, spool: Spool) -> None:
        self.spool = spool
        self.run_id: Optional[str] = None
        self.records: Dict[str, List[Record]] = {}
        self.batches: Dict[Key, Span] = {}
        self.settled: Dict[Key, int] = {}
        self.damaged = 0

    def segment(self, number: int) -> None:
        """Read one segment file. Remove its last line if it is incomplete."""
        segment = Segment(self.spool.folder, number)
        self.spool.segments[number] = segment
        offset = 0
        with open(os.dup(segment.fd), "rb") as file:
            file.seek(0)
            while raw := file.readline(MAX_LINE + 1):
                if len(raw) > MAX_LINE:
                    raise SpoolError(f"a line of {segment.path} is too long for a report")
                if not raw.endswith(b"\n"):
                    os.ftruncate(segment.fd, offset)
                    segment.size = offset
                    break
                parsed = parse(raw[:-1])
                if parsed is None:
                    self.damaged += 1
                else:
                    self._line(segment, offset, *parsed)
                offset += len(raw)

    def _line(self, segment: Segment, offset: int, kind: bytes, rest: bytes) -> None:
        if kind == b"H":
            self._header(json.loads(rest))
        elif kind == b"R":
            n, stream, count, fragment = rest.split(b" ", 3)
            at = offset + 11 + len(rest) - len(fragment)
            record = Record(int(n), stream.decode(), int(count), segment.number, at, len(fragment))
            self.records.setdefault(record.stream, []).append(record)
            segment.last_n = record.n
            self.spool.next_n = record.n + 1
        elif kind == b"B":
            stream, seq, first, last, k = rest.split(b" ")
            name = stream.decode()
            self.batches[name, int(seq)] = (int(first), int(last), int(k))
            self.spool.next_seq[name] = int(seq) + 1
        elif kind == b"A":
            stream, seq, status = rest.split(b" ")
            self.settled[stream.decode(), int(seq)] = int(status)
        elif kind == b"U":
            stream, seq = rest.split(b" ")
            self.batches.pop((stream.decode(), int(seq)), None)

    def _header(self, head: Dict[str, object]) -> None:
        known = head.get("v") == VERSION and isinstance(head.get("run_id"), str)
        self.run_id = str(head["run_id"]) if known else None
        n, seqs, rank = head.get("next_n"), head.get("next_seq"), head.get("rank")
        if isinstance(rank, int):  # absent in a spool of an earlier version
            self.spool.rank = rank
        if isinstance(n, int):
            self.spool.next_n = max(self.spool.next_n, n)
        if isinstance(seqs, dict):
            self.spool.next_seq.update(seqs)

    def result(self) -> Left:
        """Assign the reports to their requests and return the unsettled ones. Reports without a request are pending."""
        owed: List[Tuple[str, int, List[Record]]] = []
        pending: List[Record] = []
        for stream, records in self.records.items():
            planned = [(q, *span) for (s, q), span in sorted(self.batches.items(), key=_first) if s == stream]
            position = 0
            for seq, first, last, k in planned:
                while position < len(records) and records[position].n < first:
                    position += 1
                start = position
                while position < len(records) and records[position].n <= last:
                    position += 1
                if (stream, seq) in self.settled:
                    continue
                if position - start == k:
                    owed.append((stream, seq, records[start:position]))
                else:
                    self.damaged += 1
            pending.extend(records[position:])
        owed.sort(key=lambda batch: batch[2][0].n)
        pending.sort()
        return Left(self.spool, owed, pending, self.damaged)

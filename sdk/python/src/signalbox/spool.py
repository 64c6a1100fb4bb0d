"""One writer's append-only record of reports, planned requests and deliveries.

A writer is a folder `<root>/<uuid4 hex>` with segments `00000001.log` and up, and a `lock` that
its process holds until it ends. A segment consists of lines of `<crc32, 8 hex> <kind> <rest>`:

    H <json>                         run_id, the rank of the process, and the counters at the moment the segment began
    R <n> <stream> <count> <json>    a report, in the order of the calls; count is the number of its points
    B <stream> <seq> <first> <last> <k>   a request: the stream's k reports with numbers from first to last
    A <stream> <seq> <status>        its response: delivered (2xx) or permanently refused
    U <stream> <seq>                 the request was refused as a whole: later ones contain its reports

The B line is written before the first try, so that every later try, even by another process, sends the same
key with the same body. Methods are not thread-safe: the outbox calls them under its lock.
"""

from __future__ import annotations

import os
import stat
import zlib
from typing import Dict, List, NamedTuple, Optional, Tuple

from .errors import SpoolError
from .wire import encode

try:
    import fcntl
except ImportError:  # Windows has no such locks: use a separate spool folder for each process
    fcntl = None  # type: ignore[assignment]

VERSION = 1
# The maximum length of a line, in bytes. A spool with a longer line was written by another program.
MAX_LINE = 64 * 1024 * 1024


class Record(NamedTuple):
    """The location of one report. `offset` and `size` are those of its JSON in the segment."""

    n: int
    stream: str
    points: int
    segment: int
    offset: int
    size: int


class Segment:
    """One file of a spool, open for appending and for reading back."""

    def __init__(self, folder: str, number: int) -> None:
        self.number = number
        self.path = os.path.join(folder, f"{number:08d}.log")
        self.fd = open_own(self.path, os.O_CREAT | os.O_APPEND)
        self.size = os.fstat(self.fd).st_size
        self.last_n = -1

    def append(self, line: bytes) -> None:
        """Write one line completely or not at all."""
        if len(line) > MAX_LINE:
            raise SpoolError(f"a report of {len(line)} bytes is too large; it may have at most {MAX_LINE} bytes")
        try:
            written = os.write(self.fd, line)
        except OSError as err:
            raise SpoolError(f"cannot write the spool {self.path}: {err}") from err
        if written != len(line):
            os.ftruncate(self.fd, self.size)
            raise SpoolError(f"cannot write the spool {self.path}: no space left")
        self.size += written

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1


class Spool:
    """The folder of one writer, whose lock this process holds."""

    def __init__(self, folder: str, writer: str, run_id: str, lock: int, limit: int) -> None:
        self.folder = folder
        self.writer = writer
        self.run_id = run_id
        self.rank = 0  # of the process that wrote the reports
        self.segments: Dict[int, Segment] = {}
        self.next_n = 0
        self.next_seq: Dict[str, int] = {}
        self.dirty = False
        self._lock = lock
        self._limit = limit

    @classmethod
    def create(cls, root: str, run_id: str, limit: int, rank: int = 0) -> Spool:
        """Create a writer. Its folder gets its final name only after it is locked."""
        import uuid

        writer = uuid.uuid4().hex
        hidden = os.path.join(root, f".{writer}")
        folder = os.path.join(root, writer)
        try:
            os.makedirs(hidden, mode=0o700)
            lock = open_own(os.path.join(hidden, "lock"), os.O_CREAT)
            hold(lock)
            os.rename(hidden, folder)
            spool = cls(folder, writer, run_id, lock, limit)
            spool.rank = rank
            spool._rotate()
        except OSError as err:
            raise SpoolError(f"cannot open a spool in {root}: {err}") from err
        return spool

    @property
    def current(self) -> Segment:
        """Return the segment that is being written."""
        return self.segments[max(self.segments)]

    def append(self, stream: str, count: int, fragment: bytes) -> Record:
        """Write one report of `count` points. Once this returns, the report survives the end of the process."""
        if self.current.size >= self._limit:
            self._rotate()
        segment, n = self.current, self.next_n
        head = b"R %d %s %d " % (n, stream.encode(), count)
        at = segment.size + 9 + len(head)
        segment.append(line(head + fragment))
        segment.last_n = n
        self.next_n = n + 1
        self.dirty = True
        return Record(n, stream, count, segment.number, at, len(fragment))

    def seal(self, stream: str, records: List[Record]) -> int:
        """Record which reports the stream's next request contains. Return its sequence number."""
        seq = self.next_seq.get(stream, 1)
        span = (seq, records[0].n, records[-1].n, len(records))
        self.current.append(line(b"B %s %d %d %d %d" % ((stream.encode(),) + span)))
        self.next_seq[stream] = seq + 1
        return seq

    def settle(self, stream: str, seq: int, status: int) -> None:
        """Record the response, so that no replay sends this request again."""
        self.current.append(line(b"A %s %d %d" % (stream.encode(), seq, status)))

    def undo(self, stream: str, seq: int) -> None:
        """Record that later requests contain the reports of this one, which is not sent again."""
        self.current.append(line(b"U %s %d" % (stream.encode(), seq)))

    def read(self, record: Record) -> bytes:
        """Return the JSON of one report."""
        found = os.pread(self.segments[record.segment].fd, record.size, record.offset)
        if len(found) != record.size:
            raise SpoolError(f"the spool {self.folder} was truncated by another process")
        return found

    def drop_before(self, n: int) -> None:
        """Delete old segments that contain only reports before n."""
        for number in sorted(self.segments)[:-1]:
            if self.segments[number].last_n >= n:
                return
            gone = self.segments.pop(number)
            gone.close()
            os.unlink(gone.path)

    def sync(self) -> None:
        """Sync the current segment to the disk."""
        self.dirty = False
        try:
            os.fsync(self.current.fd)
        except OSError:
            self.dirty = True

    def close(self, remove: bool) -> None:
        """Close the files; with `remove`, delete them."""
        for segment in self.segments.values():
            segment.close()
        if remove:
            import shutil

            shutil.rmtree(self.folder, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _rotate(self) -> None:
        number = max(self.segments, default=0) + 1
        segment = Segment(self.folder, number)
        head = {
            "v": VERSION,
            "run_id": self.run_id,
            "rank": self.rank,
            "next_n": self.next_n,
            "next_seq": self.next_seq,
        }
        segment.append(line(b"H " + encode(head)))
        if self.segments:
            self.sync()
        self.segments[number] = segment


def line(content: bytes) -> bytes:
    """Return the line of a segment: checksum, content, newline."""
    return b"%08x %s\n" % (zlib.crc32(content), content)


def parse(raw: bytes) -> Optional[Tuple[bytes, bytes]]:
    """Return (kind, rest) of a line without its newline, or None if the checksum is wrong."""
    content = raw[9:]
    if raw[:9] != b"%08x " % zlib.crc32(content) or content[1:2] != b" ":
        return None
    return content[:1], content[2:]


def open_own(path: str, flags: int = 0) -> int:
    """Open a file of a spool for reading and writing.

    Raise OSError if it is not a regular file or has several hard links: an ended process may have left a link to
    another file, or a pipe, from which reading would never end.
    """
    flags |= os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = os.open(path, flags, 0o600)
    found = os.fstat(fd)
    if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
        os.close(fd)
        raise OSError(f"{path} is not a regular file, or has several hard links")
    return fd


def hold(lock: int) -> bool:
    """Try to lock the writer without waiting. Return False if a running process holds the lock."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True

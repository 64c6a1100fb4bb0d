"""The spool: once append has returned, the next process can read the report, whatever happens."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Callable, Dict, List, Optional

import pytest
from signalbox.errors import SpoolError
from signalbox.recover import Left, adopt, writers
from signalbox.spool import Record, Spool, line, parse

BIG = 1 << 20


def write(root: Path, reports: int, limit: int = BIG) -> Spool:
    spool = Spool.create(str(root), "run_1", limit)
    for i in range(reports):
        spool.append("metrics", 1, b'{"i":%d}' % i)
    return spool


def again(root: Path, run_id: str = "run_1") -> Optional[Left]:
    (name,) = writers(str(root))
    return adopt(str(root), name, run_id, BIG)


def texts(spool: Spool, records: List[Record]) -> List[bytes]:
    return [spool.read(r) for r in records]


def test_records_are_read_back_by_this_and_the_next_process(tmp_path: Path) -> None:
    spool = Spool.create(str(tmp_path), "run_1", BIG)
    records = [spool.append("logs", 1, b'"a b\\n"'), spool.append("metrics", 3, b"{},{},{}")]
    assert texts(spool, records) == [b'"a b\\n"', b"{},{},{}"]
    spool.close(remove=False)
    left = again(tmp_path)
    assert left is not None and left.pending == records and not left.batches
    assert texts(left.spool, left.pending) == [b'"a b\\n"', b"{},{},{}"]
    assert left.spool.writer == spool.writer and left.spool.next_n == 2


def test_running_writer_is_skipped(tmp_path: Path) -> None:
    spool = write(tmp_path, 1)
    assert again(tmp_path) is None
    spool.close(remove=False)
    left = again(tmp_path)
    assert left is not None
    assert again(tmp_path) is None, "a spool in use must not be adopted"


def test_spool_of_other_run_is_skipped(tmp_path: Path) -> None:
    write(tmp_path, 1).close(remove=False)
    assert again(tmp_path, "run_2") is None
    assert again(tmp_path) is not None, "the lock must be released"


def test_planned_requests_keep_their_sequence_numbers(tmp_path: Path) -> None:
    spool = write(tmp_path, 0)
    a = [spool.append("metrics", 1, b"{}") for _ in range(3)]
    log = spool.append("logs", 1, b'"x"')
    assert spool.seal("metrics", a) == 1
    b = [spool.append("metrics", 1, b"{}") for _ in range(2)]
    assert spool.seal("metrics", b) == 2
    c = spool.append("metrics", 1, b"{}")
    spool.settle("metrics", 1, 200)
    spool.close(remove=False)
    left = again(tmp_path)
    assert left is not None
    assert left.batches == [("metrics", 2, b)] and left.pending == [log, c]
    assert left.spool.seal("metrics", [c]) == 3 and left.spool.seal("logs", [log]) == 1


def test_truncated_line_loses_only_itself(tmp_path: Path) -> None:
    spool = write(tmp_path, 3)
    path, whole = spool.current.path, spool.current.size
    spool.close(remove=False)
    content = Path(path).read_bytes()
    last = len(content[:-1].rpartition(b"\n")[2]) + 1
    for cut in range(1, last + 1):
        Path(path).write_bytes(content[: whole - cut])
        left = again(tmp_path)
        assert left is not None and left.damaged == 0
        assert texts(left.spool, left.pending) == [b'{"i":0}', b'{"i":1}'], cut
        left.spool.append("metrics", 1, b'{"i":9}')
        left.spool.close(remove=False)
        healed = again(tmp_path)
        assert healed is not None and healed.damaged == 0
        assert texts(healed.spool, healed.pending)[-1] == b'{"i":9}'
        healed.spool.close(remove=False)


def test_flipped_bit_is_detected(tmp_path: Path) -> None:
    spool = write(tmp_path, 3)
    spool.seal("metrics", [Record(n, "metrics", 1, 1, 0, 0) for n in (0, 1)])
    path = Path(spool.current.path)
    spool.close(remove=False)
    path.write_bytes(path.read_bytes().replace(b'{"i":1}', b'{"i":7}'))
    left = again(tmp_path)
    assert left is not None and left.damaged == 2, "the report and its request must be counted as damaged"
    assert not left.batches and texts(left.spool, left.pending) == [b'{"i":2}']


def test_old_segments_are_deleted_and_numbers_kept(tmp_path: Path) -> None:
    spool = Spool.create(str(tmp_path), "run_1", 300)
    for i in range(40):
        record = spool.append("metrics", 1, b'{"i":%d}' % i)
        assert spool.seal("metrics", [record]) == i + 1
        spool.settle("metrics", i + 1, 200)
        spool.drop_before(i + 1)
    assert len(spool.segments) == 1 and len(os.listdir(spool.folder)) == 2
    spool.close(remove=False)
    left = again(tmp_path)
    assert left is not None and not left.pending and not left.batches
    assert left.spool.next_n == 40 and left.spool.next_seq["metrics"] == 41


def test_segment_is_kept_while_report_is_unsettled(tmp_path: Path) -> None:
    spool = Spool.create(str(tmp_path), "run_1", 200)
    for i in range(20):
        spool.append("metrics", 1, b'{"i":%d}' % i)
    many = len(spool.segments)
    spool.drop_before(0)
    assert len(spool.segments) == many > 2
    spool.close(remove=False)
    left = again(tmp_path)
    assert left is not None and len(left.pending) == 20


def test_full_disk_keeps_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spool = write(tmp_path, 2)
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, data[:5]))
    with pytest.raises(SpoolError, match="no space"):
        spool.append("metrics", 1, b"{}")
    monkeypatch.undo()
    spool.append("metrics", 1, b'{"i":2}')
    spool.close(remove=False)
    left = again(tmp_path)
    assert left is not None and left.damaged == 0 and left.spool.next_n == 3
    assert texts(left.spool, left.pending) == [b'{"i":0}', b'{"i":1}', b'{"i":2}']


def test_too_large_report_is_refused_and_the_others_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("signalbox.spool.MAX_LINE", 1000)
    monkeypatch.setattr("signalbox.recover.MAX_LINE", 1000)
    spool = write(tmp_path, 1)
    with pytest.raises(SpoolError, match="too large"):
        spool.append("metrics", 1, b"x" * 1000)
    spool.append("metrics", 1, b"{}")
    spool.close(remove=False)
    left = again(tmp_path)
    assert left is not None and len(left.pending) == 2


def test_unwritable_folder_raises(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SpoolError, match="cannot open a spool"):
        Spool.create(str(tmp_path / "file"), "run_1", BIG)


def test_parse_rejects_damaged_lines() -> None:
    raw = line(b"R 1 x")
    assert raw.endswith(b" R 1 x\n") and parse(raw[:-1]) == (b"R", b"1 x")
    assert parse(raw[:-2]) is None and parse(b"") is None and parse(b"00000000 ") is None


def test_spool_does_not_contain_the_token(tmp_path: Path) -> None:
    spool = write(tmp_path, 1)
    assert b"ing_" not in Path(spool.current.path).read_bytes()
    assert os.stat(spool.folder).st_mode & 0o077 == 0


def left_behind(root: Path, make: Callable[[Path], None]) -> Path:
    """Leave a writer whose segment was replaced."""
    spool = write(root, 1)
    segment = Path(spool.current.path)
    spool.close(remove=False)
    segment.unlink()
    make(segment)
    return segment


def huge(segment: Path) -> None:
    segment.touch()
    os.truncate(segment, 1 << 40)


REPLACEMENTS: Dict[str, Callable[[Path, Path], None]] = {
    "symbolic link": lambda segment, other: segment.symlink_to(other),
    "hard link": lambda segment, other: os.link(other, segment),
    "named pipe": lambda segment, _: os.mkfifo(segment),
    "folder": lambda segment, _: segment.mkdir(),
    "huge file": lambda segment, _: huge(segment),
}


@pytest.mark.parametrize("name", REPLACEMENTS)
def test_files_of_another_kind_are_skipped(tmp_path: Path, name: str) -> None:
    other, root = tmp_path / "other", tmp_path / "spool"
    other.write_text("no line")
    root.mkdir()
    left_behind(root, lambda segment: REPLACEMENTS[name](segment, other))
    assert again(root) is None
    assert other.read_text() == "no line", "an incomplete line would be removed from a spool"


def test_folder_and_lock_outside_of_spool_are_skipped(tmp_path: Path) -> None:
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "spool"
    elsewhere.mkdir()
    write(elsewhere, 1).close(remove=False)
    (found,) = elsewhere.iterdir()
    root.mkdir()
    (root / "link").symlink_to(found, target_is_directory=True)
    assert writers(str(root)) == []
    (root / "own").mkdir()
    (root / "own" / "lock").symlink_to(found / "lock")
    assert adopt(str(root), "own", "run_1", BIG) is None
    os.remove(root / "own" / "lock")
    os.mkfifo(root / "own" / "lock")
    assert adopt(str(root), "own", "run_1", BIG) is None

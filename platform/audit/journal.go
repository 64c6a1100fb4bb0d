package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// Revocation is one entry of the revocation journal: it states that something, such as a token, was revoked.
type Revocation struct {
	Seq     int64     `json:"seq"`
	Kind    string    `json:"kind"`
	Subject string    `json:"subject"` // id or hash of what was revoked
	At      time.Time `json:"at"`
}

const (
	// journalFolder is the folder in SERVICE_AUDIT_DIR that contains one folder per journal.
	journalFolder = "revocations"
	stampFile     = "position.json"
	originFile    = "origin"
	segmentSuffix = ".jsonl"

	// maxJournals limits how many processes of a service use one SERVICE_AUDIT_DIR.
	maxJournals = 64
	// A segment is one file of a journal. It is closed when it is segmentAge old or segmentBytes long.
	segmentAge   = 24 * time.Hour
	segmentBytes = 64 << 20
)

// stamp is the content of the file position.json. It describes the state of the database that the process last saw, and
// what the journal of the process contains.
type stamp struct {
	Position

	// Since is when the journal began. The journal contains every later revocation.
	Since time.Time `json:"since"`
	// Watermark is the number of a transaction. The revocations of all earlier transactions are in the journal.
	Watermark int64 `json:"watermark"`
	// Origin identifies the folder. A copy of the folder has another origin.
	Origin origin `json:"origin"`
}

// origin identifies a file on this machine. A copy of the file has other values.
type origin struct {
	Inode   uint64 `json:"inode"`
	Changed int64  `json:"changed"` // nanoseconds
}

// originOf returns the origin of the file "origin" in a folder. If create is true, it creates the file if missing.
func originOf(dir string, create bool) (origin, error) {
	path := filepath.Join(dir, originFile)
	if create {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, localfile.PrivateMode)
		if err != nil {
			return origin{}, fmt.Errorf("create the origin file of the journal: %w", err)
		}
		if err := f.Close(); err != nil {
			return origin{}, fmt.Errorf("create the origin file of the journal: %w", err)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return origin{}, fmt.Errorf("stat the origin file of the journal: %w", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return origin{}, errors.New("stat the origin file of the journal: this system has no inodes")
	}
	return origin{Inode: st.Ino, Changed: st.Ctim.Nano()}, nil
}

// journal is the folder to which one process writes. Its segments are named by the time, in milliseconds, of their start.
type journal struct {
	dir  string
	age  time.Duration // 0 keeps all segments
	lock *localfile.LockedFile

	segment *os.File
	began   time.Time
	size    int64
	from    time.Time // revocations before this time were deleted; zero if none were
}

// openJournal opens a journal in the first folder of the service that no other process uses.
func openJournal(auditDir, service string, age time.Duration) (*journal, error) {
	for n := range maxJournals {
		dir := filepath.Join(auditDir, journalFolder, service+"-"+strconv.Itoa(n))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("create the folder of the revocation journal: %w", err)
		}
		lock, err := localfile.TryLock(filepath.Join(dir, "lock"))
		if errors.Is(err, localfile.ErrLocked) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("lock the revocation journal: %w", err)
		}
		return &journal{dir: dir, age: age, lock: lock}, nil
	}
	return nil, fmt.Errorf("%d processes of %s already use SERVICE_AUDIT_DIR %s; give each host a folder of its own", maxJournals, service, auditDir)
}

func (j *journal) close() error {
	var err error
	if j.segment != nil {
		err = j.segment.Close()
	}
	return errors.Join(err, j.lock.Close())
}

// add appends revocations. They are on disk when it returns.
func (j *journal) add(now time.Time, all []Revocation) error {
	var lines []byte
	for _, r := range all {
		line, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("encode a revocation: %w", err)
		}
		// The line break comes first, so that it also ends a line truncated by a crash or a full disk.
		lines = append(append(lines, '\n'), line...)
	}
	if err := j.rotate(now); err != nil {
		return err
	}
	_, err := j.segment.Write(lines)
	if err == nil {
		err = j.segment.Sync()
	}
	if err != nil {
		// After a failed sync it is unknown what is on disk. When the caller retries, add writes to a new segment.
		err = errors.Join(err, j.segment.Close())
		j.segment = nil
		return fmt.Errorf("write the revocation journal: %w", err)
	}
	j.size += int64(len(lines))
	return nil
}

// rotate opens a new segment if none is open or if the open one is full or old. It then deletes segments that are too
// old.
func (j *journal) rotate(now time.Time) error {
	if j.segment != nil && j.size < segmentBytes && now.Sub(j.began) < segmentAge {
		return nil
	}
	if j.segment != nil {
		if err := j.segment.Close(); err != nil {
			return fmt.Errorf("close a segment of the revocation journal: %w", err)
		}
		j.segment = nil
	}
	path := filepath.Join(j.dir, fmt.Sprintf("%015d%s", now.UnixMilli(), segmentSuffix))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, localfile.PrivateMode)
	if err != nil {
		return fmt.Errorf("open a segment of the revocation journal: %w", err)
	}
	if err := localfile.SyncDir(j.dir); err != nil {
		return errors.Join(err, f.Close())
	}
	j.segment, j.began, j.size = f, now, 0
	return j.prune(now)
}

// prune deletes the segments whose revocations are all older than j.age. The last segment remains.
func (j *journal) prune(now time.Time) error {
	if j.age == 0 {
		return nil
	}
	starts, err := segments(j.dir)
	if err != nil {
		return err
	}
	for n := range starts {
		if n+1 == len(starts) || now.Sub(starts[n+1].start) < j.age {
			return nil
		}
		if err := os.Remove(starts[n].path); err != nil {
			return fmt.Errorf("delete an old segment of the revocation journal: %w", err)
		}
		j.from = starts[n+1].start
	}
	return nil
}

type segment struct {
	path  string
	start time.Time
}

// segments returns the segments of a journal, oldest first.
func segments(dir string) ([]segment, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the revocation journal: %w", err)
	}
	var all []segment
	for _, e := range entries {
		stem, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		ms, err := strconv.ParseInt(stem, 10, 64)
		if ok && err == nil {
			all = append(all, segment{filepath.Join(dir, e.Name()), time.UnixMilli(ms).UTC()})
		}
	}
	slices.SortFunc(all, func(a, b segment) int { return a.start.Compare(b.start) })
	return all, nil
}

// lines passes every revocation in the file to fn. It skips a line that was truncated.
func lines(path string, fn func(Revocation)) error {
	in, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("open the revocation journal: %w", err)
	}
	defer func() { _ = in.Close() }()
	for from := bufio.NewReader(in); ; {
		line, err := from.ReadBytes('\n')
		var r Revocation
		if len(bytes.TrimSpace(line)) > 0 && json.Unmarshal(line, &r) == nil && r.Seq > 0 {
			fn(r)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the revocation journal: %w", err)
		}
	}
}

// readStamp returns the stamp of a journal, or nil if it has none.
func readStamp(dir string) (*stamp, error) {
	s := &stamp{}
	err := localfile.ReadJSON(filepath.Join(dir, stampFile), s)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // The journal has no stamp.
	}
	if err != nil {
		return nil, fmt.Errorf("read the position of the database in %s: %w", dir, err)
	}
	return s, nil
}

// journalDirs returns the folders of the journals of a service.
func journalDirs(auditDir, service string) ([]string, error) {
	dirs, err := filepath.Glob(filepath.Join(auditDir, journalFolder, service+"-*"))
	if err != nil {
		return nil, fmt.Errorf("find the revocation journals of %s: %w", service, err)
	}
	return dirs, nil
}

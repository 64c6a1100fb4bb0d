package traffic

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// segmentMax is the size, in bytes, at which a segment is closed. It limits the size of a replay's transaction.
const segmentMax = 4 << 20

const suffix = ".jsonl"

// lockFile is the file in the folder that the process which uses the folder locks.
const lockFile = "lock"

// Spool stores calls on the local disk while the database is unavailable. It writes segments of JSON lines. Each
// segment is a batch with its own name. A segment that is read must not grow. The method Segments therefore closes the
// segment that is open in this process, and only one process may use a folder.
type Spool struct {
	dir string
	ids *id.Source

	mu   sync.Mutex
	file *os.File
	size int64
	lock *localfile.LockedFile // nil unless this process has the lock of the folder
}

// NewSpool returns a spool in the given folder and creates the folder if it is missing.
func NewSpool(dir string, ids *id.Source) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the spool folder: %w", err)
	}
	return &Spool{dir: dir, ids: ids}, nil
}

// Lock reserves the folder for this process until Unlock. It returns localfile.ErrLocked if another process uses the
// folder. The result fresh reports whether the folder was empty, so that no earlier process has used it.
func (s *Spool) Lock() (fresh bool, err error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return false, fmt.Errorf("list the spool: %w", err)
	}
	lock, err := localfile.TryLock(filepath.Join(s.dir, lockFile))
	if err != nil {
		return false, fmt.Errorf("lock the spool: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lock = lock
	return len(entries) == 0, nil
}

// Unlock lets another process use the folder. It does nothing without the lock.
func (s *Spool) Unlock() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lock == nil {
		return nil
	}
	err := s.lock.Close()
	s.lock = nil
	if err != nil {
		return fmt.Errorf("unlock the spool: %w", err)
	}
	return nil
}

// Name returns a new name for a batch.
func (s *Spool) Name() string { return s.ids.New(id.Call) }

// Append writes calls to the open segment. If no segment is open, it opens a new one with the given name.
func (s *Spool) Append(name string, calls []*Call) error {
	lines, err := encode(calls)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		if s.file, err = s.create(name); err != nil {
			return err
		}
		s.size = 0
	}
	n, err := s.file.Write(lines)
	s.size += int64(n)
	if err != nil {
		return fmt.Errorf("write a segment: %w", err)
	}
	if s.size >= segmentMax {
		return s.closeOpen()
	}
	return nil
}

// Write creates a closed segment with the given name that contains the calls.
func (s *Spool) Write(name string, calls []*Call) error {
	lines, err := encode(calls)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	f, err := s.create(name)
	if err != nil {
		return err
	}
	_, err = f.Write(lines)
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write a segment: %w", err)
	}
	return nil
}

// Close closes the open segment. The next Append opens another one.
func (s *Spool) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closeOpen()
}

func encode(calls []*Call) ([]byte, error) {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, c := range calls {
		if err := lines.Encode(c); err != nil {
			return nil, fmt.Errorf("encode a call: %w", err)
		}
	}
	return b.Bytes(), nil
}

func (s *Spool) create(name string) (*os.File, error) {
	f, err := os.OpenFile(s.path(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create a segment: %w", err)
	}
	return f, nil
}

func (s *Spool) path(name string) string { return filepath.Join(s.dir, name+suffix) }

func (s *Spool) closeOpen() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if err != nil {
		return fmt.Errorf("close a segment: %w", err)
	}
	return nil
}

// Segments closes the open segment and returns the names of all segments, oldest first.
func (s *Spool) Segments() ([]string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.closeOpen(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list the spool: %w", err)
	}
	var names []string
	for _, e := range entries {
		if name, is := strings.CutSuffix(e.Name(), suffix); is {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Read returns the calls of a segment and the number of unreadable lines. An incomplete last line, left by a killed
// process, is skipped and not counted.
func (s *Spool) Read(name string) (calls []*Call, unread int, err error) {
	f, err := os.Open(s.path(name))
	if err != nil {
		return nil, 0, fmt.Errorf("open the segment: %w", err)
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, unread, nil
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read the segment: %w", err)
		}
		c := &Call{}
		if json.Unmarshal(line, c) != nil {
			unread++
			continue
		}
		calls = append(calls, c)
	}
}

// Remove deletes a segment.
func (s *Spool) Remove(name string) error {
	if err := os.Remove(s.path(name)); err != nil {
		return fmt.Errorf("remove the segment: %w", err)
	}
	return nil
}

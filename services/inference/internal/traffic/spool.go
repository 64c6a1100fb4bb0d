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
)

// segmentMax closes a segment, so that a replay is a transaction of a bounded size.
const segmentMax = 4 << 20

const suffix = ".jsonl"

// Spool keeps calls on the local disk while the database is away: segments of JSON lines. The one that
// is being written is closed by Segments, so what is read never grows.
type Spool struct {
	dir string
	ids *id.Source

	mu   sync.Mutex
	file *os.File
	size int64
}

// NewSpool opens the folder and makes it where it is missing.
func NewSpool(dir string, ids *id.Source) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the spool: %w", err)
	}
	return &Spool{dir: dir, ids: ids}, nil
}

// Append writes calls to the open segment.
func (s *Spool) Append(calls []*Call) error {
	var b bytes.Buffer
	lines := json.NewEncoder(&b)
	for _, c := range calls {
		if err := lines.Encode(c); err != nil {
			return fmt.Errorf("encode a call: %w", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.file == nil {
		f, err := os.OpenFile(filepath.Join(s.dir, s.ids.New(id.Call)+suffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return fmt.Errorf("open a segment: %w", err)
		}
		s.file, s.size = f, 0
	}
	n, err := s.file.Write(b.Bytes())
	s.size += int64(n)
	if err != nil {
		return fmt.Errorf("write a segment: %w", err)
	}
	if s.size >= segmentMax {
		return s.closeOpen()
	}
	return nil
}

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

// Segments names what waits, oldest first.
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
		if strings.HasSuffix(e.Name(), suffix) {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// Read answers the calls of a segment; a last line that a kill cut short is left out.
func (s *Spool) Read(name string) ([]*Call, error) {
	f, err := os.Open(filepath.Join(s.dir, name))
	if err != nil {
		return nil, fmt.Errorf("open the segment: %w", err)
	}
	defer func() { _ = f.Close() }()
	var calls []*Call
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return calls, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the segment: %w", err)
		}
		c := &Call{}
		if err := json.Unmarshal(line, c); err != nil {
			return nil, fmt.Errorf("decode a call: %w", err)
		}
		calls = append(calls, c)
	}
}

// Remove forgets a segment that was replayed.
func (s *Spool) Remove(name string) error {
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil {
		return fmt.Errorf("remove the segment: %w", err)
	}
	return nil
}

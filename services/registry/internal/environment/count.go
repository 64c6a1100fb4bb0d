package environment

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/signalbox-dev/signalbox/platform/textfile"
)

// maxTask is the size of the largest task, in bytes.
const maxTask = 8 << 20

// count reads a taskset and returns a description of its first defect, or "". The description gives line numbers and
// counts and never quotes a line. The error is non-nil only if reading fails.
func (t Taskset) count(r io.Reader) (wrong string, err error) {
	if t.Infinite {
		_, err := io.Copy(io.Discard, r)
		return "", err
	}
	lines := bufio.NewReaderSize(r, 64<<10)
	textfile.SkipByteOrderMark(lines)
	var total int64
	splits := map[string]int64{}
	for n := 1; ; n++ {
		line, err := readLine(lines)
		switch {
		case errors.Is(err, io.EOF):
			return t.compare(total, splits), nil
		case errors.Is(err, errLong):
			return fmt.Sprintf("line %d of the taskset is longer than %d MiB", n, maxTask>>20), nil
		case err != nil:
			return "", err
		case len(line) == 0:
			continue
		}
		split, ok := splitOf(line)
		if !ok {
			return fmt.Sprintf("line %d of the taskset is not a JSON object whose split, if any, is a string", n), nil
		}
		total++
		if _, known := t.Splits[split]; known {
			splits[split]++
		}
	}
}

// splitOf returns the split of a task, and false if the line is not a task.
func splitOf(line []byte) (string, bool) {
	var task struct {
		Split string `json:"split"`
	}
	ok := line[0] == '{' && json.Unmarshal(line, &task) == nil
	return task.Split, ok
}

// compare compares the counts with the manifest and returns a description of the first difference, or "". The
// description names only splits of the manifest, because the split names in the taskset are confidential.
func (t Taskset) compare(total int64, splits map[string]int64) string {
	if total != int64(t.Count) {
		return fmt.Sprintf("the taskset has %d tasks; the manifest states %d", total, t.Count)
	}
	for _, name := range t.names() {
		if splits[name] != int64(t.Splits[name]) {
			return fmt.Sprintf("split %s has %d tasks; the manifest states %d", name, splits[name], t.Splits[name])
		}
	}
	return ""
}

var errLong = errors.New("line too long")

// readLine returns the next line without surrounding white space, or io.EOF after the last line.
func readLine(r *bufio.Reader) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxTask:
			return nil, errLong
		case errors.Is(err, bufio.ErrBufferFull):
			continue
		case errors.Is(err, io.EOF) && len(line) == 0:
			return nil, io.EOF
		case err != nil && !errors.Is(err, io.EOF):
			return nil, err
		}
		return bytes.TrimSpace(line), nil
	}
}

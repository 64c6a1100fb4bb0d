package environment

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// maxTask is the most bytes of one task.
const maxTask = 8 << 20

// count reads a taskset and answers what is wrong with it, "" for nothing. It names lines and numbers and never
// what a line says; the error is one of reading.
func (t Taskset) count(r io.Reader) (wrong string, err error) {
	if t.Infinite {
		_, err := io.Copy(io.Discard, r)
		return "", err
	}
	lines := bufio.NewReaderSize(r, 64<<10)
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
			return fmt.Sprintf("line %d of the taskset is not a JSON object with at most a text as its split", n), nil
		}
		total++
		if _, known := t.Splits[split]; known {
			splits[split]++
		}
	}
}

// splitOf is the split that a task names; false for what is no task.
func splitOf(line []byte) (string, bool) {
	var task struct {
		Split string `json:"split"`
	}
	ok := line[0] == '{' && json.Unmarshal(line, &task) == nil
	return task.Split, ok
}

// compare holds what was counted against the manifest; the names of splits are the manifest's own.
func (t Taskset) compare(total int64, splits map[string]int64) string {
	if total != int64(t.Count) {
		return fmt.Sprintf("the taskset has %d tasks, the manifest says %d", total, t.Count)
	}
	for _, name := range t.names() {
		if splits[name] != int64(t.Splits[name]) {
			return fmt.Sprintf("the split %s has %d tasks, the manifest says %d", name, splits[name], t.Splits[name])
		}
	}
	return ""
}

var errLong = errors.New("a line is too long")

// readLine is the next line without white space around it, io.EOF after the last one.
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

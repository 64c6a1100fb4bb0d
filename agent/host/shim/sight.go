package shim

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
	"strings"

	"golang.org/x/sys/unix"
)

// sight states what an isolated command sees, and what to do if that does not contain a file.
const sight = "the work sees only /usr, its own folders (also as /tmp) and what SERVICE_AGENT_WORK_PATHS of its node's agent names; " +
	"put the file there, or let an admin add its folder"

// NotInSight returns a message for a file that an isolated command needs and that does not exist inside the boundary.
func NotInSight(path string) string {
	return fmt.Sprintf("%s does not exist inside the boundary of the work: %s", path, sight)
}

// startReport is what the process that becomes the command sends to the shim.
type startReport struct {
	// Failure states why the command could not be started.
	Failure string `json:"failure,omitempty"`
	// Missing are paths of the command line, see Exit.
	Missing []string `json:"missing,omitempty"`
}

const (
	// maxReports is the maximum size of all reports of a start, in bytes. A pipe holds as much without a reader.
	maxReports = 64 << 10
	// maxFailure is the maximum size of the failure in a report, in bytes. JSON needs up to six times as much.
	maxFailure = 4 << 10
)

// send writes a report to the pipe to the shim. It cuts a long failure in the middle: the reason is at the end. An error
// does not matter: the shim then finds no report.
func (r startReport) send(to io.Writer) {
	const half = maxFailure / 2
	if n := len(r.Failure); n > maxFailure {
		r.Failure = strings.ToValidUTF8(r.Failure[:half], "") + " … " + strings.ToValidUTF8(r.Failure[n-half:], "")
	}
	_ = json.NewEncoder(to).Encode(r)
}

// readReports reads all reports up to the end of the pipe.
func readReports(from io.Reader) (r startReport, err error) {
	for reports := json.NewDecoder(io.LimitReader(from, maxReports)); ; {
		var one startReport
		switch err := reports.Decode(&one); {
		case errors.Is(err, io.EOF):
			return r, nil
		case err != nil:
			return r, fmt.Errorf("read the start result of the command's process: %w", err)
		}
		if r.Failure == "" {
			r.Failure = one.Failure
		}
		r.Missing = append(r.Missing, one.Missing...)
	}
}

const (
	// maxMissing is the maximum number of paths in Exit.Missing, and maxMissingPath the maximum length of each.
	maxMissing     = 8
	maxMissingPath = 512
)

// missing returns the absolute paths among the arguments, and behind a `=` in them, that do not exist.
func missing(args []string) []string {
	var all []string
	for _, arg := range args {
		if len(all) == maxMissing {
			break
		}
		if _, value, ok := strings.Cut(arg, "="); ok && !strings.HasPrefix(arg, "/") {
			arg = value
		}
		if !filepath.IsAbs(arg) || len(arg) > maxMissingPath || strings.ContainsAny(arg, "\x00\n") {
			continue
		}
		if _, err := os.Stat(arg); errors.Is(err, fs.ErrNotExist) {
			all = append(all, arg)
		}
	}
	return all
}

// explain returns the error of a program that could not be executed. If the program or its interpreter does not exist
// inside the boundary of the work, the error states what the work sees.
func (s Start) explain(program string, err error) error {
	err = fmt.Errorf("start %s: %w", s.Path, err)
	if !s.Isolation.On() || !errors.Is(err, unix.ENOENT) {
		return err
	}
	if _, lost := os.Stat(program); lost != nil {
		return fmt.Errorf("%w: %s", err, NotInSight(program))
	}
	if interpreter := interpreterOf(program); interpreter != "" {
		return fmt.Errorf("%w: its interpreter %s", err, NotInSight(interpreter))
	}
	return fmt.Errorf("%w: the loader that it needs does not exist inside the boundary of the work: %s", err, sight)
}

// interpreterOf returns the program in the first line of a script, or "" if the file is not a script.
func interpreterOf(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	const longest = 256 // what Linux reads of the line
	line, _ := bufio.NewReader(io.LimitReader(f, longest)).ReadBytes('\n')
	rest, is := bytes.CutPrefix(line, []byte("#!"))
	if fields := bytes.Fields(rest); is && len(fields) > 0 {
		return string(fields[0])
	}
	return ""
}

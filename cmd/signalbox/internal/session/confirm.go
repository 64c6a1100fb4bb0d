package session

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// ErrDeclined reports that the person at the terminal answered no.
var ErrDeclined = errors.New("nothing was changed")

// maxAnswer is the maximum number of bytes of an answer.
const maxAnswer = 1 << 10

// Confirm asks the person at the terminal before something is destroyed. With yes, it does not ask. Without a terminal,
// or with --no-input, it returns a UsageError that names -y. Ctrl-C ends the question; the read of the terminal, which
// cannot be ended, then ends with the process.
func (s *Session) Confirm(ctx context.Context, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if s.NoInput || !s.InTerminal {
		return Usage("%s This needs a confirmation, and there is no terminal to ask for it; add -y", question)
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", output.Printable(question))
	type answer struct {
		line string
		err  error
	}
	answers := make(chan answer, 1)
	go func() {
		line, err := bufio.NewReader(io.LimitReader(s.In, maxAnswer)).ReadString('\n')
		answers <- answer{line, err}
	}()
	select {
	case <-ctx.Done():
		fmt.Fprintln(s.Err)
		return context.Cause(ctx)
	case a := <-answers:
		if a.err != nil && !errors.Is(a.err, io.EOF) {
			return fmt.Errorf("read the answer: %w", a.err)
		}
		switch strings.ToLower(strings.TrimSpace(a.line)) {
		case "y", "yes":
			return nil
		}
		return ErrDeclined
	}
}

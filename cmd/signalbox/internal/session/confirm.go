package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
)

// ErrDeclined reports that the person at the terminal declined.
var ErrDeclined = errors.New("nothing was changed")

// maxReply is the maximum number of bytes of a reply.
const maxReply = 1 << 10

// Confirm requires that the person at the terminal agrees before something is destroyed. With yes, it returns at once. Without a terminal,
// or with --no-input, it returns a UsageError that names -y. Ctrl-C ends the question.
func (s *Session) Confirm(ctx context.Context, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if s.NoInput || !s.InTerminal {
		return Usage("%s This needs a confirmation, and there is no terminal to ask for it; add -y to confirm", question)
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", output.Printable(question))
	line, err := s.ReadLine(ctx, maxReply)
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(s.Err)
		return err
	case err != nil && !errors.Is(err, io.EOF):
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}

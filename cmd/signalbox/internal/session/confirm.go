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

// ErrDeclined reports that the person at the terminal did not confirm.
var ErrDeclined = errors.New("nothing was changed")

// maxReply is the maximum number of bytes of a reply.
const maxReply = 1 << 10

// Confirm lets the person at the terminal confirm that something is destroyed. With yes, it does not. Without a terminal,
// or with --no-input, it returns a UsageError that names -y. The end of ctx ends the question.
func (s *Session) Confirm(ctx context.Context, yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if s.NoInput || !s.InTerminal {
		return Usage("%s This needs a confirmation, and there is no terminal for it; add -y", question)
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", output.Printable(question))
	line, err := bufio.NewReader(io.LimitReader(Interruptible(ctx, s.In), maxReply)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		fmt.Fprintln(s.Err)
		return context.Cause(ctx)
	case err != nil && !errors.Is(err, io.EOF):
		return fmt.Errorf("read the reply: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}

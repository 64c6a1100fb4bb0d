package session

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// ErrDeclined reports that the person at the terminal answered no.
var ErrDeclined = errors.New("nothing was changed")

// Confirm asks the person at the terminal before something is destroyed. With yes, it does not ask. Without a terminal,
// or with --no-input, it returns a UsageError that names -y.
func (s *Session) Confirm(yes bool, format string, args ...any) error {
	if yes {
		return nil
	}
	question := fmt.Sprintf(format, args...)
	if s.NoInput || !s.InTerminal {
		return Usage("%s Nobody can be asked here; add -y to confirm", question)
	}
	fmt.Fprintf(s.Err, "%s [y/N] ", question)
	line, err := bufio.NewReader(io.LimitReader(s.In, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return ErrDeclined
}

package session

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/cli/browser"
	"golang.org/x/term"
)

// readHidden reads a line of the terminal that is not shown while it is typed. If ctx ends, it gives the terminal back as
// it was; the read, which cannot be ended, then ends with the process.
func readHidden(ctx context.Context) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	type result struct {
		text []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		text, err := term.ReadPassword(fd)
		done <- result{text, err}
	}()
	select {
	case r := <-done:
		return r.text, r.err
	case <-ctx.Done():
		_ = term.Restore(fd, before) // the process ends
		return nil, context.Cause(ctx)
	}
}

// openBrowser opens an address in the user's browser, and does not wait for the browser to end. On Linux without a
// display there is none: a browser in the terminal would take the place of the command.
func openBrowser(address string) error {
	if runtime.GOOS == "linux" && os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return exec.ErrNotFound
	}
	browser.Stdout = os.Stderr // results only go to standard output
	go func() {
		_ = browser.OpenURL(address) // the address is printed too
	}()
	return nil
}

package session

import (
	"context"
	"os"
	"os/exec"
	"runtime"

	"github.com/cli/browser"
	"golang.org/x/term"
)

// readHidden reads a line of the terminal that is not shown while it is typed. If ctx ends first, readHidden restores the
// terminal. The read cannot be interrupted; it ends with the process.
func readHidden(ctx context.Context) ([]byte, error) {
	fd := int(os.Stdin.Fd())
	before, err := term.GetState(fd)
	if err != nil {
		return nil, err
	}
	text, err := await(ctx, func() ([]byte, error) { return term.ReadPassword(fd) })
	if ctx.Err() != nil {
		_ = term.Restore(fd, before) // the command ends with the error of ctx
	}
	return text, err
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

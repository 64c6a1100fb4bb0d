// Package session owns what every command needs: the installation, the login, the client, the format of the output and
// the person at the terminal. It promises that results go to standard output and everything else to standard error, and
// that a login is sent only to the installation that issued it.
package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/credential"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Env is what a command gets from its process.
type Env struct {
	In  io.Reader
	Out io.Writer
	Err io.Writer
	// InTerminal, OutTerminal and ErrTerminal state which of the three are a terminal. Width is that of the terminal.
	InTerminal, OutTerminal, ErrTerminal bool
	Width                                int

	Getenv func(string) string
	// Dir is the working folder.
	Dir    string
	Clock  clock.Clock
	Jitter func() float64
	// NewKey returns a new random key for a request that must not be done twice.
	NewKey func() string
	// Zone is the time zone of the user.
	Zone *time.Location
	// ReadHidden reads a line of the terminal that is not shown while it is typed.
	ReadHidden func(ctx context.Context) ([]byte, error)
	// OpenBrowser opens an address in the user's browser.
	OpenBrowser func(address string) error
	// Transport sends the requests.
	Transport http.RoundTripper
	// Version is the name of this build.
	Version string
	// Program is how the user has called this program, such as bin/signalbox.
	Program string
}

// Flags are the values of the flags that all commands have.
type Flags struct {
	settings.Flags

	Output   string
	Filter   string
	Columns  []string
	NoHeads  bool
	Quiet    bool
	Verbose  int
	NoInput  bool
	Color    string
	Timeout  time.Duration
	chosenBy []string
}

// Session is one run of a command.
type Session struct {
	*Env
	*Flags
}

// UsageError reports a command line that is wrong; the server has not been called.
type UsageError struct{ Problem string }

// Error implements error.
func (e *UsageError) Error() string { return e.Problem }

// Usage returns a UsageError.
func Usage(format string, args ...any) error { return &UsageError{fmt.Sprintf(format, args...)} }

// LoginError reports that the command needs a login. It ends with the way to get one.
type LoginError struct {
	Problem string
	// Expired states that a login is stored, but has expired.
	Expired bool
}

// Error implements error.
func (e *LoginError) Error() string { return e.Problem }

// Settings returns the installation and the project of the command.
func (s *Session) Settings() (settings.Chosen, error) {
	for name, value := range map[string]string{"server": s.Flags.Server, "context": s.Context, "project": s.Project} {
		// Another installation than the intended one would be used otherwise.
		if slices.Contains(s.chosenBy, name) && strings.TrimSpace(value) == "" {
			return settings.Chosen{}, Usage("--%s must not be empty; an unset variable?", name)
		}
	}
	dir, err := settings.Dir(s.Getenv)
	if err != nil {
		return settings.Chosen{}, err
	}
	config, err := settings.Load(dir)
	if err != nil {
		return settings.Chosen{}, err
	}
	folder, err := settings.LoadFolder(s.Dir)
	if err != nil {
		return settings.Chosen{}, err
	}
	return settings.Choose(s.Flags.Flags, s.Getenv, folder, config)
}

// Anonymous returns a client of the installation without a login.
func (s *Session) Anonymous() (*client.Client, error) {
	chosen, err := s.Settings()
	if err != nil {
		return nil, err
	}
	return s.ClientOf(chosen)
}

// ClientOf returns a client of an installation without a login.
func (s *Session) ClientOf(chosen settings.Chosen) (*client.Client, error) {
	if chosen.Server == "" {
		return nil, errNoServer()
	}
	return client.New(chosen.Server, s.transport()), nil
}

func errNoServer() error {
	return &LoginError{Problem: "no installation is chosen; run: signalbox login --server https://ADDRESS"}
}

// Client returns a client of the installation with the login of the user.
func (s *Session) Client() (*client.Client, error) {
	chosen, err := s.Settings()
	if err != nil {
		return nil, err
	}
	c, err := s.ClientOf(chosen)
	if err != nil {
		return nil, err
	}
	login, err := s.Login(chosen)
	if err != nil {
		return nil, err
	}
	return c.With(login.Token), nil
}

// Login returns the login of the user: that of the variable SERVICE_TOKEN, or the stored one. It returns a LoginError if no
// login is stored, or if the stored one has expired or is that of another installation.
func (s *Session) Login(chosen settings.Chosen) (credential.Credential, error) {
	if chosen.Server == "" {
		return credential.Credential{}, errNoServer()
	}
	if s.Getenv(settings.EnvToken) != "" {
		return s.loginOfEnv(chosen)
	}
	none := &LoginError{Problem: fmt.Sprintf("you are not logged in to %s; run: signalbox login --server %s", chosen.Server, chosen.Server)}
	if chosen.Name == "" {
		return credential.Credential{}, none
	}
	store, err := s.Store(chosen.Store)
	if err != nil {
		return credential.Credential{}, err
	}
	login, err := store.Get(chosen.Name)
	switch {
	case errors.Is(err, credential.ErrNone):
		return credential.Credential{}, none
	case err != nil:
		return credential.Credential{}, err
	case login.Server != chosen.Server:
		return credential.Credential{}, none
	case s.expired(login):
		return credential.Credential{}, &LoginError{Problem: "your login has expired; run: signalbox login --context " + chosen.Name, Expired: true}
	}
	return login, nil
}

// loginOfEnv returns the login of SERVICE_TOKEN. Nothing states which installation issued it, so the user must have
// chosen this one: the file .signalbox.yaml of someone else's code does not count.
func (s *Session) loginOfEnv(chosen settings.Chosen) (credential.Credential, error) {
	if chosen.FolderOnly {
		return credential.Credential{}, &LoginError{Problem: fmt.Sprintf("only %s names %s, so the token in %s is not sent there; if it is the right one, set %s too",
			settings.FolderFile, chosen.Server, settings.EnvToken, settings.EnvServer)}
	}
	token, err := credential.ParseToken(s.Getenv(settings.EnvToken))
	if err != nil {
		return credential.Credential{}, &LoginError{Problem: fmt.Sprintf("read %s: %s", settings.EnvToken, err)}
	}
	login := credential.Credential{Server: chosen.Server, Token: token, ExpiresAt: credential.Expiry(token)}
	if s.expired(login) {
		return credential.Credential{}, &LoginError{Problem: fmt.Sprintf("the token in %s has expired; set another one, or unset it and run: signalbox login", settings.EnvToken)}
	}
	return login, nil
}

func (s *Session) expired(login credential.Credential) bool {
	return !login.ExpiresAt.IsZero() && !s.Clock.Now().Before(login.ExpiresAt)
}

// Store returns the store of the given kind, or the file if the kind is empty.
func (s *Session) Store(kind string) (credential.Store, error) {
	dir, err := settings.Dir(s.Getenv)
	if err != nil {
		return nil, err
	}
	if kind == "" {
		kind = credential.File
	}
	return credential.Open(kind, dir)
}

// Watcher returns what follows streams of a client across restarts of the server. It reports each wait with --verbose,
// and the first long one to everyone.
func (s *Session) Watcher(c *client.Client) client.Watcher {
	const silence, long = 45 * time.Second, time.Second
	told := false
	return client.Watcher{
		Client: c, Clock: s.Clock, Silence: silence,
		Backoff: clock.Backoff{Base: 250 * time.Millisecond, Max: 10 * time.Second, Jitter: s.Jitter},
		Retrying: func(cause error, wait time.Duration) {
			s.Detail("the connection broke, trying again", "cause", cause, "wait", wait)
			if wait >= long && !told {
				told = true
				s.Say("%s; trying again, Ctrl-C ends it", cause)
			}
		},
	}
}

// Printer returns the printer of results.
func (s *Session) Printer() (*output.Printer, error) {
	format, err := output.ParseFormat(s.Output)
	if err != nil {
		return nil, &UsageError{err.Error()}
	}
	var filter *gojq.Code
	filterRows := false
	if s.Filter != "" {
		if filter, err = output.ParseFilter(s.Filter); err != nil {
			return nil, &UsageError{err.Error()}
		}
		if !slices.Contains(s.chosenBy, "output") {
			format = output.Lines
		} else {
			filterRows = format == output.Lines
		}
	}
	if len(s.Columns) > 0 && !format.IsTable() {
		return nil, Usage("--columns selects the columns of a table, and the output is %s; select members with --jq", format)
	}
	p := &output.Printer{
		Out: s.Out, Format: format, Filter: filter, FilterRows: filterRows, Columns: s.Columns, Headings: !s.NoHeads, Color: s.Colored(s.OutTerminal),
		Now: func() time.Time { return s.Clock.Now().In(s.Zone) },
	}
	if s.OutTerminal {
		p.Width, p.Terminal = s.Width, true
	}
	return p, nil
}

// Colored reports whether a stream, which may be a terminal, shows colours.
func (s *Session) Colored(terminal bool) bool {
	switch s.Color {
	case "always":
		return true
	case "never":
		return false
	}
	return terminal && s.Getenv("NO_COLOR") == "" && s.Getenv("TERM") != "dumb"
}

// Explicit records the names of the flags that the command line contains.
func (f *Flags) Explicit(names []string) { f.chosenBy = names }

// Say prints a line for the person at the terminal to standard error, unless --quiet is given. It often has names that
// others have chosen, so what would control the terminal is escaped.
func (s *Session) Say(format string, args ...any) {
	if !s.Quiet {
		fmt.Fprintln(s.Err, output.Printable(fmt.Sprintf(format, args...)))
	}
}

// Detail prints a record of what happens inside, if --verbose is given.
func (s *Session) Detail(message string, args ...any) {
	if s.Verbose == 0 {
		return
	}
	logger := slog.New(slog.NewTextHandler(s.Err, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	logger.InfoContext(context.Background(), message, args...)
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey || a.Key == slog.LevelKey {
		return slog.Attr{}
	}
	return a
}

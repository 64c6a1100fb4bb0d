package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/internal/client"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/test/testenv"
)

// deviceLogin logs in without a keyring: signalbox prints an address and a code, and a person approves in Chromium. The
// token is then in one file that only the user can read, and nowhere else.
func (w *world) deviceLogin(t *testing.T) {
	t.Helper()
	const password = "a good password of nora"
	w.do(t, http.MethodPost, "/api/admin/users", map[string]any{"username": "nora", "role": "operator", "password": password}, nil)
	home := t.TempDir()
	l := w.beginLogin(t, home)
	require.Empty(t, l.before)
	shown := w.decide(t, l.address, "nora", password, "Approve", "Device connected")
	require.Contains(t, shown, "Code: "+strings.Join(strings.Split(l.code, ""), " "), "the page must show the code that the command printed")
	require.Contains(t, shown, "Signalbox CLI", "the page must show the name of the program")
	argv, environ := l.process(t, "cmdline"), l.process(t, "environ")
	require.NoError(t, l.wait(), l.after.String())
	require.Contains(t, l.after.String(), "logged in to "+w.URL+" as nora, valid for ")
	require.Contains(t, l.after.String(), "this machine has no keyring", "a file in place of the keyring is stated")

	file := filepath.Join(home, ".config", "signalbox", "credentials.json")
	token := storedToken(t, file)
	require.NotContains(t, argv, token)
	require.NotContains(t, environ, token)
	requireOnlyIn(t, home, file, token)

	use := func(args ...string) (string, error) {
		out, err := w.program(t, home, nil, args...).CombinedOutput()
		return string(out), err
	}
	out, err := use("whoami", "-vv")
	require.NoError(t, err, out)
	require.Contains(t, out, "nora")
	require.Contains(t, out, "path=/api/auth/me status=200")
	require.NotContains(t, out, token, "the trace of the requests must not contain the token")
	require.Contains(t, out, "login valid for")
	out, err = use("jobs", "ls")
	require.NoError(t, err, out)

	log := w.Processes["signalboxd"].Log()
	for _, word := range []string{token, l.code, strings.ReplaceAll(l.code, "-", "")} {
		require.NotContains(t, log, word, "the log of the server must not contain a secret")
	}
	w.refusedLogin(t, home, token)
	w.deniedLogin(t, password)
}

// refusedLogin ends the login behind the back of the command line, which then exits with 4 and names the remedy.
func (w *world) refusedLogin(t *testing.T, home, token string) {
	t.Helper()
	require.NoError(t, client.New(w.URL, nil).With(secret.New(token)).Post(t.Context(), "/api/auth/logout", nil, nil))
	cmd := w.program(t, home, nil, "jobs", "ls")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Equal(t, 4, cmd.ProcessState.ExitCode(), string(out))
	require.Contains(t, string(out), "signalbox login")
	require.NotContains(t, string(out), token)
}

// deniedLogin denies a login in the browser.
func (w *world) deniedLogin(t *testing.T, password string) {
	t.Helper()
	home := t.TempDir()
	l := w.beginLogin(t, home)
	w.decide(t, l.address, "nora", password, "Deny", "Request denied")
	require.Error(t, l.wait())
	require.Equal(t, 1, l.cmd.ProcessState.ExitCode())
	require.Contains(t, l.after.String(), "the sign-in was denied in the browser")
	require.NoFileExists(t, filepath.Join(home, ".config", "signalbox", "credentials.json"))
}

// begun is a login that waits for its approval.
type begun struct {
	cmd           *exec.Cmd
	before        string // what was printed before the address
	address, code string
	after         bytes.Buffer
	read          chan struct{}
}

// beginLogin starts signalbox login and reads the address and the code.
func (w *world) beginLogin(t *testing.T, home string) *begun {
	t.Helper()
	l := &begun{cmd: w.program(t, home, nil, "login", "--server", w.URL), read: make(chan struct{})}
	out, err := l.cmd.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, l.cmd.Start())
	lines := bufio.NewReader(out)
	for l.code == "" {
		line, err := lines.ReadString('\n')
		require.NoError(t, err, l.before+line)
		switch name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name {
		case "open":
			l.address = strings.TrimSpace(value)
		case "code":
			l.code = strings.TrimSpace(value)
		default:
			l.before += line
		}
	}
	require.True(t, strings.HasPrefix(l.address, w.URL+"/device?user_code="), l.address)
	go func() {
		defer close(l.read)
		_, _ = io.Copy(&l.after, lines)
	}()
	return l
}

// wait waits until the command has ended. Then after has all that it printed after the code.
func (l *begun) wait() error {
	<-l.read // a Wait before the last read would close the pipe
	return l.cmd.Wait()
}

// process returns a file of /proc about the running command.
func (l *begun) process(t *testing.T, name string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(l.cmd.Process.Pid), name))
	require.NoError(t, err)
	return string(raw)
}

// decide opens an address in Chromium, signs in and presses a button. It returns what the page showed of the request.
func (w *world) decide(t *testing.T, address, username, password, button, heading string) string {
	t.Helper()
	tool := func(name string, args ...string) string { return testenv.Tool(t.Context(), t, name, args...) }
	ctx, cancel := context.WithTimeout(t.Context(), testenv.StageTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool("node.sh"), "approve.mjs")
	cmd.Env = append(os.Environ(), "NODE_MODULES="+tool("npm.sh", filepath.Join(testenv.Root(t), "test", "identity", "page")))
	in, err := json.Marshal(map[string]string{
		"address": address, "username": username, "password": password, "button": button, "heading": heading, "chromium": tool("chromium.sh"),
	})
	require.NoError(t, err)
	var errOut bytes.Buffer
	cmd.Stdin, cmd.Stderr = bytes.NewReader(in), &errOut
	out, err := cmd.Output()
	require.NoError(t, err, errOut.String())
	var saw struct {
		Request string `json:"request"`
	}
	require.NoError(t, json.Unmarshal(out, &saw), string(out))
	return saw.Request
}

// storedToken returns the token of the only login in a file, which only the user can read.
func storedToken(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	require.NoError(t, err)
	var logins map[string]struct {
		Token string `json:"token"`
	}
	require.NoError(t, json.Unmarshal(raw, &logins))
	require.Len(t, logins, 1)
	for _, login := range logins {
		require.True(t, strings.HasPrefix(login.Token, "eyJ"), "the file has the token")
		return login.Token
	}
	return ""
}

// requireOnlyIn requires that a secret is in one file only, which no other user can read.
func requireOnlyIn(t *testing.T, dir, file, word string) {
	t.Helper()
	for _, path := range []string{file, filepath.Dir(file)} {
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Zero(t, info.Mode().Perm()&0o077, "%s is open to others", path)
	}
	var found []string
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err == nil && bytes.Contains(raw, []byte(word)) {
			found = append(found, path)
		}
		return err
	}))
	require.Equal(t, []string{file}, found)
}

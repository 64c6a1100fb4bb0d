package cli

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// tourMark separates the outputs of the blocks of the page.
const tourMark = "=== end of a block ==="

var (
	tourFence  = regexp.MustCompile("(?ms)^```(\\w*)( test)?\n(.*?)^```$")
	escapes    = regexp.MustCompile(`\x1b\[[0-9;?]*[a-zA-Z]`)
	tourStart  = regexp.MustCompile(`(?m)^signalbox `)
	tourTokens = regexp.MustCompile(`dtk_[0-9A-Za-z]{40,}`)
)

// tourBlock is a block of commands of the page and the lines that it must print, in which … is any text.
type tourBlock struct {
	commands string
	prints   []string
}

// tourBlocks returns the blocks of the page.
func tourBlocks(t *testing.T) (blocks []tourBlock) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", "guide", "tour.md"))
	require.NoError(t, err)
	for _, m := range tourFence.FindAllStringSubmatch(string(raw), -1) {
		if m[1] == "text" {
			blocks[len(blocks)-1].prints = strings.Split(strings.TrimRight(m[3], "\n"), "\n")
			continue
		}
		require.Equal(t, "sh test", m[1]+m[2], "all commands of the tour are run")
		blocks = append(blocks, tourBlock{commands: m[3]})
	}
	return blocks
}

// tour runs the commands of docs/guide/tour.md in a terminal, as a person who types them, opens the page of the login,
// approves, and confirms.
func (w *world) tour(t *testing.T) {
	t.Helper()
	const most = 16
	blocks := tourBlocks(t)
	commands := 0
	script := "set -euo pipefail\n"
	for _, b := range blocks {
		commands += len(tourStart.FindAllString(b.commands, -1))
		script += b.commands + "echo '" + tourMark + "'\n"
	}
	require.Equal(t, most, commands, "the title promises this number of commands")
	home := t.TempDir()
	cmd := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(script, "http://127.0.0.1:8080", w.URL))
	cmd.Dir, cmd.Env = home, append(plainEnv(home), "TERM=xterm-256color")
	opened := w.fakeBrowser(t, cmd, home)
	screen := openTerminal(t, cmd)
	w.until(t, "the browser opens", func() bool { return sizeOf(opened) > 0 || screen.ended() })
	w.approve(t, opened)
	w.until(t, "signalbox prompts", func() bool { return strings.Contains(screen.text(), "[y/N]") || screen.ended() })
	screen.press("y\n")
	text, status := screen.wait()
	text = strings.ReplaceAll(escapes.ReplaceAllString(text, ""), "\r", "\n")
	text = strings.ReplaceAll(text, w.URL, "http://127.0.0.1:8080")
	outputs := strings.Split(text, tourMark)
	require.Zero(t, status, text)
	require.Len(t, outputs, len(blocks)+1, text)
	for i, b := range blocks {
		for _, line := range b.prints {
			pattern := "(?m)^" + strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*") + " *$"
			require.Regexp(t, pattern, outputs[i], b.commands)
		}
	}
	require.NotRegexp(t, tourTokens, text, "the token went to the file only")
}

// fakeBrowser puts a program in front of the path that notes the address that it is to open, in place of a browser.
func (w *world) fakeBrowser(t *testing.T, cmd *exec.Cmd, home string) (noted string) {
	t.Helper()
	bin := filepath.Join(home, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	noted = filepath.Join(home, "opened")
	program := "#!/bin/sh\nprintf %s \"$1\" > " + noted + ".new && mv " + noted + ".new " + noted + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(bin, "xdg-open"), []byte(program), 0o755))
	require.NoError(t, os.Symlink(testenv.Bin(t, "signalbox"), filepath.Join(bin, "signalbox")))
	cmd.Env = append(cmd.Env, "PATH="+bin+":"+os.Getenv("PATH"), "DISPLAY=:0")
	return noted
}

// approve approves the login whose address was opened, as the page does.
func (w *world) approve(t *testing.T, opened string) {
	t.Helper()
	raw, err := os.ReadFile(opened)
	require.NoError(t, err)
	address, err := url.Parse(string(raw))
	require.NoError(t, err)
	code := address.Query().Get("user_code")
	require.NotEmpty(t, code, address)
	w.do(t, http.MethodPost, "/api/cli/device/requests/"+url.PathEscape(code), map[string]any{"decision": "approve"}, nil)
}

// interrupted presses Ctrl-C while commands wait for a person. They end at once, and change nothing.
func (w *world) interrupted(t *testing.T) {
	t.Helper()
	r := w.newRun(t, "apart", "kept")
	r.lifecycle("succeeded")
	screen := openTerminal(t, w.program(t, t.TempDir(), w.signedIn("admin"), "runs", "rm", r.ID))
	w.until(t, "signalbox prompts", func() bool { return strings.Contains(screen.text(), "[y/N]") || screen.ended() })
	screen.press("\x03")
	text, status := screen.wait()
	require.Equal(t, 130, status, text)
	require.Contains(t, text, "interrupted")
	require.NotContains(t, text, "\x1b]", "an error must not ask the terminal for its colours, which may never respond")
	w.mustRun(t, "runs", "get", r.ID)

	login := openTerminal(t, w.program(t, t.TempDir(), nil, "login", "--server", w.URL, "--no-browser"))
	w.until(t, "signalbox waits", func() bool { return strings.Contains(login.text(), "waiting for your approval") || login.ended() })
	login.press("\x03")
	text, status = login.wait()
	require.Equal(t, 130, status, text)
}

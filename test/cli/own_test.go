package cli

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var ownJob = regexp.MustCompile(`job_[0-9a-z]{26}`)

// interruptedRun presses Ctrl-C while signalbox run prints the log of a command. It ends, and the command does not.
func (w *world) interruptedRun(t *testing.T) {
	t.Helper()
	home := t.TempDir()
	own := filepath.Join(home, "own")
	require.NoError(t, os.Mkdir(own, 0o755))
	program := "import time\nprint('it runs')\ntime.sleep(600)\n"
	require.NoError(t, os.WriteFile(filepath.Join(own, "train.py"), []byte(program), 0o600))
	env := append(w.signedIn("admin"), "SERVICE_PROJECT=apart")
	screen := openTerminal(t, w.program(t, home, env, "run", "--folder", own, "--name", "long", "--", "python", "-u", "train.py"))
	w.until(t, "the command prints", func() bool { return strings.Contains(screen.text(), "it runs") || screen.ended() })
	screen.press("\x03")
	text, status := screen.wait()
	require.Equal(t, 130, status, text)
	require.Contains(t, text, "job long continues; follow it with signalbox logs ")
	id := ownJob.FindString(text)
	var job struct {
		State string `json:"state"`
	}
	w.do(t, http.MethodGet, "/api/jobs/"+id, nil, &job)
	require.Equal(t, "running", job.State)
	w.do(t, http.MethodPost, "/api/jobs/"+id+"/stop?force=true", map[string]any{}, nil)
	followed, err := w.program(t, home, env, "logs", id, "--follow").Output()
	require.NoError(t, err)
	require.Equal(t, "it runs\n", string(followed))
}

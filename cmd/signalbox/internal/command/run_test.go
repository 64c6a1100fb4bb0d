package command_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

const ownID = "job_01kab3c4d5e6f7g8h9j0kmnpqr"

// ownServer is an installation that runs one job, whose end the test states.
type ownServer struct {
	pools, end, attempts, log string
	// queued are the details of the queue that the job has first, each for one request, and held the reasons of Slurm that follow.
	queued, held []string
	// reading is called when the log is read, and keeps it open if it is set.
	reading func()

	mu       sync.Mutex
	requests []string
	body     struct {
		Spec map[string]any `json:"spec"`
	}
}

func (s *ownServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	switch r.Method + " " + r.URL.Path {
	case "GET /api/cluster":
		_, _ = io.WriteString(w, `{"pools":`+s.pools+`}`)
	case "GET /api/recipes/custom/custom":
		_, _ = io.WriteString(w, `{"version":"1.0.1"}`)
	case "GET /api/recipes/custom/custom/versions/1.0.1/lock":
		_, _ = io.WriteString(w, `{"name":"custom/custom"}`)
	case "POST /api/submit/packages":
		_, _ = io.WriteString(w, `{"id":"pkg_1","state":"accepted"}`)
	case "POST /api/jobs":
		if err := json.NewDecoder(r.Body).Decode(&s.body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
		}
		fmt.Fprintf(w, `{"id":%q,"name":"train","owner":"ada","state":"queued"}`, ownID)
	case "GET /api/jobs/" + ownID:
		if len(s.queued) > 0 {
			fmt.Fprintf(w, `{"id":%q,"state":"queued","queue":{"reason":"pool_capacity","reason_detail":%q}}`, ownID, s.queued[0])
			s.queued = s.queued[1:]
			return
		}
		if len(s.held) > 0 {
			fmt.Fprintf(w, `{"id":%q,"state":"scheduled","queue":%s}`, ownID, s.held[0])
			s.held = s.held[1:]
			return
		}
		fmt.Fprintf(w, `{"id":%q,"name":"train","ended_at":"2026-01-31T10:00:00Z",%s}`, ownID, s.end)
	case "GET /api/jobs/" + ownID + "/attempts":
		_, _ = io.WriteString(w, s.attempts)
	case "GET /api/runs/" + ownID + "/logs/stream":
		w.Header().Set("Content-Type", "text/event-stream")
		for i, line := range strings.Split(s.log, "\n") {
			fmt.Fprintf(w, "id: %d\nevent: line\ndata: {\"seq\":%d,\"text\":%q}\n\n", i+1, i+1, line)
		}
		if s.reading != nil {
			w.(http.Flusher).Flush() //nolint:forcetypeassert // that of the server of tests
			s.reading()
			<-r.Context().Done()
			return
		}
		_, _ = io.WriteString(w, "event: eof\ndata: {}\n\n")
	default:
		w.WriteHeader(http.StatusTeapot)
	}
}

func newOwnServer() *ownServer {
	return &ownServer{
		pools: `[{"pool":"default","nodes":1}]`, end: `"state":"succeeded"`, attempts: `[]`, log: "epoch 1\nx is 0.05",
	}
}

// filesIn returns a folder with files, given by names and contents.
func filesIn(t *testing.T, files ...string) string {
	t.Helper()
	dir := t.TempDir()
	for i := 0; i < len(files); i += 2 {
		path := filepath.Join(dir, files[i])
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(files[i+1]), 0o600))
	}
	return dir
}

func TestRun(t *testing.T) {
	t.Parallel()
	s := newOwnServer()
	h := newHarness(t, s.ServeHTTP)
	dir := filesIn(t, "train.py", "print(1)", "uv.lock", "version = 1")
	vars := filepath.Join(filesIn(t, "vars", "WORD=hunter2 $HOME\n"), "vars")
	got := h.run("run", "-vv", "--gpus", "2", "--nodes", "3", "--time", "90m", "--name", "mine", "--env-file", vars, "--folder", dir, "python", "train.py",
		"--name", "x")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, "epoch 1\nx is 0.05\n", got.out)
	require.NotContains(t, got.err, "hunter2")
	require.Contains(t, got.err, "Ctrl-C stops following it, and the job continues")
	require.Contains(t, got.err, "the environment is that of uv.lock")
	require.Equal(t, map[string]any{
		"name": "mine", "env": map[string]any{"WORD": "hunter2 $HOME"}, "limits": map[string]any{"running_s": 5400.0},
		"recipe":  map[string]any{"name": "custom/custom", "version": "1.0.1", "lock": map[string]any{"name": "custom/custom"}},
		"source":  map[string]any{"command": []any{"python", "train.py", "--name", "x"}, "package": "pkg_1"},
		"runtime": map[string]any{"requirements": "uv.lock"},
		"resources": map[string]any{"pools": []any{
			map[string]any{"pool": "default", "nodes": 3.0, "gpus_per_node": 2.0},
		}},
	}, s.body.Spec)
}

func TestRun_leavesOutItsOwnFiles(t *testing.T) {
	t.Parallel()
	s := newOwnServer()
	h := newHarness(t, s.ServeHTTP)
	const key = "ghp_0123456789abcdefghijABCDEFGHIJ012345\n"
	dir := filesIn(t, "train.py", "print(1)", ".env", "WORD=hunter2\n", "log/job.log", key)
	log := filepath.Join(dir, "log", "job.log")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "train.sbatch"), []byte("#!/bin/sh\n#SBATCH --output="+log+"\ntrue\n"), 0o600))
	run := func(command ...string) result {
		return h.run(append([]string{"run", "--folder", dir, "--detach", "--env-file", filepath.Join(dir, ".env")}, command...)...)
	}
	got := run("python", "train.py")
	require.Equal(t, 2, got.code, got.err)
	require.Contains(t, got.err, "log/job.log:1", "another command does not write the log")
	require.NotContains(t, got.err, ".env:")
	require.Equal(t, 0, run("train.sbatch").code)
	require.Equal(t, map[string]any{"WORD": "hunter2"}, s.body.Spec["env"])
}

func TestRun_runtime(t *testing.T) {
	t.Parallel()
	s := newOwnServer()
	h := newHarness(t, s.ServeHTTP)
	dir := filesIn(t, "train.py", "print(1)", "locks/a.txt", "x==1", "uv.lock", "", ".gitignore", "*.log\n", "b.log", "x==1")
	run := func(args ...string) result {
		return h.run(append(append([]string{"run", "--folder", dir}, args...), "--", "python", "train.py")...)
	}
	require.Equal(t, 0, run("--python", "torch-2").code)
	require.Equal(t, map[string]any{"node": "torch-2"}, s.body.Spec["runtime"])
	require.Equal(t, 0, run("--requirements", "./locks/a.txt").code)
	require.Equal(t, map[string]any{"requirements": "locks/a.txt"}, s.body.Spec["runtime"])
	sent := len(s.requests)
	for _, missing := range []string{"b.log", "none.txt"} {
		got := run("--requirements", missing)
		require.Equal(t, 2, got.code, got.err)
		require.Contains(t, got.err, missing+" is not among the files that are sent")
	}
	require.Equal(t, 2, run("--requirements", "../a.txt").code)
	require.Equal(t, 2, run("--requirements", "a", "--python", "b").code)
	require.Len(t, s.requests, sent, "nothing is sent")
}

func TestRun_exitStatus(t *testing.T) {
	t.Parallel()
	const ofCommand = `[{"number":2,"exit_code":3},{"number":1,"exit_code":7}]`
	dir := filesIn(t, "train.py", "print(1)")
	for name, c := range map[string]struct {
		end, attempts string
		code          int
		// adds is a part of what is written to standard error after the first line; empty if nothing is.
		adds string
	}{
		"after success": {
			`"state":"succeeded","end_reason":"completed"`, `[{"number":1,"exit_code":4}]`, 4,
			"reported its success, but its command ended with status 4",
		},
		"failed":       {`"state":"failed","end_reason":"user_error","message":"status 3"`, ofCommand, 3, ""},
		"no memory":    {`"state":"failed","end_reason":"oom_host","message":"out of memory"`, `[{"number":1,"exit_code":137}]`, 137, "train is failed: out of memory"},
		"a signal":     {`"state":"failed","end_reason":"user_error","message":"signal 11"`, `[{"number":1,"exit_code":-1}]`, 9, "not succeeded: signal 11"},
		"never began":  {`"state":"failed","end_reason":"env_build","message":"no wheel"`, `[{"number":1,"exit_code":null}]`, 9, "no wheel"},
		"stopped":      {`"state":"stopped","end_reason":"user_stop"`, `[{"number":1,"exit_code":0}]`, 9, "is stopped, not succeeded"},
		"stopped by 1": {`"state":"stopped","end_reason":"time_limit","message":"time"`, `[{"number":1,"exit_code":1}]`, 9, "is stopped, not succeeded: time"},
	} {
		s := newOwnServer()
		s.end, s.attempts = c.end, c.attempts
		got := newHarness(t, s.ServeHTTP).run("run", "--folder", dir, "--", "python", "train.py")
		require.Equal(t, c.code, got.code, "%s: %s", name, got.err)
		require.Equal(t, "epoch 1\nx is 0.05\n", got.out, name)
		require.Contains(t, got.err, c.adds, name)
		require.Equal(t, c.adds == "", strings.HasSuffix(got.err, "and the job continues\n"), "%s: %s", name, got.err)
	}
}

func TestRun_statesWhyItWaits(t *testing.T) {
	t.Parallel()
	s := newOwnServer()
	s.queued = []string{"", "no room", "no room"}
	s.held = []string{"null", `{"reason":"Priority","reason_detail":""}`, `{"reason":"Resources","reason_detail":"soon"}`}
	got := newHarness(t, s.ServeHTTP).run("run", "--folder", filesIn(t, "train.py", "print(1)"), "--", "python", "train.py")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, 1, strings.Count(got.err, "job train waits: no room\n"), got.err)
	require.Contains(t, got.err, "job train waits: no room\njob train waits: Slurm: Priority\njob train waits: Slurm: Resources; soon\n")
	require.Equal(t, "epoch 1\nx is 0.05\n", got.out)
}

// A Ctrl-C stops following, and changes nothing of the job.
func TestRun_interrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	s := newOwnServer()
	s.reading = interrupt
	dir := t.TempDir()
	script := "#!/bin/sh\n#SBATCH --output=" + filepath.Join(dir, "out.txt") + "\ntrue\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "a.sbatch"), []byte(script), 0o600))
	got := newHarness(t, s.ServeHTTP).runContext(ctx, "run", "--folder", dir, "a.sbatch")
	require.Equal(t, 130, got.code, got.err)
	require.Contains(t, got.err, "job train continues; follow it with signalbox logs "+ownID+" --follow, stop it with signalbox jobs stop "+ownID)
	require.Contains(t, got.err, "out.txt ends here")
	for _, request := range s.requests {
		require.NotContains(t, request, "/stop")
	}
}

func TestRun_refusedBeforeAnythingIsSent(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s was sent", r.Method, r.URL.Path) })
	array := "#!/bin/sh\n#SBATCH -N 2\n#SBATCH --array=1-3\nsrun true\n"
	dir := filesIn(t, "train.py", "print(1)", "array.sh", array)
	secret := filesIn(t, "train.py", "key = 'gh"+"p_"+"q7Wn2RkX9bTz4LmP8vJc5HsG1fYd6NaQ3eUi'", ".env", "A=1")
	vars := filepath.Join(filesIn(t, "vars", "A=1\nhunter2\n"), "vars")
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"no command":     {[]string{"--folder", dir}, "the command is missing"},
		"secret":         {[]string{"--folder", secret, "python", "train.py"}, ".env: name .env*, train.py:1: GitHub token"},
		"secret, listed": {[]string{"--folder", secret, "--list-files"}, ".env: name .env*, train.py:1: GitHub token"},
		"line":           {[]string{"--folder", dir, "array.sh"}, "signalbox: array.sh: line 3: --array has no meaning here; "},
		"second line":    {[]string{"--folder", dir, "--", "sh", "array.sh"}, "\nsignalbox: array.sh: line 4: srun is a command that a node does not have; "},
		"variables":      {[]string{"--folder", dir, "--env-file", vars, "python", "train.py"}, "vars: line 2: the line has no =; write NAME=value"},
		"time":           {[]string{"--folder", dir, "--time", "soon", "python", "train.py"}, `--time "soon" is not a time`},
		"meant for runs": {[]string{"ls", "--limit", "1"}, "did you mean signalbox runs ls?"},
		"missing folder": {[]string{"--folder", filepath.Join(dir, "missing"), "python", "train.py"}, "open the folder"},
	} {
		got := h.run(append([]string{"run"}, c.args...)...)
		require.Equal(t, 2, got.code, "%s: %s", name, got.err)
		require.Contains(t, got.err, c.want, name)
		require.NotContains(t, got.err, "hunter2", name)
	}
}

// The file of --output replaces nothing that the user wrote, and can be written when the job begins.
func TestRun_outputRefused(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s was sent", r.Method, r.URL.Path) })
	dir := filesIn(t, "train.py", "print(1)", "data/a.txt", "1", ".gitignore", "kept.txt\n")
	require.NoError(t, os.Symlink("train.py", filepath.Join(dir, "link.log")))
	const below = "is not below the working folder; write a path below the working folder"
	for output, want := range map[string]string{
		dir + "/train.py":          "would replace train.py, a file that is sent; ",
		dir + "/./data/../%x.py":   "would replace train.py, a file that is sent; ",
		dir + "/%u.py":             "would replace train.py, a file that is sent; ",
		dir + "/a.sbatch":          "would replace a.sbatch, a file that is sent; ",
		dir + "/link.log":          "would replace train.py, a file that is sent; ",
		dir + "/data":              "cannot be written: " + dir + "/data is not a regular file; ",
		dir + "/data/":             "is a folder; add the name of a file",
		dir + "/train.py/x.log":    "cannot be written: ",
		dir + "/data/a.txt/%j.log": "cannot be written: ",
		t.TempDir() + "/x.log":     below,
		"../x.log":                 below,
		"a/../../x-%j.log":         below,
		"/dev/null":                below,
	} {
		script := "#!/bin/sh\n#SBATCH -J train\n#SBATCH --output=" + output + "\ntrue\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.sbatch"), []byte(script), 0o600))
		got := h.run("run", "--folder", dir, "--pool", "a", "a.sbatch")
		require.Equal(t, 2, got.code, "%s: %s", output, got.err)
		require.Contains(t, got.err, "signalbox: a.sbatch: line 3: --output="+output+" "+want, output)
	}
	kept, err := os.ReadFile(filepath.Join(dir, "train.py"))
	require.NoError(t, err)
	require.Equal(t, "print(1)", string(kept))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 5, "nothing is created")
}

// A log of an earlier run, and a file that is not sent, are replaced.
func TestRun_outputReplaced(t *testing.T) {
	t.Parallel()
	s := newOwnServer()
	h := newHarness(t, s.ServeHTTP)
	for _, name := range []string{"train.log", "out/train.out", "kept.txt"} {
		dir := filesIn(t, name, "old", ".gitignore", "kept.txt\n")
		file := filepath.Join(dir, name)
		script := "#!/bin/sh\n#SBATCH -J train\n#SBATCH --output=" + strings.Replace(file, "/train.", "/%x.", 1) + "\ntrue\n"
		require.NoError(t, os.WriteFile(filepath.Join(dir, "a.sbatch"), []byte(script), 0o600))
		got := h.run("run", "--folder", dir, "a.sbatch")
		require.Equal(t, 0, got.code, got.err)
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, got.out, string(text), name)
	}
}

func TestRun_emptyFlags(t *testing.T) {
	t.Parallel()
	h := newHarness(t, func(_ http.ResponseWriter, r *http.Request) { t.Errorf("%s %s was sent", r.Method, r.URL.Path) })
	dir := filesIn(t, "train.py", "print(1)")
	for _, flag := range []string{"pool", "time", "name", "env-file", "python", "requirements", "idempotency-key", "folder"} {
		for _, value := range []string{"", " "} {
			got := h.run("run", "--folder", dir, "--"+flag, value, "python", "train.py")
			require.Equal(t, 2, got.code, "%s: %s", flag, got.err)
			require.Contains(t, got.err, "--"+flag+" must not be empty")
		}
	}
	got := h.run("run", "--folder", dir, "--nodes", "0", "python", "train.py")
	require.Equal(t, 2, got.code, got.err)
	require.Contains(t, got.err, "--nodes must be at least 1")
}

func TestRun_script(t *testing.T) {
	t.Parallel()
	s := newOwnServer()
	s.pools = `[]`
	h := newHarness(t, s.ServeHTTP)
	dir := filesIn(t, "train.py", "")
	out := filepath.Join(dir, "logs", "%x-%j-%u.txt")
	script := "#!/bin/bash\n#SBATCH -J train -p gpu -N 2 --gres=gpu:4 -t 30\n#SBATCH -o " + out + "\npython train.py\n"
	require.NoError(t, os.WriteFile(filepath.Join(dir, "two.sbatch"), []byte(script), 0o600))
	got := h.run("run", "--folder", dir, "--nodes", "3", "two.sbatch", "a")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, map[string]any{"command": []any{"/bin/bash", "two.sbatch", "a"}, "package": "pkg_1"}, s.body.Spec["source"])
	require.Equal(t, map[string]any{"pools": []any{map[string]any{"pool": "gpu", "nodes": 3.0, "gpus_per_node": 4.0}}}, s.body.Spec["resources"])
	require.NotContains(t, s.requests, "GET /api/cluster")
	copied, err := os.ReadFile(filepath.Join(filepath.Dir(out), "train-"+ownID+"-ada.txt"))
	require.NoError(t, err)
	require.Equal(t, got.out, string(copied))
	require.Contains(t, got.err, "the script runs on each of its nodes")
	got = h.run("run", "--folder", dir, "--detach", "two.sbatch")
	require.Equal(t, 0, got.code, got.err)
	require.Contains(t, got.err, "--output has no effect with --detach")
}

func TestRun_choosesPool(t *testing.T) {
	t.Parallel()
	s := newOwnServer()
	s.pools = `[{"pool":"a","nodes":1,"gpus_total":8,"gpus_free":8},{"pool":"b","nodes":2,"gpus_total":16,"gpus_free":4}]`
	h := newHarness(t, s.ServeHTTP)
	dir := filesIn(t, "train.py", "print(1)")
	got := h.run("run", "--folder", dir, "--gpus", "1", "python", "train.py")
	require.Equal(t, 2, got.code, got.err)
	require.Contains(t, got.err, "choose one with --pool: a (1 nodes, 8 of 8 GPUs free), b (2 nodes, 4 of 16 GPUs free)")
	require.Equal(t, []string{"GET /api/cluster"}, s.requests, "the folder is not sent")
	got = h.run("run", "--folder", dir, "--pool", "b", "--detach", "-o", "name", "python", "train.py")
	require.Equal(t, 0, got.code, got.err)
	require.Equal(t, ownID+"\n", got.out)
}

package command_test

import (
	"net/http"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func refuseAll(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) }

func TestExecute_unknownCommand(t *testing.T) {
	t.Parallel()
	h := newHarness(t, refuseAll)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"dmeo"}, "did you mean demo?"},
		{[]string{"jobs", "lst"}, `"lst" is not a command of "signalbox jobs"`},
		{[]string{"jobs", "ls", "extra"}, `takes no argument, but "extra" was given`},
		{[]string{"jobs", "get"}, "an argument is missing"},
		{[]string{"jobs", "ls", "--frobnicate"}, "unknown flag: --frobnicate"},
		{[]string{"jobs", "ls", "-o", "xml"}, `"xml" is not a format`},
		{[]string{"jobs", "ls", "--jq", ".["}, "parse the jq expression"},
	} {
		got := h.run(c.args...)
		require.Equal(t, 2, got.code, "%v: %s", c.args, got.err)
		require.Contains(t, got.err, c.want, "%v", c.args)
		require.Empty(t, got.out, "%v", c.args)
	}
}

func TestDemo_emptyFlagValue(t *testing.T) {
	t.Parallel()
	h := newHarness(t, refuseAll)
	for _, name := range []string{"--data", "--listen", "--signalboxd"} {
		data := filepath.Join(t.TempDir(), "data")
		got := h.run("demo", "--once", "--data", data, name, "")
		require.Equal(t, 2, got.code, got.err)
		require.Contains(t, got.err, name+" must not be empty")
		require.NoDirExists(t, data)
	}
}

func TestDemo_missingServer(t *testing.T) {
	t.Parallel()
	h := newHarness(t, refuseAll)
	dir := t.TempDir()
	server := filepath.Join(dir, "no-signalboxd")
	got := h.run("demo", "--once", "--data", filepath.Join(dir, "data"), "--signalboxd", server)
	require.Equal(t, 1, got.code)
	require.Contains(t, got.err, server)
}

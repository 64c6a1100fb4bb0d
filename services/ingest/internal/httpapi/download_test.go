package httpapi

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestLogDownload_limitsConcurrentDownloads(t *testing.T) {
	t.Parallel()
	d := &LogDownload{}
	var leave []func()
	for _, user := range []string{"a", "a", "b", "b", "c", "c", "d", "d"} {
		l, err := d.enter(user)
		require.NoError(t, err)
		leave = append(leave, l)
		if len(leave) == 2 {
			_, err := d.enter("a")
			require.True(t, fault.Is(err, fault.Limited), "%v", err)
		}
	}
	_, err := d.enter("e")
	require.True(t, fault.Is(err, fault.Limited) && fault.HasCode(err, "downloads"), "%v", err)
	leave[0]()
	l, err := d.enter("e")
	require.NoError(t, err)
	for _, l := range append(leave[1:], l) {
		l()
	}
	require.Empty(t, d.of)
	require.Zero(t, d.open)
}

func TestLogDownload_Match(t *testing.T) {
	t.Parallel()
	d := &LogDownload{}
	for path, want := range map[string]string{
		"/api/runs/run_1/logs/download": "run_1", "/api/jobs/job_1/logs/download": "job_1", "/api/runs/a/b/logs/download": "",
		"/api/ingest/logs": "", "/api/runs/run_1/logs": "", "/api/other/run_1/logs/download": "",
	} {
		got, ok := d.Match(path)
		require.Equal(t, []any{want, want != ""}, []any{got, ok}, path)
	}
}

package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

// filling is a shell script that fills the disk of its job, prints how much it has written and keeps trying to write.
// It exits with code 7 when the folder of the job has the file `end`.
const filling = `cd "$SERVICE_JOB_WORKDIR"
until head -c 1000000 /dev/zero >> large; [ $? != 0 ]; do :; done 2>/dev/null
echo "full at $(($(stat -c %s large) >> 20)) MiB"; touch filled
until rm end 2>/dev/null; do head -c 1000 /dev/zero >> large; sleep 0.1; done 2>/dev/null
exit 7`

// TestJob_atItsDiskLimit fills the disk of a job. Meanwhile another job trains, and its files, reports and artifacts
// must be written. Then the job with the full disk fails, and its message must name the reason.
func TestJob_atItsDiskLimit(t *testing.T) {
	if os.Geteuid() != 0 {
		return // an ordinary user cannot limit the disk of jobs
	}
	ctx := t.Context()
	s := testenv.Single(t, testenv.Options{Env: map[string]string{"SERVICE_AGENT_WORK_DISK_BYTES": "134217728"}})
	l := s.Loop(ctx)
	submitCommand(ctx, t, l, "sh", "-c", filling)
	dir := ""
	s.Until(ctx, "the job has filled its disk", func() bool {
		path := s.Find("filled", func(string) bool { return true })
		dir = filepath.Dir(path)
		return path != ""
	})
	testenv.Train(ctx, t, s)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "end"), nil, 0o600), "an empty file needs no space")
	e := awaitEnd(ctx, t, s, l)
	require.Equal(t, "user_error", e.EndReason)
	require.Regexp(t, `^full at 1[012]\d MiB\n`, e.log)
	require.Regexp(t, `^the command ended with exit code 7; the disk space of the work was full: \d+ of \d+ bytes and \d+ of \d+ files were in use$`, e.Message)
}

package job_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestJob_Overdue_ownCommandWithoutReports(t *testing.T) {
	t.Parallel()
	started, reported := fixtures.Now().Add(5*time.Second), fixtures.Now().Add(60*time.Second)
	cases := map[string]struct {
		executor, reported *time.Time
		after              time.Duration
		want               string
	}{
		"never started":                  {nil, nil, 10 * time.Second, job.ReasonStartTimeout},
		"started, within its time":       {&started, nil, 104 * time.Second, ""},
		"started, past its time":         {&started, nil, 105 * time.Second, job.ReasonTimeLimit},
		"reported late":                  {&started, &reported, 159 * time.Second, ""},
		"past its time since the report": {&started, &reported, 160 * time.Second, job.ReasonTimeLimit},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j, _ := placed()
			j.OwnCommand, j.ExecutorRunningAt, j.RunningAt = true, c.executor, c.reported
			require.Equal(t, c.want, j.Overdue(fixtures.Now().Add(c.after)))
		})
	}
	j, _ := placed()
	j.ExecutorRunningAt = &started
	require.Equal(t, job.ReasonStartTimeout, j.Overdue(fixtures.Now().Add(time.Minute)), "a recipe must report running")
}

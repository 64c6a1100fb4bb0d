package identity

import (
	"context"
	"crypto/rand"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// copyJob copies the job and its run as ended ones with new ids, because the cell deletes them.
func (w *harness) copyJob(ctx context.Context, t *testing.T, o objects) {
	t.Helper()
	ids, db := id.NewSource(clock.Real(), rand.Reader), w.database(ctx, t)
	jobID, runID := ids.New(id.Job), ids.New(id.Run)
	for statement, original := range map[string]string{
		`INSERT INTO jobs.job SELECT (jsonb_populate_record(j, jsonb_build_object('id', $1::text, 'run_id', $2::text, 'state', 'stopped',
			'end_reason', 'user_stop', 'ended_at', now()))).* FROM jobs.job j WHERE id = $3`: o["job_id"],
		`INSERT INTO jobs.run SELECT (jsonb_populate_record(r, jsonb_build_object('id', $2::text, 'job_id', $1::text, 'state', 'stopped',
			'end_reason', 'user_stop', 'ended_at', now()))).* FROM jobs.run r WHERE id = $3`: o["run_id"],
	} {
		done, err := db.Exec(ctx, statement, jobID, runID, original)
		require.NoError(t, err)
		require.EqualValues(t, 1, done.RowsAffected())
	}
	o["job_id"], o["run_id"] = jobID, runID
}

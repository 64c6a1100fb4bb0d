package run_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
	"github.com/signalbox-dev/signalbox/test/fixtures"
)

func TestListModelUsersOfLiveJobs(t *testing.T) {
	t.Parallel()
	pool := newPool(t)
	s := &reporting.PeerServer{Pool: pool}
	made := 0
	job := func(asked, resolved, state string) string {
		made++
		name := fmt.Sprintf("job_%02d", made)
		template, err := proto.Marshal(&jobsv1.AttemptSpec{Model: &jobsv1.ModelInput{Ref: resolved}})
		require.NoError(t, err)
		ended := state == "succeeded"
		_, err = pool.Exec(t.Context(), `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels, priority, spec,
				spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queued_at, seq, end_reason, ended_at)
			VALUES ($1, 'run_' || $1, 'n', 'usr_a', 'alice', 'prj_1', 'default', 'team', '{}', 50, json_build_object('bindings', json_build_object('model', $2::text)),
				'', $3, '[]', 0, 0, 1, 1, 1, $4, $5, now(), 1, CASE WHEN $6 THEN 'completed' ELSE '' END, CASE WHEN $6 THEN now() END)`,
			name, asked, template, fixtures.Now().Add(time.Duration(made)*time.Second), state, ended)
		require.NoError(t, err)
		return name
	}
	users := func(ref string) []string {
		out, err := s.ListModelUsers(t.Context(), &jobspeerv1.ListModelUsersRequest{Ref: ref})
		require.NoError(t, err)
		return out.GetJobIds()
	}
	const chat = "mdl/search/chat"
	one := job(chat+"@1", chat+"@1", "queued")
	newest := job(chat+"@latest", chat+"@2", "running")
	alias := job(chat+"@production", chat+"@1", "starting")
	job(chat+"@1", chat+"@1", "succeeded")
	job(chat+"-small@1", chat+"-small@1", "queued")
	job("", "", "queued")
	require.Equal(t, []string{one, alias}, users(chat+"@1"), "only jobs that have not ended must be listed, including one with an alias of the same version")
	require.Equal(t, []string{newest}, users(chat+"@2"), "latest must mean the version at submission")
	require.Empty(t, users(chat+"@latest"))
	require.Equal(t, []string{one, newest, alias}, users(chat), "without a version, every version must count")
	require.Empty(t, users("mdl/search/cha"))
	for range 30 {
		job(chat+"@3", chat+"@3", "queued")
	}
	require.Len(t, users(chat+"@3"), 20, "the response must have at most 20 jobs")
}

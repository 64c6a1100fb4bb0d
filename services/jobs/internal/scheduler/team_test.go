package scheduler

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func TestPlan_accountAndTeamQuota(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	nodes := []Node{{ID: "nod_1", Pools: []string{"gpu"}, GPUs: 64, GPUsFree: 64, Slots: 8, SlotsFree: 8}}
	wants := func(order int, owner, team string, gpus int) Waiting {
		return Waiting{
			JobID: "job_" + string(rune('a'+order)), OwnerID: owner, TeamID: team, SubmittedAt: at.Add(time.Duration(order) * time.Second),
			Pools: []job.Pool{{Pool: "gpu", Nodes: 1, GPUsPerNode: gpus}},
		}
	}
	accounts := map[string]Account{"ann": {Limit: 4}, "bob": {Limit: 4}, "crew": {Limit: 5, Held: 1}}
	got := Plan(nodes, nil, []Waiting{
		wants(0, "ann", "crew", 3), // afterwards, ann and the team each have 1 GPU left
		wants(1, "ann", "crew", 2), // the account is checked first
		wants(2, "bob", "crew", 2),
		wants(3, "bob", "", 2), // bob has room, and the job has no team
		wants(4, "bob", "crew", 1),
		wants(5, "bob", "crew", 0), // a job without GPUs needs no quota
		wants(6, "bob", "lost", 1), // an unknown team may hold nothing
	}, accounts)
	var reasons, details []string
	for _, d := range got {
		reasons, details = append(reasons, d.Reason), append(details, d.Detail)
	}
	require.Equal(t, []string{"", job.WaitAccountQuota, job.WaitTeamQuota, "", "", "", job.WaitTeamQuota}, reasons)
	require.Equal(t, "the job needs 2 GPUs, but the account already holds 3 of its 4", details[1])
	require.Equal(t, "the job needs 2 GPUs, but the team already holds 4 of its 5", details[2])
	require.Equal(t, Account{Limit: 5, Held: 1}, accounts["crew"], "Plan must not modify its arguments")
}

// If the team becomes full between planning and placing, nothing is reserved from the account either.
func TestScheduler_place_fullTeamReservesNothing(t *testing.T) {
	t.Parallel()
	b := newHarness(t, 2, 1)
	b.exec(`INSERT INTO account (user_id, kind, gpu_limit) VALUES ('team_1', 'team', 2)`)
	b.submit(job.Pool{Pool: "gpu", GPUsPerNode: 1})
	b.exec(`UPDATE job SET team_id = 'team_1'`)
	s := b.scheduler()
	s.Ledger.TeamDefault = 2
	decisions, _, err := s.decide(t.Context())
	require.NoError(t, err)
	require.Len(t, decisions[0].Places, 1)
	b.exec(`UPDATE account SET held = 2 WHERE user_id = 'team_1'`)
	require.NoError(t, s.place(t.Context(), decisions[0]))
	require.Zero(t, b.count("attempt"))
	require.Zero(t, b.count(`account WHERE user_id = 'usr_1' AND held > 0`))
	_, err = s.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`job WHERE queue_reason = 'team_quota' AND queue_detail = 'the job needs 1 GPU, but the team already holds 2 of its 2'`))

	b.exec(`UPDATE account SET held = 1 WHERE user_id = 'team_1'`)
	_, err = s.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled'`))
	require.Equal(t, 1, b.count(`account WHERE user_id = 'team_1' AND kind = 'team' AND held = 2`))
}

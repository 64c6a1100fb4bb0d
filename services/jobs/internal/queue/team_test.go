package queue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

func TestPlanTellsWhoseQuotaIsFull(t *testing.T) {
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
	got := Plan(at, nodes, nil, []Waiting{
		wants(0, "ann", "crew", 3), // leaves ann 1 and the team 1
		wants(1, "ann", "crew", 2), // the account is told first
		wants(2, "bob", "crew", 2),
		wants(3, "bob", "", 2), // bob has room, the team is none of its matter
		wants(4, "bob", "crew", 1),
		wants(5, "bob", "crew", 0), // what holds no GPU waits for none
		wants(6, "bob", "lost", 1), // a team that nobody knows may hold nothing
	}, accounts)
	var reasons, details []string
	for _, d := range got {
		reasons, details = append(reasons, d.Reason), append(details, d.Detail)
	}
	require.Equal(t, []string{"", job.WaitAccountQuota, job.WaitTeamQuota, "", "", "", job.WaitTeamQuota}, reasons)
	require.Equal(t, "asks for 2 GPUs while 3 of 4 are held", details[1])
	require.Equal(t, "asks for 2 GPUs while 4 of 5 are held by the team", details[2])
	require.Equal(t, Account{Limit: 5, Held: 1}, accounts["crew"], "the plan changes none of its arguments")
}

// A team that became full between the plan and the deed takes nothing from the account either.
func TestATeamThatIsFullByNowHoldsNothingMore(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2, 1)
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
	require.Equal(t, 1, b.count(`job WHERE queue_reason = 'team_quota' AND queue_detail = 'asks for 1 GPUs while 2 of 2 are held by the team'`))

	b.exec(`UPDATE account SET held = 1 WHERE user_id = 'team_1'`)
	_, err = s.RunOnce(t.Context())
	require.NoError(t, err)
	require.Equal(t, 1, b.count(`job WHERE state = 'scheduled'`))
	require.Equal(t, 1, b.count(`account WHERE user_id = 'team_1' AND kind = 'team' AND held = 2`))
}

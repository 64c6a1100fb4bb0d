package jobapi_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

const (
	time30 = 30 * time.Second
	tick   = 5 * time.Millisecond
)

// copies inserts n copies of a job with different names, owners, projects and labels, and returns their ids. One in ten
// is in the project prj_secret, which only its members and admins may see.
func (b *harness) copies(n int) (ids, secret []string) {
	b.t.Helper()
	like := b.insert()
	b.exec(`UPDATE job SET visibility = 'team', project_id = 'prj_like', owner_id = 'usr_like' WHERE id = $1`, like.ID)
	for i := range n {
		name := b.ids.New(id.Job)
		if ids = append(ids, name); i%10 == 9 {
			secret = append(secret, name)
		}
		_, err := b.pool.Exec(b.t.Context(), `INSERT INTO job (id, run_id, name, owner_id, owner_name, project_id, project, visibility, labels,
				priority, spec, spec_digest, template, pools, gpus, retry_max, running_s, starting_s, queued_s, created_at, state, queued_at, seq)
			SELECT $2, $3, 'name ' || i, CASE i % 10 WHEN 9 THEN 'usr_secret' ELSE 'usr_' || i % 5 END,
				CASE i % 10 WHEN 9 THEN 'secret' ELSE 'user' || i % 5 END, CASE i % 10 WHEN 9 THEN 'prj_secret' ELSE 'prj_' || i % 4 END,
				CASE i % 10 WHEN 9 THEN 'secret' ELSE 'key' || i % 4 END, CASE WHEN i % 2 = 0 AND i % 10 <> 9 THEN 'all' ELSE 'team' END,
				jsonb_build_object('l', (i % 3)::text), priority, spec, spec_digest, template, pools, gpus, retry_max, running_s, starting_s,
				queued_s, $5::timestamptz + make_interval(secs => i), 'queued', queued_at, 1 FROM job, (SELECT $4::int AS i) n WHERE id = $1`, like.ID, name, b.ids.New(id.Run), i, copied())
		require.NoError(b.t, err)
	}
	return ids, secret
}

// copied is when the first of the copies was created; each is a second younger than the one before.
func copied() time.Time { return time.Date(2026, 11, 27, 9, 0, 0, 0, time.UTC) }

// changeSQL are random changes of jobs. $2 is a random number.
func changeSQL() []string {
	return []string{
		`UPDATE job SET seq = seq + 1, state = (ARRAY['queued', 'scheduled', 'running', 'pausing', 'starting'])[$2 % 5 + 1] WHERE id = ANY($1)`,
		`UPDATE job SET seq = seq + 1, name = 'name ' || $2 % 50 WHERE id = ANY($1)`,
		`UPDATE job SET seq = seq + 1, labels = jsonb_build_object('l', ($2 % 3)::text, 'm', 'x') WHERE id = ANY($1)`,
		`UPDATE job SET owner_id = 'usr_' || $2 % 5, owner_name = 'user' || $2 % 5 WHERE id = ANY($1) AND project_id <> 'prj_secret'`,
		`UPDATE job SET project_id = 'prj_' || $2 % 4, project = 'key' || $2 % 4 WHERE id = ANY($1) AND project_id <> 'prj_secret'`,
		`UPDATE job SET visibility = CASE WHEN $2 % 2 = 0 THEN 'all' ELSE 'team' END WHERE id = ANY($1) AND project_id <> 'prj_secret'`,
		`UPDATE job SET queue_reason = 'r' || $2 % 3, queue_position = $2 WHERE id = ANY($1)`,
		`DELETE FROM job WHERE id = ANY($1) AND $2 % 10 = 0`,
	}
}

// shake makes random changes in transactions that overlap, and commit in another order than they began.
func (b *harness) shake(rnd *rand.Rand, ids []string, n int) error {
	for range n {
		err := pg.InTx(b.t.Context(), b.pool, func(ctx context.Context, tx pgx.Tx) error {
			for range 1 + rnd.IntN(3) {
				some := []string{ids[rnd.IntN(len(ids))]}
				if rnd.IntN(20) == 0 {
					from := rnd.IntN(len(ids) - 30)
					some = ids[from : from+30]
				}
				sql := changeSQL()[rnd.IntN(len(changeSQL()))]
				if _, err := tx.Exec(ctx, sql, some, rnd.IntN(1000)); err != nil {
					return fmt.Errorf("%s: %w", sql, err)
				}
			}
			return nil
		})
		if err != nil && !pg.IsRetryable(err) {
			return err
		}
	}
	return nil
}

// randomClient returns the i-th of many clients with different rights and filters.
func randomClient(i int) *tableClient {
	c := &authn.Caller{Kind: authn.KindUser, Subject: fmt.Sprintf("usr_%d", i%6), Role: authn.RoleOperator}
	switch i % 7 {
	case 0:
		c.Role = authn.RoleAdmin
	case 1, 2:
		c.Projects = []authn.ProjectRole{{Project: fmt.Sprintf("prj_%d", i%4), Role: authn.ProjectViewer}}
	case 3:
		c.Projects = []authn.ProjectRole{{Project: "prj_1", Role: authn.ProjectEditor}, {Project: "prj_secret", Role: authn.ProjectViewer}}
	}
	return newTableClient(c, []*jobsv1.WatchJobsRequest{
		{},
		{State: new("running")},
		{Project: new("key1")},
		{Project: new("prj_2")},
		{Owner: new("user3")},
		{Label: []string{"l=1"}},
		{Label: []string{"m", "l=2"}},
		{Q: new("AME 1")},
		{State: new("queued"), Owner: new("user1"), Q: new("name")},
		{CreatedAfter: timestamppb.New(copied().Add(200 * time.Second)), CreatedBefore: timestamppb.New(copied().Add(500 * time.Second))},
	}[i%10])
}

// Every client has the list at the end, although it reconnects at random moments to either of two replicas, one of
// which restarts. It never receives an event twice, nor one of a project that it may not see.
func TestServer_WatchJobs_tablesEqualLists(t *testing.T) {
	t.Parallel()
	const jobs, clients, writers, changes = 1000, 50, 4, 250
	b := newHarness(t)
	ids, secret := b.copies(jobs)
	var mu sync.Mutex
	replicas := []*replica{b.replica(), b.replica()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	tables := make([]*tableClient, clients)
	for i := range tables {
		tables[i] = randomClient(i)
		all.Go(func() {
			for rnd := rand.New(rand.NewPCG(1, uint64(i))); ctx.Err() == nil; {
				mu.Lock()
				r := replicas[rnd.IntN(2)]
				mu.Unlock()
				_ = tables[i].watch(ctx, r, 1+rnd.IntN(200))
			}
		})
	}
	var writes sync.WaitGroup
	for w := range writers {
		writes.Go(func() {
			if err := b.shake(rand.New(rand.NewPCG(2, uint64(w))), ids, changes); err != nil {
				t.Error(err)
			}
		})
	}
	tables[0].awaitEvents(t, 300)
	mu.Lock()
	old := replicas[0]
	replicas[0] = b.replica()
	mu.Unlock()
	old.stop()
	writes.Wait()
	for _, c := range tables {
		c.awaitEqual(t, replicas[0].Server)
	}
	cancel()
	all.Wait()
	for i, c := range tables {
		require.Empty(t, c.faults, "client %d", i)
		require.Equal(t, []string{"start"}, slices.Compact(c.resets), "client %d", i)
		if m := i % 7; m != 0 && m != 3 {
			require.False(t, slices.ContainsFunc(secret, func(id string) bool { return c.seen[id] }), "client %d received a job of a hidden project", i)
		}
	}
}

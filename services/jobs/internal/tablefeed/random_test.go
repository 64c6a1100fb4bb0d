package tablefeed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// copies inserts n copies of a row with different names, owners, projects and labels, and returns their ids. One in ten
// is in the project prj_secret, which only its members and admins may see.
func (b *harness) copies(n int) (ids, secret []string) {
	b.t.Helper()
	like := b.insert()
	b.set(`visibility = 'team', project_id = 'prj_like', owner_id = 'usr_like'`, like)
	prefix := id.Prefix(b.feed)
	for i := range n {
		name := b.ids.New(prefix)
		if ids = append(ids, name); i%10 == 9 {
			secret = append(secret, name)
		}
	}
	sql := strings.NewReplacer(
		"COPY", `n.id`, "AGE", `$3::timestamptz + make_interval(secs => n.i)`,
		"NAMES", `'name ' || n.i, CASE n.i % 10 WHEN 9 THEN 'usr_secret' ELSE 'usr_' || n.i % 5 END,
			CASE n.i % 10 WHEN 9 THEN 'secret' ELSE 'user' || n.i % 5 END, CASE n.i % 10 WHEN 9 THEN 'prj_secret' ELSE 'prj_' || n.i % 4 END,
			CASE n.i % 10 WHEN 9 THEN 'secret' ELSE 'key' || n.i % 4 END, CASE WHEN n.i % 2 = 0 AND n.i % 10 <> 9 THEN 'all' ELSE 'team' END,
			jsonb_build_object('l', (n.i % 3)::text)`,
	).Replace(b.copySQL)
	b.exec(sql+`(SELECT id, ordinality::int - 1 AS i FROM unnest($2::text[]) WITH ORDINALITY u (id)) n WHERE `+string(b.feed)+`.id = $1`, like, ids, copied())
	return ids, secret
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
				sql := b.sql(b.randomSQL[rnd.IntN(len(b.randomSQL))])
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
func (b *harness) randomClient(i int) *client {
	c := &authn.Caller{Kind: authn.KindUser, Subject: fmt.Sprintf("usr_%d", i%6), Role: authn.RoleOperator}
	switch i % 7 {
	case 0:
		c.Role = authn.RoleAdmin
	case 1, 2:
		c.Projects = []authn.ProjectRole{{Project: fmt.Sprintf("prj_%d", i%4), Role: authn.ProjectViewer}}
	case 3:
		c.Projects = []authn.ProjectRole{{Project: "prj_1", Role: authn.ProjectEditor}, {Project: "prj_secret", Role: authn.ProjectViewer}}
	}
	return newClient(b.table, c, b.queries[i%len(b.queries)])
}

// Every client has the list at the end, although it reconnects at random moments to either of two replicas, one of
// which restarts. It never receives an event twice, nor one of a project that it may not see.
func TestTables_equalLists(t *testing.T) {
	t.Parallel()
	each(t, equalLists)
}

func equalLists(b *harness) {
	const rows, clients, writers, changes = 1000, 50, 4, 250
	t := b.t
	ids, secret := b.copies(rows)
	var mu sync.Mutex
	replicas := []*replica{b.replica(), b.replica()}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var all sync.WaitGroup
	tables := make([]*client, clients)
	for i := range tables {
		tables[i] = b.randomClient(i)
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
		c.awaitEqual(t, replicas[0])
	}
	cancel()
	all.Wait()
	for i, c := range tables {
		require.Empty(t, c.faults, "client %d", i)
		require.Equal(t, []string{"start"}, slices.Compact(c.resets), "client %d", i)
		if m := i % 7; m != 0 && m != 3 {
			require.False(t, slices.ContainsFunc(secret, func(id string) bool { return c.seen[id] }), "client %d received a row of a hidden project", i)
		}
	}
}

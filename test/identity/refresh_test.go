package identity_test

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/testenv"
)

const (
	tabs = 20
	// sideBySide is how many sessions are refreshed at once, by all their tabs.
	sideBySide = 6
	// grace is what the tabs of a session have, from the first exchange to the last repeat.
	grace = 10 * time.Second
)

// browser is one session with many tabs that all refresh at once.
type browser struct {
	first, access string

	mu         sync.Mutex
	successors map[string]bool
	refused    int
	token      string // an access token that a tab was given
	took       time.Duration
}

// refreshAll lets every tab exchange the first token until it is answered.
func (b *browser) refreshAll(ctx context.Context, c *caller, asked *atomic.Int64) {
	began := time.Now()
	var wg sync.WaitGroup
	for range tabs {
		wg.Go(func() {
			a := persist(ctx, c, b.first)
			asked.Add(1)
			b.mu.Lock()
			defer b.mu.Unlock()
			if a.status != http.StatusOK {
				b.refused++
				return
			}
			b.token = a.token()
			if next := a.cookie(); next != "" {
				b.successors[next] = true
			}
		})
	}
	wg.Wait()
	b.took = time.Since(began)
}

// persist repeats an exchange until it is answered by anyone who knows: what a client does whose answer was
// lost, or whose server is away.
func persist(ctx context.Context, c *caller, cookie string) answer {
	for {
		a, err := c.refresh(ctx, cookie)
		if err == nil && a.status < http.StatusInternalServerError || ctx.Err() != nil {
			return a
		}
		select {
		case <-time.After(retryEvery):
		case <-ctx.Done():
		}
	}
}

// signInMany opens sessions, each from an address of its own.
func signInMany(t *testing.T, s *testenv.Stand, c *caller, n int) []*browser {
	t.Helper()
	browsers := make([]*browser, n)
	for i := range browsers {
		a := c.signIn(t, s, client(i))
		browsers[i] = &browser{first: a.cookie(), access: a.token(), successors: map[string]bool{}}
	}
	return browsers
}

// oneSuccessor refreshes many sessions by twenty tabs each while auth is killed in the midst of them, and
// then replays what was used.
func oneSuccessor(t *testing.T, s *testenv.Stand) {
	t.Helper()
	c := from(t, s.URL, "")
	db := database(t, s)
	n, kills := sized(40, 1000), sized(1, 5)
	_, err := db.Exec(t.Context(), `UPDATE auth.session SET revoked_at = now(), revoked_reason = 'admin'`)
	require.NoError(t, err) // sessions of what ran before
	browsers := signInMany(t, s, c, n)
	var asked atomic.Int64
	var wg sync.WaitGroup
	work := make(chan *browser)
	for range sideBySide {
		wg.Go(func() {
			for b := range work {
				b.refreshAll(t.Context(), c, &asked)
			}
		})
	}
	for i, b := range browsers {
		work <- b
		for k := range kills {
			if i == (k+1)*n/(kills+1) {
				before := asked.Load()
				s.Processes["auth"].Kill()
				s.Processes["auth"].Start()
				t.Logf("auth was killed after %d of %d answers", before, n*tabs)
			}
		}
	}
	close(work)
	wg.Wait()
	require.EqualValues(t, n*tabs, asked.Load())
	judge(t, db, browsers)
	replay(t, s, c, db, browsers)
}

// judge demands one successor of every session: no client saw two, and the database holds one.
func judge(t *testing.T, db *pgx.Conn, browsers []*browser) {
	t.Helper()
	lost := 0
	for i, b := range browsers {
		require.LessOrEqual(t, len(b.successors), 1, "session %d", i)
		if len(b.successors) == 0 {
			lost++ // its answer went down with auth
		}
		if b.took < grace {
			require.Zero(t, b.refused, "session %d: every tab goes on, within the grace", i)
		}
	}
	rows, err := db.Query(t.Context(), `
		SELECT count(*) FROM auth.refresh_token r JOIN auth.session s ON s.id = r.session_id
		WHERE s.revoked_reason IS DISTINCT FROM 'admin' GROUP BY s.id`)
	require.NoError(t, err)
	families, err := pgx.CollectRows(rows, pgx.RowTo[int])
	require.NoError(t, err)
	require.Len(t, families, len(browsers))
	for _, size := range families {
		require.Equal(t, 2, size, "the first token and its one successor")
	}
	t.Logf("%d sessions x %d tabs: one successor each; %d answers with it were lost", len(browsers), tabs, lost)
}

// replay kills auth once more and presents used tokens past the grace: each is refused, and ends its family.
func replay(t *testing.T, s *testenv.Stand, c *caller, db *pgx.Conn, browsers []*browser) {
	t.Helper()
	s.Processes["auth"].Kill()
	// The grace passes without a wait: what was used was used a while ago.
	_, err := db.Exec(t.Context(), `UPDATE auth.refresh_token SET used_at = used_at - interval '11 seconds' WHERE used_at IS NOT NULL`)
	require.NoError(t, err)
	s.Processes["auth"].Start()
	s.AwaitServing()
	stolen := 0
	for i, b := range browsers {
		if b.refused > 0 || b.token == "" {
			continue
		}
		stolen++
		a := persist(t.Context(), c, b.first)
		require.Equal(t, http.StatusUnauthorized, a.status, "session %d: %s", i, a.body)
		require.Empty(t, a.cookie())
		for next := range b.successors {
			require.Equal(t, http.StatusUnauthorized, persist(t.Context(), c, next).status, "session %d: the successor", i)
		}
		for _, token := range []string{b.access, b.token} {
			me, err := c.ask(t.Context(), http.MethodGet, "/api/auth/me", "", "Authorization", "Bearer "+token)
			require.NoError(t, err)
			require.Equal(t, http.StatusUnauthorized, me.status, "session %d: its access tokens", i)
		}
	}
	require.Positive(t, stolen)
	var revoked int
	require.NoError(t, db.QueryRow(t.Context(), `SELECT count(*) FROM auth.session WHERE revoked_reason = 'reuse'`).Scan(&revoked))
	require.GreaterOrEqual(t, revoked, stolen)
	t.Logf("%d replays past the grace, after a kill: all refused, every family revoked", stolen)
}

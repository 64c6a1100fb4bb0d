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
	// concurrentSessions is the number of sessions that are refreshed at the same time, each by all of its tabs.
	concurrentSessions = 6
	// grace is the time after the first exchange of a token during which all tabs may exchange it.
	grace = 10 * time.Second
)

// browser is one session with many tabs, which all refresh at the same time.
type browser struct {
	first, access string

	mu         sync.Mutex
	successors map[string]bool
	refused    int
	token      string // an access token that a tab received
	took       time.Duration
}

// refreshAll makes every tab exchange the session's first token, and repeat that until the tab has received a response.
func (b *browser) refreshAll(ctx context.Context, c *caller, responses *atomic.Int64) {
	began := time.Now()
	var wg sync.WaitGroup
	for range tabs {
		wg.Go(func() {
			a := refreshUntilDone(ctx, c, b.first)
			responses.Add(1)
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

// refreshUntilDone repeats an exchange until the response is not a server error, as a client does if the response
// was lost or the server is down.
func refreshUntilDone(ctx context.Context, c *caller, cookie string) response {
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

// signInMany creates sessions, each from its own address.
func signInMany(t *testing.T, s *testenv.Installation, c *caller, n int) []*browser {
	t.Helper()
	browsers := make([]*browser, n)
	for i := range browsers {
		a := c.signIn(t, s, client(i))
		browsers[i] = &browser{first: a.cookie(), access: a.token(), successors: map[string]bool{}}
	}
	return browsers
}

// refreshConcurrently refreshes many sessions, each from twenty tabs, while auth is killed. It then sends the used
// tokens again.
func refreshConcurrently(t *testing.T, s *testenv.Installation) {
	t.Helper()
	c := newCaller(t, s.URL, "")
	db := database(t, s)
	n, kills := sampleCount(40, 1000), sampleCount(1, 5)
	_, err := db.Exec(t.Context(), `UPDATE auth.session SET revoked_at = now(), revoked_reason = 'admin'`)
	require.NoError(t, err) // end the sessions of earlier subtests
	browsers := signInMany(t, s, c, n)
	var responses atomic.Int64
	var wg sync.WaitGroup
	work := make(chan *browser)
	for range concurrentSessions {
		wg.Go(func() {
			for b := range work {
				b.refreshAll(t.Context(), c, &responses)
			}
		})
	}
	for i, b := range browsers {
		work <- b
		for k := range kills {
			if i == (k+1)*n/(kills+1) {
				before := responses.Load()
				s.Processes["auth"].Kill()
				s.Processes["auth"].Start()
				t.Logf("auth was killed after %d of %d responses", before, n*tabs)
			}
		}
	}
	close(work)
	wg.Wait()
	require.EqualValues(t, n*tabs, responses.Load())
	requireOneSuccessor(t, db, browsers)
	requireReplayRejected(t, s, c, db, browsers)
}

// requireOneSuccessor requires that each session has exactly one successor token in the database, and at most one in
// the responses.
func requireOneSuccessor(t *testing.T, db *pgx.Conn, browsers []*browser) {
	t.Helper()
	lost := 0
	for i, b := range browsers {
		require.LessOrEqual(t, len(b.successors), 1, "session %d must have at most one successor", i)
		if len(b.successors) == 0 {
			lost++ // all responses were lost when auth was killed
		}
		if b.took < grace {
			require.Zero(t, b.refused, "session %d: within the grace period every tab must succeed", i)
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
		require.Equal(t, 2, size, "a session must have its first token and one successor")
	}
	t.Logf("%d sessions x %d tabs: one successor each; for %d sessions all responses were lost", len(browsers), tabs, lost)
}

// requireReplayRejected kills auth again and sends used tokens after the grace period. Each must be rejected and must
// revoke all tokens of its session.
func requireReplayRejected(t *testing.T, s *testenv.Installation, c *caller, db *pgx.Conn, browsers []*browser) {
	t.Helper()
	s.Processes["auth"].Kill()
	// Set used_at to an earlier time instead of waiting for the end of the grace period.
	for _, table := range []string{"refresh_token", "refresh_salt"} {
		_, err := db.Exec(t.Context(), `UPDATE auth.`+table+` SET used_at = used_at - interval '11 seconds' WHERE used_at IS NOT NULL`)
		require.NoError(t, err)
	}
	s.Processes["auth"].Start()
	s.AwaitServing()
	stolen := 0
	for i, b := range browsers {
		if b.refused > 0 || b.token == "" {
			continue
		}
		stolen++
		a := refreshUntilDone(t.Context(), c, b.first)
		require.Equal(t, http.StatusUnauthorized, a.status, "session %d: %s", i, a.body)
		require.Empty(t, a.cookie())
		for next := range b.successors {
			require.Equal(t, http.StatusUnauthorized, refreshUntilDone(t.Context(), c, next).status, "session %d: the successor must be rejected", i)
		}
		for _, token := range []string{b.access, b.token} {
			me, err := c.request(t.Context(), http.MethodGet, "/api/auth/me", "", "Authorization", "Bearer "+token)
			require.NoError(t, err)
			require.Equal(t, http.StatusUnauthorized, me.status, "session %d: its access tokens must be rejected", i)
		}
	}
	require.Positive(t, stolen)
	var revoked int
	require.NoError(t, db.QueryRow(t.Context(), `SELECT count(*) FROM auth.session WHERE revoked_reason = 'reuse'`).Scan(&revoked))
	require.GreaterOrEqual(t, revoked, stolen)
	t.Logf("%d used tokens after the grace period and a kill: all rejected, all sessions revoked", stolen)
}

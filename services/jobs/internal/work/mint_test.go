package work_test

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/token"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/work"
)

// signer signs whatever it is asked for, and keeps it.
type signer struct {
	key     string
	expires time.Duration
	err     error
}

func (s *signer) SignGet(_ context.Context, key string, expires time.Duration) (blob.Signed, error) {
	s.key, s.expires = key, expires
	return blob.Signed{URL: "http://x/" + key}, s.err
}

func (b *bench) agents() (*work.AgentServer, *trail, *signer) {
	rows, blobs := &trail{}, &signer{}
	return &work.AgentServer{
		Agents: &work.Agents{Pool: b.pool, Works: b.works}, Tokens: &token.Store{Rand: rand.Reader}, Blobs: blobs, Trail: rows,
	}, rows, blobs
}

func mintOf(id string) *jobsv1.MintIngestTokenRequest {
	return &jobsv1.MintIngestTokenRequest{WorkId: id, Generation: 1, Fence: 1}
}

// An ingest token is for the one execution that has not begun, and for the node that has it.
func TestWhoIsMintedAnIngestTokenAndUntilWhen(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string // of the row
		node   string
		req    func(r *jobsv1.MintIngestTokenRequest)
		kind   fault.Kind // of the refusal
	}{
		"its node":                {"", "nod_1", nil, ""},
		"while it prepares":       {`UPDATE work SET phase = 'preparing', preparing_at = now()`, "nod_1", nil, ""},
		"its process has started": {`UPDATE work SET phase = 'running', running_at = now()`, "nod_1", nil, fault.Conflict},
		"it has ended":            {`UPDATE work SET phase = 'exited', running_at = now(), exit_code = 0`, "nod_1", nil, fault.Conflict},
		"it is to stop":           {`UPDATE work SET desired = 'stopped'`, "nod_1", nil, fault.Conflict},
		"it is to go":             {`UPDATE work SET desired = 'gone'`, "nod_1", nil, fault.Conflict},
		"it was given up":         {`UPDATE work SET released_at = now()`, "nod_1", nil, fault.Conflict},
		"an engine":               {`UPDATE work SET kind = 'engine', spec = ''`, "nod_1", nil, fault.Conflict},
		"another node":            {"", "nod_2", nil, fault.Absent},
		"it went to another node": {`UPDATE work SET node_id = 'nod_2'`, "nod_1", nil, fault.Absent},
		"it has no node":          {`UPDATE work SET node_id = ''`, "", nil, fault.Absent},
		"an older fence":          {`UPDATE work SET fence = 2`, "nod_1", nil, fault.Conflict},
		"an older generation":     {`UPDATE work SET generation = 2`, "nod_1", nil, fault.Conflict},
		"a fence to come":         {"", "nod_1", func(r *jobsv1.MintIngestTokenRequest) { r.Fence = 2 }, fault.Conflict},
		"no such work":            {"", "nod_1", func(r *jobsv1.MintIngestTokenRequest) { r.WorkId = "wrk_none" }, fault.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.attempt("wrk_1")
			if c.change != "" {
				b.exec(c.change)
			}
			req := mintOf("wrk_1")
			if c.req != nil {
				c.req(req)
			}
			s, rows, _ := b.agents()
			ctx := t.Context()
			if c.node != "" {
				ctx = asNode(ctx, c.node)
			}
			got, err := s.MintIngestToken(ctx, req)
			if c.kind != "" {
				require.True(t, fault.Is(err, c.kind), "%v", err)
				require.Zero(t, b.count("ingest_token"))
				require.Empty(t, rows.rows, "what was refused is not recorded as done")
				return
			}
			require.NoError(t, err)
			require.Equal(t, secret.KindIngest, secret.Kind(got.GetToken()))
			require.Equal(t, 1, b.count(`ingest_token WHERE hash = $1 AND run_id = 'run_1' AND job_id = 'job_1' AND attempt = 1`,
				secret.Hash(got.GetToken())))
			require.Len(t, rows.rows, 1)
			require.Contains(t, rows.rows[0], "ingest_token.create job job_1")
			require.NotContains(t, rows.rows[0], got.GetToken())
		})
	}
}

func TestAUserIsNoNodeWhateverHisName(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.attempt("wrk_1")
	s, _, _ := b.agents()
	for _, kind := range []authn.Kind{authn.KindUser, authn.KindNone} {
		ctx := authn.NewContext(t.Context(), &authn.Caller{Kind: kind, Subject: "nod_1", Role: authn.RoleAdmin})
		_, err := s.MintIngestToken(ctx, mintOf("wrk_1"))
		require.True(t, fault.Is(err, fault.Absent), "%v", err)
		_, err = s.SignDownload(ctx, &jobsv1.SignDownloadRequest{WorkId: "wrk_1", Generation: 1, Fence: 1, Uri: "blob://recipes/a.tar"})
		require.True(t, fault.Is(err, fault.Absent), "%v", err)
	}
	require.Zero(t, b.count("ingest_token"))
}

func TestTokensMintedAtOnceLeaveOneThatOpens(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.attempt("wrk_1")
	s, _, _ := b.agents()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := s.MintIngestToken(asNode(t.Context(), "nod_1"), mintOf("wrk_1")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	require.Equal(t, 8, b.count("ingest_token"))
	require.Equal(t, 1, b.count(`ingest_token WHERE revoked_at IS NULL`), "each revokes the one before it")
}

func TestATokenWithoutItsAuditRowIsNotMintedAndRevokesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.attempt("wrk_1")
	s, rows, _ := b.agents()
	ctx := asNode(t.Context(), "nod_1")
	first, err := s.MintIngestToken(ctx, mintOf("wrk_1"))
	require.NoError(t, err)
	rows.err = errors.New("the audit row cannot be written")
	_, err = s.MintIngestToken(ctx, mintOf("wrk_1"))
	require.ErrorIs(t, err, rows.err)
	require.Equal(t, 1, b.count(`ingest_token WHERE revoked_at IS NULL AND hash = $1`, secret.Hash(first.GetToken())))
}

// What a node may fetch is what the spec of its own execution names, and nothing beside it.
func TestWhatMayBeDownloaded(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.attempt("wrk_1")
	b.put(orderOf("wrk_2", 1, running, withModel))
	b.exec(`UPDATE work SET node_id = 'nod_1', fence = 1 WHERE id = 'wrk_2'`)
	for name, c := range map[string]struct {
		id, uri string
		fence   int64
		kind    fault.Kind
		key     string
	}{
		"the package":             {"wrk_1", "blob://recipes/a.tar", 1, "", "recipes/a.tar"},
		"a file of a dataset":     {"wrk_1", "blob://projects/p/b", 1, "", "projects/p/b"},
		"the model to start from": {"wrk_1", "blob://models/m", 1, "", "models/m"},
		"an engine's model":       {"wrk_2", "blob://runs/m.gguf", 1, "", "runs/m.gguf"},
		"the other work's":        {"wrk_2", "blob://recipes/a.tar", 1, fault.Absent, ""},
		"nobody's":                {"wrk_1", "blob://projects/p/c", 1, fault.Absent, ""},
		"a prefix":                {"wrk_1", "blob://projects/p/", 1, fault.Absent, ""},
		"a way round":             {"wrk_1", "blob://projects/p/../p/a", 1, fault.Absent, ""},
		"nothing":                 {"wrk_1", "", 1, fault.Absent, ""},
		"another execution":       {"wrk_1", "blob://recipes/a.tar", 2, fault.Conflict, ""},
		"no such work":            {"wrk_9", "blob://recipes/a.tar", 1, fault.Absent, ""},
		"outside the store":       {"wrk_2", "https://elsewhere.example/m", 1, fault.Absent, ""},
	} {
		s, _, blobs := b.agents()
		got, err := s.SignDownload(asNode(t.Context(), "nod_1"), &jobsv1.SignDownloadRequest{
			WorkId: c.id, Generation: 1, Fence: c.fence, Uri: c.uri,
		})
		require.Equal(t, c.key, blobs.key, name)
		if c.kind != "" {
			require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
			continue
		}
		require.NoError(t, err, name)
		require.Equal(t, "http://x/"+c.key, got.GetUrl())
		require.Equal(t, 15*time.Minute, blobs.expires, "a signed URL holds for 15 minutes at most")
	}
	s, _, blobs := b.agents()
	blobs.err = errors.New("the store is away")
	_, err := s.SignDownload(asNode(t.Context(), "nod_1"), &jobsv1.SignDownloadRequest{WorkId: "wrk_1", Generation: 1, Fence: 1, Uri: "blob://models/m"})
	require.ErrorIs(t, err, blobs.err)
}

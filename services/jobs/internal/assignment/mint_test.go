package assignment_test

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
	"github.com/signalbox-dev/signalbox/services/jobs/internal/assignment"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/reporting"
)

// signer signs every request and records it.
type signer struct {
	key     string
	expires time.Duration
	err     error
}

func (s *signer) SignKnown(_ context.Context, info blob.Info, expires time.Duration) (blob.Signed, error) {
	s.key, s.expires = info.Key, expires
	return blob.Signed{URL: "http://x/" + info.Key}, s.err
}

func (b *harness) agents() (*assignment.AgentServer, *trail, *signer) {
	rows, blobs := &trail{}, &signer{}
	return &assignment.AgentServer{
		Agents: &assignment.Agents{Pool: b.pool, Works: b.works}, Tokens: &reporting.Store{Rand: rand.Reader}, Blobs: blobs, Trail: rows,
		Rand: rand.Reader, Fence: 90 * time.Second,
	}, rows, blobs
}

func mintOf(id string) *jobsv1.MintIngestTokenRequest {
	return &jobsv1.MintIngestTokenRequest{WorkId: id, Generation: 1, Fence: 1}
}

// An ingest token is minted only for the node that has the current execution, before its process starts.
func TestMintIngestToken_conditions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change string // SQL
		node   string
		req    func(r *jobsv1.MintIngestTokenRequest)
		kind   fault.Kind // empty if the token is minted
	}{
		"its node":            {"", "nod_1", nil, ""},
		"preparing":           {`UPDATE work SET phase = 'preparing', preparing_at = now()`, "nod_1", nil, ""},
		"process has started": {`UPDATE work SET phase = 'running', running_at = now()`, "nod_1", nil, fault.Conflict},
		"ended":               {`UPDATE work SET phase = 'exited', running_at = now(), exit_code = 0`, "nod_1", nil, fault.Conflict},
		"to be stopped":       {`UPDATE work SET desired = 'stopped'`, "nod_1", nil, fault.Conflict},
		"to be removed":       {`UPDATE work SET desired = 'gone'`, "nod_1", nil, fault.Conflict},
		"released":            {`UPDATE work SET released_at = now()`, "nod_1", nil, fault.Conflict},
		"engine":              {`UPDATE work SET kind = 'engine', spec = ''`, "nod_1", nil, fault.Conflict},
		"other node":          {"", "nod_2", nil, fault.Absent},
		"moved to other node": {`UPDATE work SET node_id = 'nod_2'`, "nod_1", nil, fault.Absent},
		"not placed":          {`UPDATE work SET node_id = ''`, "", nil, fault.Absent},
		"older fence":         {`UPDATE work SET fence = 2`, "nod_1", nil, fault.Conflict},
		"older generation":    {`UPDATE work SET generation = 2`, "nod_1", nil, fault.Conflict},
		"future fence":        {"", "nod_1", func(r *jobsv1.MintIngestTokenRequest) { r.Fence = 2 }, fault.Conflict},
		"unknown work":        {"", "nod_1", func(r *jobsv1.MintIngestTokenRequest) { r.WorkId = "wrk_none" }, fault.Absent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHarness(t)
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
				require.Empty(t, rows.rows, "a refused request must not be audited")
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

func TestAgentServer_rejectsUserNamedLikeNode(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
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

func TestMintIngestToken_concurrentMintsLeaveOneValid(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
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
	require.Equal(t, 1, b.count(`ingest_token WHERE revoked_at IS NULL`), "each token must revoke the one before")
}

func TestMintIngestToken_failsWithoutAuditRecord(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	s, rows, _ := b.agents()
	ctx := asNode(t.Context(), "nod_1")
	first, err := s.MintIngestToken(ctx, mintOf("wrk_1"))
	require.NoError(t, err)
	rows.err = errors.New("the audit record cannot be written")
	_, err = s.MintIngestToken(ctx, mintOf("wrk_1"))
	require.ErrorIs(t, err, rows.err)
	require.Equal(t, 1, b.count(`ingest_token WHERE revoked_at IS NULL AND hash = $1`, secret.Hash(first.GetToken())))
}

// A node may download only the objects that the spec of its own execution refers to.
func TestSignDownload_onlyObjectsOfOwnSpec(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	b.attempt("wrk_1")
	b.put(orderOf("wrk_2", 1, running, withModel))
	b.exec(`UPDATE work SET node_id = 'nod_1', fence = 1 WHERE id = 'wrk_2'`)
	for name, c := range map[string]struct {
		id, uri string
		fence   int64
		kind    fault.Kind
		key     string
	}{
		"package":                {"wrk_1", "blob://recipes/a.tar", 1, "", "recipes/a.tar"},
		"dataset file":           {"wrk_1", "blob://projects/p/b", 1, "", "projects/p/b"},
		"start model":            {"wrk_1", "blob://models/m", 1, "", "models/m"},
		"engine model":           {"wrk_2", "blob://runs/m.gguf", 1, "", "runs/m.gguf"},
		"object of another work": {"wrk_2", "blob://recipes/a.tar", 1, fault.Absent, ""},
		"unlisted object":        {"wrk_1", "blob://projects/p/c", 1, fault.Absent, ""},
		"prefix":                 {"wrk_1", "blob://projects/p/", 1, fault.Absent, ""},
		"path with ..":           {"wrk_1", "blob://projects/p/../p/a", 1, fault.Absent, ""},
		"empty URI":              {"wrk_1", "", 1, fault.Absent, ""},
		"other execution":        {"wrk_1", "blob://recipes/a.tar", 2, fault.Conflict, ""},
		"unknown work":           {"wrk_9", "blob://recipes/a.tar", 1, fault.Absent, ""},
		"outside the store":      {"wrk_2", "https://elsewhere.example/m", 1, fault.Absent, ""},
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
		require.Equal(t, 15*time.Minute, blobs.expires, "a signed URL must be valid for 15 minutes")
	}
	s, _, blobs := b.agents()
	blobs.err = errors.New("the store is down")
	_, err := s.SignDownload(asNode(t.Context(), "nod_1"), &jobsv1.SignDownloadRequest{WorkId: "wrk_1", Generation: 1, Fence: 1, Uri: "blob://models/m"})
	require.ErrorIs(t, err, blobs.err)
}

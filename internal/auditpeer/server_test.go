package auditpeer_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/internal/auditpeer"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// part is one service's audit with its server and a client.
type part struct {
	server *auditpeer.Server
	client commonpeerv1.AuditPeerServiceClient
	owner  *pgxpool.Pool
	clock  *clock.Fake
	log    *audit.Log
	key    ed25519.PrivateKey
}

func open(t *testing.T) *part {
	t.Helper()
	db := pgtest.New(t, pgtest.Schema{Name: "jobs"})
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	public, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	p := &part{
		server: &auditpeer.Server{
			Service: "jobs", Pool: db.Pool("jobs"), Keys: map[string]ed25519.PublicKey{"k1": public},
			Heads: audit.NewFile(filepath.Join(t.TempDir(), "jobs.jsonl")), Clock: clk,
		},
		owner: db.OwnerPool("jobs"), clock: clk, key: key, log: audit.NewLog(clk, id.NewSource(clk, rand.Reader), "jobs"),
	}
	p.client = p.server.Client()
	return p
}

func (p *part) record(t *testing.T, entries ...audit.Entry) {
	t.Helper()
	require.NoError(t, pg.InTx(t.Context(), p.server.Pool, func(ctx context.Context, tx pgx.Tx) error {
		for _, e := range entries {
			if err := p.log.Record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// seal seals all unsealed rows with the key.
func (p *part) seal(t *testing.T, keyID string, key ed25519.PrivateKey) {
	t.Helper()
	s, err := audit.NewSealer(audit.SealerConfig{
		Service: "jobs", Pool: p.server.Pool, Clock: p.clock, Log: slog.New(slog.DiscardHandler), Key: key, KeyID: keyID, Heads: p.server.Heads,
	})
	require.NoError(t, err)
	_, err = s.RunOnce(t.Context())
	require.NoError(t, err)
}

func TestServer_ListAudit(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.record(t, audit.Entry{
		Action: "job.stop", TargetKind: "job", TargetID: "job_1", Before: map[string]string{"state": "running"}, After: map[string]string{"state": "stopping"},
		Actor: &audit.Actor{Kind: "user", ID: "usr_1", Name: "ada", SessionID: "ses_1", ClientAddr: "192.0.2.1", RequestID: "req_1"},
	}, audit.Entry{Action: "job.reap", TargetKind: "job", TargetID: "job_1"})
	out, err := p.client.ListAudit(t.Context(), &commonpeerv1.ListAuditRequest{Limit: 10})
	require.NoError(t, err)
	require.Len(t, out.GetRows(), 2)
	require.Equal(t, "job.reap", out.GetRows()[0].GetAction())
	require.Nil(t, out.GetRows()[0].ActorName)
	require.Empty(t, out.GetRows()[0].GetBefore())
	got := out.GetRows()[1]
	require.True(t, proto.Equal(&commonpeerv1.AuditRow{
		Id: got.GetId(), At: timestamppb.New(p.clock.Now()), ActorKind: "user", ActorId: new("usr_1"), ActorName: new("ada"), SessionId: new("ses_1"),
		ClientAddress: new("192.0.2.1"), Action: "job.stop", TargetKind: "job", TargetId: "job_1", Before: []byte(`{"state":"running"}`),
		After: []byte(`{"state":"stopping"}`), RequestId: new("req_1"),
	}, got), "%v", got)
	keys, err := p.client.ListAudit(t.Context(), &commonpeerv1.ListAuditRequest{Limit: 10, Keys: true, Actor: "ada"})
	require.NoError(t, err)
	require.True(t, proto.Equal(&commonpeerv1.AuditRow{Id: got.GetId(), At: got.GetAt()}, keys.GetRows()[0]))
	require.Len(t, keys.GetRows(), 1)
	rest, err := p.client.ListAudit(t.Context(), &commonpeerv1.ListAuditRequest{
		Limit: 10, BeforeAt: out.GetRows()[0].GetAt(), BeforeId: out.GetRows()[0].GetId(), Since: got.GetAt(),
	})
	require.NoError(t, err)
	require.Len(t, rest.GetRows(), 1)
	require.Equal(t, got.GetId(), rest.GetRows()[0].GetId())
}

// A response whose states have the maximum size fits into a message. States that do not fit are replaced and marked
// as truncated.
func TestServer_ListAudit_limitsResponseSize(t *testing.T) {
	t.Parallel()
	p := open(t)
	long := strings.Repeat("x", audit.MaxState-2)
	for range 40 {
		p.record(t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i", Before: long, After: long})
	}
	out, err := p.client.ListAudit(t.Context(), &commonpeerv1.ListAuditRequest{Limit: 1000})
	require.NoError(t, err)
	require.Len(t, out.GetRows(), 40)
	require.Less(t, proto.Size(out), 3<<20)
	require.Len(t, out.GetRows()[0].GetBefore(), audit.MaxState)
	require.Contains(t, string(out.GetRows()[39].GetAfter()), `"truncated":true`)
	_, err = p.client.ListAudit(t.Context(), &commonpeerv1.ListAuditRequest{Limit: 1001})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = p.client.ListAudit(t.Context(), &commonpeerv1.ListAuditRequest{Limit: 10000, Keys: true})
	require.NoError(t, err)
}

func TestServer_VerifyAudit_brokenRows(t *testing.T) {
	t.Parallel()
	p := open(t)
	for range 30 {
		p.record(t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	}
	p.seal(t, "k1", p.key)
	chain, err := p.client.VerifyAudit(t.Context(), &commonpeerv1.VerifyAuditRequest{})
	require.NoError(t, err)
	require.True(t, proto.Equal(&commonpeerv1.AuditChain{Ok: true, Rows: 30, Checkpoints: 2}, chain), "%v", chain)

	_, err = p.owner.Exec(t.Context(), `UPDATE audit SET action = 'b' WHERE seq > 5`)
	require.NoError(t, err)
	chain, err = p.client.VerifyAudit(t.Context(), &commonpeerv1.VerifyAuditRequest{})
	require.NoError(t, err)
	require.False(t, chain.GetOk())
	require.True(t, strings.HasPrefix(chain.GetFault(), "row 6 (aud_"), chain.GetFault())
	require.Equal(t, 20, strings.Count(chain.GetFault(), "was edited"))
	require.True(t, strings.HasSuffix(chain.GetFault(), "; and 5 more"), chain.GetFault())
}

// If a database administrator removes all rows, seals and heads, the heads stored outside the database reveal it.
func TestServer_VerifyAudit_truncatedDatabase(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.record(t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	p.seal(t, "k1", p.key)
	_, err := p.owner.Exec(t.Context(), `TRUNCATE audit, audit_seal, audit_checkpoint`)
	require.NoError(t, err)
	chain, err := p.client.VerifyAudit(t.Context(), &commonpeerv1.VerifyAuditRequest{})
	require.NoError(t, err)
	require.Equal(t, "row 1: the end of the log was cut off", chain.GetFault())
}

func TestServer_VerifyAudit_formerKeys(t *testing.T) {
	t.Parallel()
	p := open(t)
	public, next, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	for i, key := range []ed25519.PrivateKey{p.key, next} {
		p.record(t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
		p.seal(t, fmt.Sprintf("k%d", i+1), key)
	}
	chain, err := p.client.VerifyAudit(t.Context(), &commonpeerv1.VerifyAuditRequest{})
	require.NoError(t, err)
	require.Contains(t, chain.GetFault(), "the key is unknown")
	p.server.Keys["k2"] = public
	chain, err = p.client.VerifyAudit(t.Context(), &commonpeerv1.VerifyAuditRequest{})
	require.NoError(t, err)
	require.True(t, chain.GetOk(), chain.GetFault())
}

func TestServer_VerifyAudit_unreadableHeads(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.server.Heads = audit.NewFile(t.TempDir())
	_, err := p.client.VerifyAudit(t.Context(), &commonpeerv1.VerifyAuditRequest{})
	require.ErrorContains(t, err, "read the signed audit heads")
}

func TestServer_VerifyAudit_overdueSeals(t *testing.T) {
	t.Parallel()
	p := open(t)
	p.record(t, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i"})
	for _, step := range []struct {
		after time.Duration
		ok    bool
	}{{0, true}, {90 * time.Second, true}, {time.Minute, false}} {
		p.clock.Advance(step.after)
		chain, err := p.client.VerifyAudit(t.Context(), &commonpeerv1.VerifyAuditRequest{})
		require.NoError(t, err)
		require.Equal(t, step.ok, chain.GetOk(), "%s: %s", step.after, chain.GetFault())
	}
}

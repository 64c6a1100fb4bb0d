package deployment

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deploytoken"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
	"github.com/signalbox-dev/signalbox/services/registry/internal/model"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// orders records which revisions were ordered. If the function fail is set, Order returns its result.
type orders struct {
	mu   sync.Mutex
	of   []string
	fail func(ctx context.Context, tx pgx.Tx) error
}

func (o *orders) Order(ctx context.Context, tx pgx.Tx, revisionID string) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.of = append(o.of, revisionID)
	if o.fail != nil {
		return o.fail(ctx, tx)
	}
	return nil
}

// harness is a Changer with one deployment.
type harness struct {
	*Changer

	t      *testing.T
	ctx    context.Context
	base   *pgtest.DB
	clock  *clock.Fake
	ids    *id.Source
	orders *orders
	d      *Deployment
}

func open(t *testing.T) *harness {
	t.Helper()
	files, err := db.Migrations()
	require.NoError(t, err)
	base := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files})
	clk := clock.NewFake(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	keys, err := secret.NewKeyring(secret.Key{ID: "k1", Bytes: []byte("0123456789abcdefFEDCBA9876543210")})
	require.NoError(t, err)
	b := &harness{t: t, base: base, clock: clk, ids: id.NewSource(clk, rand.Reader), orders: &orders{}}
	b.ctx = authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Username: "ann", Role: authn.RoleOperator})
	b.Changer = &Changer{
		Pool: base.Pool("registry"), Store: &Store{}, Revisions: &revision.Store{Keys: keys}, Orders: b.orders, Clock: clk,
		Events: event.NewLog(clk, b.ids, "registry"), Audit: audit.NewLog(clk, b.ids, "registry"),
	}
	b.d = &Deployment{
		Owner: access.Owner{UserID: "usr_1", UserName: "ann", ProjectID: "prj_1", Project: "team", Visibility: "team"},
		ID:    b.ids.New(id.Deployment), Name: "chat", State: StateServing, CreatedAt: clk.Now(),
	}
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.Create(ctx, tx, b.d) }))
	m, v := ready()
	m.Owner, m.Name, m.CreatedAt = b.d.Owner, "held", clk.Now()
	v.ID, v.ModelID, v.Lifecycle, v.Facts, v.CreatedAt = b.ids.New(id.ModelVersion), m.ID, "candidate", []byte(`{}`), clk.Now()
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) error {
		if err := b.Models.Insert(ctx, tx, m); err != nil {
			return err
		}
		_, _, err := b.Models.InsertVersion(ctx, tx, v)
		return err
	}))
	return b
}

func (b *harness) tx(fn func(ctx context.Context, tx pgx.Tx) error) error {
	return pg.InTx(b.ctx, b.Pool, fn)
}

func ready() (*model.Model, *model.Version) {
	return &model.Model{ID: "mdl_1", Task: "chat"},
		&model.Version{Number: 1, Status: model.StatusReady, Format: model.FormatGGUF, Digest: "sha256:ab", URI: "u", File: "m.gguf", Size: 9}
}

// candidate creates a new revision.
func (b *harness) candidate() *revision.Revision {
	b.t.Helper()
	m, v := ready()
	r, err := Candidate(b.ids, b.Clock.Now(), time.Minute, b.d, m, v, revision.Serving{})
	require.NoError(b.t, err)
	require.NoError(b.t, b.tx(func(ctx context.Context, tx pgx.Tx) error { return b.CreateRevision(ctx, tx, r) }))
	return r
}

// see applies an observation of a revision's work. It returns the revision as stored afterwards.
func (b *harness) see(r *revision.Revision, generation, fence int64, o revision.Observation) (*revision.Revision, bool) {
	b.t.Helper()
	o.WorkID, o.Generation, o.Fence = r.WorkID, generation, fence
	wanted, err := b.Observe(b.ctx, o)
	require.NoError(b.t, err)
	now, err := b.Revisions.ByID(b.ctx, b.Pool, r.ID)
	require.NoError(b.t, err)
	return now, wanted
}

func (b *harness) epoch() int64 {
	b.t.Helper()
	now, err := epoch.Current(b.ctx, b.Pool)
	require.NoError(b.t, err)
	return now
}

func serving() revision.Observation {
	return revision.Observation{NodeID: "nod_1", Phase: revision.PhaseRunning, Report: &revision.Report{
		Ready: true, Engine: revision.Engine{PID: 7, Address: "127.0.0.1:9", Key: secret.New("engine-key")}, Probes: []byte(`{"n":1}`),
	}}
}

func died() revision.Observation {
	return revision.Observation{NodeID: "nod_1", Phase: revision.PhaseExited, Exit: &revision.Exit{Code: 1, Message: "it died"}}
}

func TestChanger_Promote_readyCandidate(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	require.EqualValues(t, 1, r.Number)
	_, err := b.Promote(b.ctx, b.d.ID, 1)
	require.True(t, fault.HasCode(err, "revision_not_ready"), "%v", err)
	before := b.epoch()
	r, wanted := b.see(r, 1, 1, serving())
	require.True(t, wanted)
	require.Equal(t, revision.Ready, r.State)
	require.Equal(t, "engine-key", r.Engine.Key.Reveal())
	require.Equal(t, before, b.epoch(), "a candidate never affects traffic")
	d, err := b.Promote(b.ctx, b.d.ID, 1)
	require.NoError(t, err)
	require.Equal(t, r.ID, *d.PromotedID)
	require.Equal(t, before+1, b.epoch())
	_, err = b.Promote(b.ctx, b.d.ID, 1)
	require.NoError(t, err)
	require.Equal(t, before+1, b.epoch(), "promoting the promoted revision again changes nothing")
	_, err = b.Stop(b.ctx, b.d.ID, 1)
	require.True(t, fault.HasCode(err, "revision_promoted"), "%v", err)
	var sealed []byte
	require.NoError(t, b.Pool.QueryRow(b.ctx, `SELECT api_key FROM revision`).Scan(&sealed))
	require.NotContains(t, string(sealed), "engine-key", "the stored key is encrypted")
}

func TestChanger_Observe_promotedEngineReordered(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	b.see(r, 1, 1, serving())
	_, err := b.Promote(b.ctx, b.d.ID, 1)
	require.NoError(t, err)
	before, ordered := b.epoch(), len(b.orders.of)
	r, wanted := b.see(r, 1, 1, died())
	require.True(t, wanted)
	require.Equal(t, revision.NotReady, r.State)
	require.EqualValues(t, 2, r.Generation)
	require.Empty(t, r.Engine.Address)
	require.True(t, r.Engine.Key.IsZero())
	require.Len(t, b.orders.of, ordered+1)
	require.Equal(t, before+1, b.epoch())
	same, _ := b.see(r, 1, 1, serving())
	require.Equal(t, revision.NotReady, same.State, "an observation of an older generation is ignored")
	r, _ = b.see(r, 2, 2, serving())
	require.Equal(t, revision.Ready, r.State)
	require.Equal(t, before+2, b.epoch())
	b.see(r, 2, 2, serving())
	require.Equal(t, before+2, b.epoch(), "a repeated observation changes nothing")
	old, _ := b.see(r, 2, 1, died())
	require.Equal(t, revision.Ready, old.State, "an observation of an older execution is ignored")
}

func TestChanger_Observe_deadCandidateFails(t *testing.T) {
	t.Parallel()
	b := open(t)
	r := b.candidate()
	r, _ = b.see(r, 1, 1, died())
	require.Equal(t, revision.Failed, r.State)
	require.False(t, r.Wanted)
	require.Equal(t, []string{r.ID, r.ID}, b.orders.of, "the failed candidate's engine is released")
	again, wanted := b.see(r, 1, 2, serving())
	require.False(t, wanted)
	require.Equal(t, revision.Failed, again.State)
	wanted, err := b.Observe(b.ctx, revision.Observation{WorkID: "wrk_unknown"})
	require.NoError(t, err)
	require.False(t, wanted, "Observe must report an unknown work as not wanted")
	r, err = b.Stop(b.ctx, b.d.ID, 1)
	require.NoError(t, err)
	require.Equal(t, revision.Stopped, r.State)
	_, err = b.Stop(b.ctx, b.d.ID, 1)
	require.True(t, fault.HasCode(err, "revision_stopped"), "%v", err)
	events, err := event.List(b.ctx, b.Pool, SubjectKind, b.d.ID, request.Page{Limit: 50})
	require.NoError(t, err)
	require.Len(t, events, 4, "created, revision 1, failed, stopped")
}

func TestChanger_Promote_recordsPreviousRevision(t *testing.T) {
	t.Parallel()
	b := open(t)
	one, two := b.candidate(), b.candidate()
	b.see(one, 1, 1, serving())
	b.see(two, 1, 1, serving())
	for _, number := range []int32{1, 2} {
		_, err := b.Promote(b.ctx, b.d.ID, number)
		require.NoError(t, err)
	}
	d, err := b.Store.Get(b.ctx, b.Pool, access.ServiceScope(), b.d.ID)
	require.NoError(t, err)
	require.Equal(t, []string{two.ID, one.ID}, []string{*d.PromotedID, *d.PreviousID})
	require.EqualValues(t, 2, *d.PromotedNumber)
	_, err = b.Promote(b.ctx, b.d.ID, 3)
	require.True(t, fault.Is(err, fault.Absent))
	_, err = b.Stop(b.ctx, b.d.ID, 1)
	require.NoError(t, err)
	wanted, err := b.Revisions.Wanted(b.ctx, b.Pool)
	require.NoError(t, err)
	require.Len(t, wanted, 1)
	require.Equal(t, two.ID, wanted[0].ID)
}

func TestChanger_Revoke_returnsEpoch(t *testing.T) {
	t.Parallel()
	b := open(t)
	var token *deploytoken.Token
	var text secret.String
	require.NoError(t, b.tx(func(ctx context.Context, tx pgx.Tx) (err error) {
		token, text, err = b.Mint(ctx, tx, b.ids, rand.Reader, b.d.ID, "caller")
		return err
	}))
	require.Equal(t, secret.Hash(text.Reveal()), token.Hash)
	require.Equal(t, text.Reveal()[:prefixLength], token.Prefix)
	live, err := b.Tokens.Live(b.ctx, b.Pool, "", 10)
	require.NoError(t, err)
	require.Len(t, live, 1)
	from, err := b.Revoke(b.ctx, b.d.ID, token.ID)
	require.NoError(t, err)
	require.Equal(t, b.epoch(), from)
	again, err := b.Revoke(b.ctx, b.d.ID, token.ID)
	require.NoError(t, err)
	require.Equal(t, from, again)
	require.Equal(t, from, b.epoch())
	live, err = b.Tokens.Live(b.ctx, b.Pool, "", 10)
	require.NoError(t, err)
	require.Empty(t, live)
	_, err = b.Revoke(b.ctx, "dep_other", token.ID)
	require.True(t, fault.Is(err, fault.Absent), "a token is found only under its own deployment")
}

func TestServedNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, []string{"default", "chat"}, servedNames(&Deployment{Name: "chat"}))
	require.Equal(t, []string{"default"}, servedNames(&Deployment{Name: "default"}))
}

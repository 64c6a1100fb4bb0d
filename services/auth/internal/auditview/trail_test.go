package auditview

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/internal/auditpeer"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// harness is a trail of three services, with the database and the audit log of each.
type harness struct {
	*Trail

	pools map[string]*pgxpool.Pool
	clock *clock.Fake
	logs  map[string]*audit.Log
}

func open(t *testing.T) *harness {
	t.Helper()
	names := []string{"auth", "jobs", "registry"}
	var schemas []pgtest.Schema
	for _, name := range names {
		schemas = append(schemas, pgtest.Schema{Name: name})
	}
	db := pgtest.New(t, schemas...)
	clk := clock.NewFake(time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC))
	h := &harness{
		Trail: &Trail{Names: names, Sources: map[string]Source{}}, pools: map[string]*pgxpool.Pool{}, clock: clk, logs: map[string]*audit.Log{},
	}
	ids := id.NewSource(clk, rand.Reader)
	for _, name := range names {
		h.pools[name], h.logs[name] = db.Pool(name), audit.NewLog(clk, ids, name)
		h.Sources[name] = Peer{Client: (&auditpeer.Server{
			Service: name, Pool: h.pools[name], Keys: map[string]ed25519.PublicKey{}, Heads: audit.NewFile(filepath.Join(t.TempDir(), name)),
			Clock: clk,
		}).Client()}
	}
	return h
}

func (h *harness) record(t *testing.T, service string, entries ...audit.Entry) {
	t.Helper()
	require.NoError(t, pg.InTx(t.Context(), h.pools[service], func(ctx context.Context, tx pgx.Tx) error {
		for _, e := range entries {
			if err := h.logs[service].Record(ctx, tx, e); err != nil {
				return err
			}
		}
		return nil
	}))
}

// newFilledHarness returns a harness with n rows, spread over the services. Many rows have the same time.
func newFilledHarness(t *testing.T, n int) *harness {
	t.Helper()
	h := open(t)
	random := mathrand.New(mathrand.NewPCG(3, 4))
	for i := range n {
		h.clock.Advance(time.Duration(random.IntN(2)) * time.Microsecond)
		h.record(t, h.Names[random.IntN(3)], audit.Entry{Action: []string{"a", "b"}[i%2], TargetKind: "k", TargetID: fmt.Sprint(i), After: i})
	}
	return h
}

// The pages together show a list in which each row of each service occurs exactly once.
func TestTrail_List_pages(t *testing.T) {
	t.Parallel()
	const n = 60
	h := newFilledHarness(t, n)
	all, more, err := h.List(t.Context(), audit.Filter{}, audit.Point{}, request.Page{Limit: 500})
	require.NoError(t, err)
	require.False(t, more)
	require.Len(t, all, n)
	for i, r := range all {
		require.Equal(t, fmt.Sprint(n-1-i), r.TargetID, "the row that was written last comes first")
	}
	for _, limit := range []int{1, 7, 20, 59, 60, 61} {
		for offset := 0; offset < n+2; offset += 1 + limit/3 {
			got, more, err := h.List(t.Context(), audit.Filter{}, audit.Point{}, request.Page{Limit: limit, Offset: offset})
			require.NoError(t, err)
			want := all[min(offset, n):min(offset+limit, n)]
			require.Equal(t, len(want), len(got), "limit %d, offset %d", limit, offset)
			require.True(t, slices.EqualFunc(want, got, func(a, b Row) bool { return a.ID == b.ID && a.Service == b.Service }))
			require.Equal(t, offset+limit < n, more, "limit %d, offset %d", limit, offset)
		}
	}
	var walked []string
	for after := (audit.Point{}); ; { // rows are added while the pages are read
		got, more, err := h.List(t.Context(), audit.Filter{}, after, request.Page{Limit: 7})
		require.NoError(t, err)
		for _, r := range got {
			walked = append(walked, r.TargetID)
		}
		if !more {
			break
		}
		text := request.TimePosition(got[6].At, got[6].ID)
		after.At, after.ID, err = request.ReadTimePosition(id.Audit, &text)
		require.NoError(t, err)
		h.clock.Advance(time.Second)
		h.record(t, h.Names[0], audit.Entry{Action: "c", TargetKind: "k", TargetID: "new"})
	}
	require.Len(t, walked, n)
	for i, r := range all {
		require.Equal(t, r.TargetID, walked[i])
	}
	odd, more, err := h.List(t.Context(), audit.Filter{Action: "b"}, audit.Point{}, request.Page{Limit: 10, Offset: 5})
	require.NoError(t, err)
	require.True(t, more)
	for i, r := range odd {
		require.Equal(t, all[2*(5+i)].ID, r.ID)
	}
}

// For a page far back, List reads many positions, in several requests per service, but only the rows of the page.
func TestTrail_List_deepPage(t *testing.T) {
	t.Parallel()
	h := open(t)
	const each = 2*maxPoints + 17
	for i, name := range h.Names {
		_, err := h.pools[name].Exec(t.Context(), `INSERT INTO audit (id, at, actor_kind, actor_id, actor_name, session_id, client_addr, action, target_kind, target_id, request_id)
			SELECT 'aud_' || lpad((3 * n + $1)::text, 26, '0'), '2026-11-21'::timestamptz + (3 * n + $1) * interval '1 microsecond', 'user', 'u', '', '', '', 'a', 'k', (3 * n + $1)::text, ''
			FROM generate_series(0, $2 - 1) n`, i, each)
		require.NoError(t, err)
	}
	last := 3*each - 1
	for _, offset := range []int{0, maxPoints - 1, 3*maxPoints + 5, last - 9} {
		got, more, err := h.List(t.Context(), audit.Filter{}, audit.Point{}, request.Page{Limit: 10, Offset: offset})
		require.NoError(t, err)
		require.Len(t, got, 10)
		for i, r := range got {
			require.Equal(t, fmt.Sprint(last-offset-i), r.TargetID)
		}
		require.Equal(t, offset+10 <= last, more)
	}
}

// failingService is a Source. Each method returns its error, if one is set.
type failingService struct {
	Source

	points, rows, verify error
}

func (f failingService) Points(ctx context.Context, filter audit.Filter, after audit.Point, limit int) ([]audit.Point, error) {
	if f.points != nil {
		return nil, f.points
	}
	return f.Source.Points(ctx, filter, after, limit)
}

func (f failingService) Rows(ctx context.Context, filter audit.Filter, after audit.Point, limit int) ([]audit.Row, error) {
	if f.rows != nil {
		return nil, f.rows
	}
	return f.Source.Rows(ctx, filter, after, limit)
}

func (f failingService) Verify(ctx context.Context) (Chain, error) {
	if f.verify != nil {
		return Chain{}, f.verify
	}
	return f.Source.Verify(ctx)
}

func TestServer_namesFailingService(t *testing.T) {
	t.Parallel()
	away, broken := fault.New(fault.Unavailable, "", "connection refused"), errors.New("disk full")
	for name, c := range map[string]struct {
		failingService
		want fault.Kind
	}{
		"unavailable":       {failingService{points: away, verify: away}, fault.Unavailable},
		"unavailable later": {failingService{rows: away, verify: away}, fault.Unavailable},
		"too slow":          {failingService{points: context.DeadlineExceeded, verify: context.DeadlineExceeded}, fault.Unavailable},
		"broken":            {failingService{points: broken, verify: broken}, fault.Dependency},
		"broken later":      {failingService{rows: broken, verify: broken}, fault.Dependency},
	} {
		h := newFilledHarness(t, 20)
		c.Source = h.Sources["jobs"]
		h.Sources["jobs"] = c.failingService
		s := &Server{Trail: h.Trail}
		_, err := s.ListAudit(t.Context(), &authv1.ListAuditRequest{})
		require.True(t, fault.Is(err, c.want), "%s: %v", name, err)
		require.Contains(t, fault.From(err).Text(), "jobs", name)
		require.NotContains(t, fault.From(err).Text(), "disk", name)
		_, err = s.VerifyAudit(t.Context(), &authv1.VerifyAuditRequest{})
		require.True(t, fault.Is(err, c.want), "%s: %v", name, err)
		require.Contains(t, fault.From(err).Text(), "jobs", name)
	}
}

func TestServer_ListAudit_invalidPage(t *testing.T) {
	t.Parallel()
	s := &Server{Trail: open(t).Trail}
	for _, in := range []*authv1.ListAuditRequest{{Limit: new(int32(0))}, {Limit: new(int32(501))}, {Offset: new(int32(-1))}, {Offset: new(int32(100_001))}} {
		_, err := s.ListAudit(t.Context(), in)
		require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	}
	out, err := s.ListAudit(t.Context(), &authv1.ListAuditRequest{Limit: new(int32(500)), Offset: new(int32(100_000))})
	require.NoError(t, err)
	require.Empty(t, out.GetRows())
}

func TestServer_ListAudit_longStatesFit(t *testing.T) {
	t.Parallel()
	h := open(t)
	long := strings.Repeat("x", audit.MaxState-2)
	for _, name := range h.Names {
		for range 30 {
			h.record(t, name, audit.Entry{Action: "a", TargetKind: "k", TargetID: "i", Before: long, After: long})
		}
	}
	out, err := (&Server{Trail: h.Trail}).ListAudit(t.Context(), &authv1.ListAuditRequest{Limit: new(int32(90))})
	require.NoError(t, err)
	require.Len(t, out.GetRows(), 90)
	require.Less(t, proto.Size(out), 3<<20)
	require.Len(t, out.GetRows()[0].GetBefore(), audit.MaxState, "the newest states are complete")
}

func TestServer_VerifyAudit(t *testing.T) {
	t.Parallel()
	h := newFilledHarness(t, 6)
	s := &Server{Trail: h.Trail}
	out, err := s.VerifyAudit(t.Context(), &authv1.VerifyAuditRequest{})
	require.NoError(t, err)
	require.True(t, out.GetOk())
	require.Len(t, out.GetChains(), 3)
	require.Nil(t, out.GetChains()[0].Fault)
	// Insert a seal without a row. The database role of the service has the right to do so.
	_, err = h.pools["jobs"].Exec(t.Context(), `INSERT INTO audit_seal VALUES (1, 'aud_x', decode(repeat('00', 32), 'hex'))`)
	require.NoError(t, err)
	out, err = s.VerifyAudit(t.Context(), &authv1.VerifyAuditRequest{})
	require.NoError(t, err)
	require.False(t, out.GetOk())
	require.Equal(t, []bool{true, false, true}, []bool{out.GetChains()[0].GetOk(), out.GetChains()[1].GetOk(), out.GetChains()[2].GetOk()})
	require.Contains(t, out.GetChains()[1].GetFault(), "row 1 (aud_x): the row was deleted")
}

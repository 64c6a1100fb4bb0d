package deployment

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// list calls a list method of the service and returns the identifying field of its rows.
type list func(ctx context.Context, limit, offset *int32) ([]string, error)

func (d *serverHarness) lists() map[string]list {
	return map[string]list{
		"deployments": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListDeployments(ctx, &registryv1.ListDeploymentsRequest{Limit: limit, Offset: offset})
			for _, row := range got.GetDeployments() {
				out = append(out, row.GetId())
			}
			return out, err
		},
		"revisions": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListRevisions(ctx, &registryv1.ListRevisionsRequest{DeploymentId: d.d.ID, Limit: limit, Offset: offset})
			for _, row := range got.GetRevisions() {
				out = append(out, fmt.Sprintf("%03d", row.GetNumber()))
			}
			return out, err
		},
		"tokens": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListDeploymentTokens(ctx, &registryv1.ListDeploymentTokensRequest{DeploymentId: d.d.ID, Limit: limit, Offset: offset})
			for _, row := range got.GetTokens() {
				out = append(out, row.GetId())
			}
			return out, err
		},
		"events": func(ctx context.Context, limit, offset *int32) (out []string, err error) {
			got, err := d.ListDeploymentEvents(ctx, &registryv1.ListDeploymentEventsRequest{DeploymentId: d.d.ID, Limit: limit, Offset: offset})
			for _, row := range got.GetEvents() {
				out = append(out, row.GetId())
			}
			return out, err
		},
	}
}

// five makes five rows of each list, all created at the same time.
func (d *serverHarness) five() {
	d.t.Helper()
	for n := range 5 {
		d.candidate()
		d.mint("ci")
		if n == 0 {
			continue // The harness has one deployment already.
		}
		other := *d.d
		other.ID, other.Name = d.ids.New(id.Deployment), fmt.Sprintf("other-%d", n)
		require.NoError(d.t, d.tx(func(ctx context.Context, tx pgx.Tx) error { return d.harness.Create(ctx, tx, &other) }))
	}
}

func TestServer_lists_pagesAreComplete(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	d.five()
	n := func(v int) *int32 { return new(int32(v)) }
	for name, read := range d.lists() {
		ctx, h := as(t, owner(), "")
		whole, err := read(ctx, nil, nil)
		require.NoError(t, err)
		require.GreaterOrEqual(t, len(whole), 5, name)
		require.Empty(t, h.sent.Get("x-service-more"), "%s: the full list has no next page", name)
		var pages []string
		for from := 0; from < len(whole); from += 2 {
			ctx, h := as(t, owner(), "")
			got, err := read(ctx, n(2), n(from))
			require.NoError(t, err)
			pages = append(pages, got...)
			require.Equal(t, from+2 < len(whole), len(h.sent.Get("x-service-more")) == 1, "%s from %d", name, from)
		}
		require.Equal(t, whole, pages, "%s: rows with equal timestamps have a stable order", name)
		past, err := read(ctx, n(500), n(100_000))
		require.NoError(t, err)
		require.Empty(t, past)
		exact, h2 := as(t, owner(), "")
		_, err = read(exact, n(len(whole)), nil)
		require.NoError(t, err)
		require.Empty(t, h2.sent.Get("x-service-more"), "%s: an exactly full last page has no next page", name)
	}
}

func TestServer_lists_limitAndOffsetBounds(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	ctx, _ := as(t, owner(), "")
	n := func(v int32) *int32 { return &v }
	for name, read := range d.lists() {
		for _, bad := range [][2]*int32{{n(0), nil}, {n(501), nil}, {n(-1), nil}, {nil, n(-1)}, {nil, n(100_001)}} {
			_, err := read(ctx, bad[0], bad[1])
			require.True(t, fault.Is(err, fault.Invalid), "%s: %v", name, err)
			want := "limit"
			if bad[0] == nil {
				want = "offset"
			}
			require.Equal(t, []any{want}, fault.From(err).Fields[0].Loc, name)
		}
	}
}

func TestServer_lists_order(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	first, _ := d.mint("first")
	d.candidate()
	d.clock.Advance(time.Hour)
	last, _ := d.mint("last")
	d.candidate()
	ctx, _ := as(t, viewer(), "")
	lists := d.lists()
	tokens, err := lists["tokens"](ctx, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{last.ID, first.ID}, tokens)
	revisions, err := lists["revisions"](ctx, nil, nil)
	require.NoError(t, err)
	require.Equal(t, []string{"002", "001"}, revisions)
	got, err := d.ListDeploymentEvents(ctx, &registryv1.ListDeploymentEventsRequest{DeploymentId: d.d.ID})
	require.NoError(t, err)
	var seen []string
	for _, e := range got.GetEvents() {
		seen = append(seen, e.GetType()+" "+e.GetMessage())
		require.Equal(t, []string{"user", "usr_1"}, []string{e.GetActorKind(), e.GetActorId()})
		require.Nil(t, e.From, "empty fields are omitted")
	}
	require.Equal(t, []string{"created ", "token_created first", "revision_state revision 1", "token_created last", "revision_state revision 2"}, seen)
}

func TestServer_ListDeployments_visibility(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	put := func(name, user, project, visibility string) string {
		row := &Deployment{
			Owner: access.Owner{UserID: user, ProjectID: project, Project: project, Visibility: visibility},
			ID:    d.ids.New(id.Deployment), Name: name, State: StateServing, CreatedAt: d.clock.Now(),
		}
		require.NoError(t, d.tx(func(ctx context.Context, tx pgx.Tx) error { return d.harness.Create(ctx, tx, row) }))
		return row.ID
	}
	team, mine, shown, hidden := d.d.ID, put("mine", "usr_4", "prj_2", "team"), put("shown", "usr_9", "prj_2", "all"), put("hidden", "usr_9", "prj_2", "team")
	for name, c := range map[string]struct {
		who  *authn.Caller
		want []string
	}{
		"member":    {viewer(), []string{shown, team}},
		"owner":     {stranger(), []string{shown, mine}},
		"admin":     {admin(), []string{hidden, shown, mine, team}},
		"anonymous": {&authn.Caller{}, nil},
		"no role":   {person("usr_7", authn.RoleOperator), []string{shown}},
	} {
		ctx, _ := as(t, c.who, "")
		got, err := d.lists()["deployments"](ctx, nil, nil)
		require.NoError(t, err)
		require.Equal(t, c.want, got, name)
	}
}

package project

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/auth/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

// holder is a fake service that stores the newest visibility of each project.
type holder struct {
	commonpeerv1.OwnerPeerServiceClient

	mu     sync.Mutex
	latest map[string]*commonpeerv1.SetProjectVisibilityRequest // by project
	calls  int
	away   error
	before func(ctx context.Context)
}

func (h *holder) SetProjectVisibility(
	ctx context.Context, in *commonpeerv1.SetProjectVisibilityRequest, _ ...grpc.CallOption,
) (*commonpeerv1.SetProjectVisibilityResponse, error) {
	if h.before != nil {
		h.before(ctx)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls++
	if h.away != nil {
		return nil, h.away
	}
	if h.latest[in.GetProjectId()].GetVersion() < in.GetVersion() {
		h.latest[in.GetProjectId()] = in
	}
	return &commonpeerv1.SetProjectVisibilityResponse{Version: h.latest[in.GetProjectId()].GetVersion()}, nil
}

// deliveries returns how many calls the services received.
func (b *harness) deliveries() (n int) {
	for _, h := range b.holders {
		n += h.calls
	}
	return n
}

// show changes the visibility of a project, with ann as the caller.
func (b *harness) show(p *authv1.Project, all bool) error {
	b.t.Helper()
	to := authv1.ProjectVisibility_PROJECT_VISIBILITY_TEAM
	if all {
		to = authv1.ProjectVisibility_PROJECT_VISIBILITY_ALL
	}
	_, err := b.UpdateProject(b.as(ann, authn.NeedManage), &authv1.UpdateProjectRequest{ProjectId: p.GetId(), Visibility: to})
	return err
}

// pending lists the services that have not confirmed a visibility.
func (b *harness) pending() (services []string) {
	b.t.Helper()
	require.NoError(b.t, b.pool.QueryRow(b.t.Context(),
		`SELECT coalesce(array_agg(service ORDER BY service), '{}') FROM project_visibility_change`).Scan(&services))
	return services
}

func TestVisibilitySync_Finish_waitsForEveryService(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr", forAll)
	name := "New"
	_, err := b.UpdateProject(b.as(ann, authn.NeedManage), &authv1.UpdateProjectRequest{ProjectId: p.GetId(), Name: &name})
	require.NoError(t, err)
	require.NoError(t, b.show(p, true))
	require.Zero(t, b.deliveries(), "an unchanged visibility is not delivered")
	for _, h := range b.holders {
		h.before = func(ctx context.Context) {
			got, err := (&PeerServer{Pool: b.pool}).GetProject(ctx, &authpeerv1.GetProjectRequest{Project: "asr"})
			if err != nil || got.GetVisibility() != visibleToTeam || got.GetVisibilityVersion() != 1 {
				b.t.Errorf("the change must be visible to peers before it is delivered: %v, %v", got, err)
			}
		}
	}
	require.NoError(t, b.show(p, false))
	require.Equal(t, 3, b.deliveries())
	for name, h := range b.holders {
		require.Equal(t, visibleToTeam, h.latest[p.GetId()].GetVisibility(), name)
		require.EqualValues(t, 1, h.latest[p.GetId()].GetVersion(), name)
	}
	require.Empty(t, b.pending())
	require.NoError(t, b.show(p, false))
	require.Equal(t, 3, b.deliveries(), "a repeat delivers nothing")
	require.Len(t, b.audits("project.update"), 4)
}

func TestVisibilitySync_Finish_namesUnavailableServices(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr", forAll)
	b.holders["ingest"].away = errors.New("connection refused at 10.0.0.7")
	err := b.show(p, false)
	require.Equal(t, fault.Unavailable, kindOf(err))
	require.Contains(t, fault.From(err).Text(), "ingest did not apply it to existing items yet")
	require.NotContains(t, fault.From(err).Text(), "10.0.0.7")
	require.ErrorIs(t, err, b.holders["ingest"].away, "the error wraps the cause, which the log needs")
	require.Equal(t, []string{"ingest"}, b.pending())
	got, err := b.GetProject(b.as(ann, authn.NeedRead), &authv1.GetProjectRequest{ProjectId: p.GetId()})
	require.NoError(t, err)
	require.Equal(t, authv1.ProjectVisibility_PROJECT_VISIBILITY_TEAM, got.GetVisibility(), "the visibility stays changed")
	require.Len(t, b.audits("project.update"), 1)

	require.Equal(t, fault.Unavailable, kindOf(b.show(p, false)))
	require.Equal(t, 1, b.holders["jobs"].calls, "a service that confirmed is not called again")
	b.holders["ingest"].away = nil
	require.NoError(t, b.show(p, false))
	require.Empty(t, b.pending())
	require.EqualValues(t, 1, b.holders["ingest"].latest[p.GetId()].GetVersion(), "a repeat does not raise the version")
}

func TestVisibilitySync_Sweep(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	first, second := b.make(ann, "one", forAll), b.make(ann, "two", forAll)
	for _, name := range []string{"ingest", "registry"} {
		b.holders[name].away = errors.New("down")
	}
	err := b.show(first, false)
	require.Contains(t, fault.From(err).Text(), "ingest and registry did not apply it to existing items yet")
	require.Error(t, b.show(second, false))
	b.holders["registry"].away = nil
	calls := b.holders["ingest"].calls
	require.ErrorIs(t, b.Copies.Sweep(t.Context()), b.holders["ingest"].away)
	require.Equal(t, calls+1, b.holders["ingest"].calls, "a failing service is called once per sweep")
	require.Equal(t, []string{"ingest", "ingest"}, b.pending(), "a failing service does not delay the others")
	b.holders["ingest"].away = nil
	require.NoError(t, b.Copies.Sweep(t.Context()))
	require.Empty(t, b.pending())
	for _, p := range []*authv1.Project{first, second} {
		require.Equal(t, visibleToTeam, b.holders["ingest"].latest[p.GetId()].GetVisibility())
	}
	calls = b.deliveries()
	require.NoError(t, b.Copies.Sweep(t.Context()))
	require.Equal(t, calls, b.deliveries())
}

// A project that a service rejects does not block the other projects.
func TestVisibilitySync_Sweep_triesFailedProjectsLast(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	var made []*authv1.Project
	h := b.holders["jobs"]
	h.away = errors.New("down")
	for _, key := range []string{"one", "two", "three"} {
		p := b.make(ann, key, forAll)
		made = append(made, p)
		require.Error(t, b.show(p, false))
		b.clock.Advance(time.Minute)
	}
	tried := map[string]int{}
	h.before = func(context.Context) {
		var id string
		if err := b.pool.QueryRow(t.Context(), `SELECT project_id FROM project_visibility_change ORDER BY tried_at DESC LIMIT 1`).Scan(&id); err != nil {
			t.Error(err)
		}
		tried[id]++
	}
	for range made {
		require.Error(t, b.Copies.Sweep(t.Context()))
		b.clock.Advance(time.Minute)
	}
	require.Equal(t, map[string]int{made[0].GetId(): 1, made[1].GetId(): 1, made[2].GetId(): 1}, tried)
}

func TestVisibilitySync_Finish_serviceNotConnected(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr", forAll)
	b.Copies.Holders[2].Client = nil
	err := b.show(p, false)
	require.Contains(t, fault.From(err).Text(), "registry did not apply it to existing items yet")
	require.Equal(t, []string{"registry"}, b.pending())
}

// If a visibility changes while an earlier change is delivered, confirming the earlier change does not confirm the
// new one.
func TestVisibilitySync_changeDuringDelivery(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr", forAll)
	h := b.holders["jobs"]
	within, leave := make(chan struct{}, 1), make(chan struct{})
	h.before = func(context.Context) {
		within <- struct{}{}
		<-leave
	}
	done := make(chan error, 1)
	go func() { done <- b.show(p, false) }()
	<-within
	b.do(`UPDATE project SET visibility = 'all', visibility_version = 2 WHERE id = $1`, p.GetId())
	b.do(`UPDATE project_visibility_change SET version = 2 WHERE project_id = $1 AND service = 'jobs'`, p.GetId())
	close(leave)
	require.NoError(t, <-done)
	require.EqualValues(t, 1, h.latest[p.GetId()].GetVersion())
	require.Equal(t, []string{"jobs"}, b.pending())
	h.before = nil
	require.NoError(t, b.Copies.Sweep(t.Context()))
	require.EqualValues(t, 2, h.latest[p.GetId()].GetVersion())
	require.Equal(t, visibleToAll, h.latest[p.GetId()].GetVisibility())
}

func TestVisibilitySync_Finish_endsBeforeDeadline(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	p := b.make(ann, "asr", forAll)
	deadline := time.Now().Add(time.Hour)
	b.holders["registry"].before = func(ctx context.Context) {
		if at, ok := ctx.Deadline(); !ok || deadline.Sub(at) < confirmAhead {
			t.Errorf("the deadline of the delivery is %v, too close to that of the call, %v", at, deadline)
		}
	}
	ctx, cancel := context.WithDeadline(b.as(ann, authn.NeedManage), deadline)
	defer cancel()
	_, err := b.UpdateProject(ctx, &authv1.UpdateProjectRequest{
		ProjectId: p.GetId(), Visibility: authv1.ProjectVisibility_PROJECT_VISIBILITY_TEAM,
	})
	require.NoError(t, err)
	waiting, stop := ahead(ctx)
	defer stop()
	at, ok := waiting.Deadline()
	require.True(t, ok)
	require.Equal(t, confirmAhead, deadline.Sub(at))
}

// Before this migration, a change of visibility did not update existing rows of other services. The migration therefore
// queues the visibility of every project for every service once.
func TestMigration_deliversExistingProjects(t *testing.T) {
	t.Parallel()
	const last = "00021_visibility.sql"
	files, err := db.Migrations()
	require.NoError(t, err)
	older := fstest.MapFS{}
	paths, err := fs.Glob(files, "*.sql")
	require.NoError(t, err)
	require.Contains(t, paths, last)
	for _, name := range paths {
		raw, err := fs.ReadFile(files, name)
		require.NoError(t, err)
		if name < last {
			older[name] = &fstest.MapFile{Data: raw}
		}
	}
	base := pgtest.New(t, pgtest.Schema{Name: "auth", Migrations: older})
	_, err = base.Pool("auth").Exec(t.Context(), `INSERT INTO project (id, key, name, visibility, created_at) VALUES ('prj_1', 'asr', 'ASR', 'team', now())`)
	require.NoError(t, err)
	raw, err := fs.ReadFile(files, last)
	require.NoError(t, err)
	_, err = base.OwnerPool("auth").Exec(t.Context(), strings.TrimPrefix(string(raw), "-- +goose Up"))
	require.NoError(t, err)
	h := &holder{latest: map[string]*commonpeerv1.SetProjectVisibilityRequest{}}
	copies := &VisibilitySync{Pool: base.Pool("auth"), Clock: clock.NewFake(time.Unix(0, 0))}
	for _, name := range []string{"jobs", "ingest", "registry"} {
		copies.Holders = append(copies.Holders, Holder{Name: name, Client: h})
	}
	require.NoError(t, copies.Sweep(t.Context()))
	require.Equal(t, 3, h.calls)
	require.Equal(t, visibleToTeam, h.latest["prj_1"].GetVisibility())
}

package playground

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func ttl(seconds, idle int32) func(*registryv1.CreatePlaygroundSessionRequest) {
	return func(in *registryv1.CreatePlaygroundSessionRequest) { in.TtlS, in.IdleTimeoutS = &seconds, &idle }
}

func (b *harness) admit(ctx context.Context, s *registryv1.PlaygroundSession, target int32) (*registrypeerv1.AdmitCallResponse, error) {
	return b.peer.AdmitCall(ctx, &registrypeerv1.AdmitCallRequest{PlaygroundId: s.GetId(), Target: target})
}

func TestPlaygroundSession_becomesReady(t *testing.T) {
	t.Parallel()
	b := open(t)
	in, wait := b.ask(2), int32(1800)
	in.Targets[1].Serving = &registryv1.Serving{Timeouts: &registryv1.ServingTimeouts{FirstByteS: &wait}}
	s, err := b.CreatePlaygroundSession(b.ann(), in)
	require.NoError(t, err)
	require.Equal(t, wait, s.GetTargets()[1].GetServing().GetTimeouts().GetFirstByteS())
	require.Equal(t, []any{"queued", "try it", int32(600)}, []any{s.GetState(), s.GetTitle(), s.GetIdleTimeoutS()})
	require.True(t, s.GetExpiresAt().AsTime().Equal(b.clock.Now().Add(30*time.Minute)))
	held := b.engines(s)
	require.Len(t, held, 2)
	require.Equal(t, []string{held[0].ID, held[1].ID}, b.orders.of)
	for _, r := range held {
		require.True(t, r.Deadline.Equal(b.clock.Now().Add(30*time.Minute)), "the engine's order carries the deadline")
		require.Equal(t, []string{"default"}, r.Plan.ServedNames)
	}
	b.see(held[0], revision.Observation{Phase: revision.PhasePreparing})
	require.Equal(t, "starting", b.now(s).GetState())
	b.see(held[0], serving())
	require.Equal(t, "queued", b.now(s).GetState(), "the second target is still pending")
	_, err = b.admit(b.ann(), s, 2)
	require.True(t, fault.Is(err, fault.Unavailable) && fault.HasCode(err, "session_not_ready"), "%v", err)
	b.see(held[1], serving())
	require.Equal(t, "ready", b.now(s).GetState())
	got, err := b.admit(b.ann(), s, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"http://127.0.0.1:9", "engine-key", "usr_1"}, []string{got.GetReplica().GetAddress(), got.GetReplica().GetApiKey(), got.GetUsername()})
	require.Equal(t, wait, got.GetReplica().GetFirstByteS())
	_, err = b.admit(b.ann(), s, 3)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestPlaygroundSession_expires(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.create(ttl(600, 60))
	r := b.engines(s)[0]
	b.see(r, serving())
	for range 8 {
		b.clock.Advance(59 * time.Second)
		_, err := b.admit(b.ann(), s, 1)
		require.NoError(t, err, "calls keep the session alive")
		require.NoError(t, b.Changer.Expire(t.Context()))
	}
	b.clock.Advance(60 * time.Second)
	_, err := b.admit(b.ann(), s, 1)
	require.True(t, fault.Is(err, fault.Conflict) && fault.HasCode(err, "session_over"), "%v", err)
	require.Equal(t, "playground session "+s.GetId()+" expired at 2026-11-21T09:08:52.000000+00:00", fault.From(err).Text(), "the call is rejected before Expire has run")
	require.NoError(t, b.Changer.Expire(t.Context()))
	require.NoError(t, b.Changer.Expire(t.Context()))
	got := b.now(s)
	require.Equal(t, []string{"expired", "idle", "stopped"}, []string{got.GetState(), got.GetReason(), got.GetTargets()[0].GetState()})
	require.True(t, got.GetEndedAt().AsTime().Equal(b.clock.Now()))
	require.False(t, b.engines(s)[0].Wanted)
	require.Equal(t, []string{"created ", "target_state ready", "ended expired"}, b.events(s), "the end is recorded once")
	require.Equal(t, []string{r.ID, r.ID}, b.orders.of, "the engine is ended")
	_, again := b.admit(b.ann(), s, 1)
	require.Equal(t, fault.From(err).Text(), fault.From(again).Text(), "the recorded end is the time in the first error")

	s = b.create(ttl(60, 600))
	b.clock.Advance(time.Minute)
	require.NoError(t, b.Changer.Expire(t.Context()))
	require.Equal(t, "time", b.now(s).GetReason())
}

func TestExtendPlaygroundSession_limit(t *testing.T) {
	t.Parallel()
	b := open(t)
	s := b.create(ttl(600, 14400))
	extend := func(seconds int32) (*registryv1.PlaygroundSession, error) {
		return b.ExtendPlaygroundSession(b.ann(), &registryv1.ExtendPlaygroundSessionRequest{PlaygroundId: s.GetId(), Seconds: seconds})
	}
	got, err := extend(60)
	require.NoError(t, err)
	require.True(t, got.GetExpiresAt().AsTime().Equal(b.clock.Now().Add(11*time.Minute)))
	require.True(t, b.engines(s)[0].Deadline.Equal(b.clock.Now().Add(11*time.Minute)), "the engine's deadline moves too")
	require.Len(t, b.orders.of, 2)
	got, err = extend(14400)
	require.NoError(t, err)
	require.True(t, got.GetExpiresAt().AsTime().Equal(b.clock.Now().Add(4*time.Hour)))
	_, err = extend(1)
	require.True(t, fault.HasCode(err, "session_longest") && fault.Is(err, fault.Conflict), "%v", err)
	b.clock.Advance(4 * time.Hour)
	_, err = extend(1)
	require.True(t, fault.HasCode(err, "session_over"), "%v", err)
	require.Contains(t, fault.From(err).Text(), "expired at 2026-11-21T13:00:00")
}

func TestPlaygroundSession_stopAndFailure(t *testing.T) {
	t.Parallel()
	b := open(t)
	stop := func(s *registryv1.PlaygroundSession) error {
		_, err := b.StopPlaygroundSession(b.ann(), &registryv1.StopPlaygroundSessionRequest{PlaygroundId: s.GetId()})
		return err
	}
	s := b.create()
	require.NoError(t, stop(s))
	require.NoError(t, stop(s), "stopping again changes nothing")
	require.Equal(t, "stopped", b.now(s).GetState())
	_, err := b.admit(b.ann(), s, 1)
	require.ErrorContains(t, err, "was stopped at 2026-11-21T09:00:00")
	_, err = b.peer.KeepSession(t.Context(), &registrypeerv1.KeepSessionRequest{PlaygroundId: s.GetId()})
	require.True(t, fault.HasCode(err, "session_over"), "%v", err)

	s = b.create(func(in *registryv1.CreatePlaygroundSessionRequest) { in.Targets = b.ask(2).GetTargets() })
	held := b.engines(s)
	b.see(held[0], serving())
	b.see(held[1], revision.Observation{Phase: revision.PhaseExited, Exit: &revision.Exit{Code: 1, Message: "no memory"}})
	got := b.now(s)
	require.Equal(t, "failed", got.GetState())
	require.Contains(t, got.GetReason(), "target 2: starting/engine_exited: no memory")
	require.False(t, b.engines(s)[0].Wanted, "the other targets' engines are ended")

	s = b.create()
	r := b.engines(s)[0]
	b.see(r, serving())
	b.see(r, revision.Observation{Phase: revision.PhaseExited, Exit: &revision.Exit{Reason: "deadline"}})
	r = b.engines(s)[0]
	require.Equal(t, []any{revision.NotReady, int64(1)}, []any{r.State, r.Generation}, "an engine that ended at its deadline is not ordered again")
}

func TestPlaygroundServer_rightsPerMethod(t *testing.T) {
	t.Parallel()
	b := open(t)
	hidden := b.create()
	open := b.create(func(in *registryv1.CreatePlaygroundSessionRequest) { in.Project = "default" })
	b.exec(`UPDATE playground_session SET project_id = 'prj_0', visibility = 'all' WHERE id = $1`, open.GetId())
	for _, s := range []*registryv1.PlaygroundSession{hidden, open} {
		b.see(b.engines(s)[0], serving())
	}
	editor, viewer, stranger := b.as("usr_2", authn.ProjectEditor, ""), b.as("usr_3", authn.ProjectViewer, ""), b.as("usr_4", "", "")
	for _, c := range []struct {
		who   context.Context
		of    *registryv1.PlaygroundSession
		call  fault.Kind
		write fault.Kind
	}{
		{b.ann(), hidden, "", ""},
		{editor, hidden, "", ""},
		{viewer, hidden, "", fault.Forbidden},
		{stranger, hidden, fault.Absent, fault.Absent},
		{stranger, open, fault.Forbidden, fault.Forbidden},
		{viewer, open, fault.Forbidden, fault.Forbidden},
		{t.Context(), hidden, fault.Unauthenticated, fault.Absent},
	} {
		judge := func(want fault.Kind, err error) {
			t.Helper()
			if want == "" {
				require.NoError(t, err)
				return
			}
			require.True(t, fault.Is(err, want), "want %s: %v", want, err)
		}
		_, err := b.admit(c.who, c.of, 1)
		judge(c.call, err)
		_, err = b.ExtendPlaygroundSession(c.who, &registryv1.ExtendPlaygroundSessionRequest{PlaygroundId: c.of.GetId(), Seconds: 1})
		judge(c.write, err)
		_, err = b.peer.SeeSession(c.who, &registrypeerv1.SeeSessionRequest{PlaygroundId: c.of.GetId()})
		if c.call == fault.Forbidden {
			c.call = "" // SeeSession needs only read access
		}
		judge(c.call, err)
	}
	drawn := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleOperator, PasswordDrawn: true})
	_, err := b.admit(drawn, hidden, 1)
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = b.peer.SeeSession(drawn, &registrypeerv1.SeeSessionRequest{PlaygroundId: hidden.GetId()})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	token := authn.NewContext(t.Context(), &authn.Caller{Kind: authn.KindDeployment, Subject: "usr_1", Role: authn.RoleAdmin})
	_, err = b.admit(token, hidden, 1)
	require.True(t, fault.Is(err, fault.Unauthenticated), "a deployment token does not authenticate a user: %v", err)
	list, err := b.ListPlaygroundSessions(stranger, &registryv1.ListPlaygroundSessionsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetSessions(), 1)
}

func TestCreatePlaygroundSession_limits(t *testing.T) {
	t.Parallel()
	b := open(t)
	errs := make(chan error, 2*maxLive)
	for range 2 * maxLive {
		go func() { _, err := b.CreatePlaygroundSession(b.ann(), b.ask(1)); errs <- err }()
	}
	refused := 0
	for range 2 * maxLive {
		if err := <-errs; err != nil {
			require.True(t, fault.HasCode(err, "sessions") && fault.Is(err, fault.Conflict), "%v", err)
			refused++
		}
	}
	require.Equal(t, maxLive, refused, "the limit holds for concurrent calls too")
	other := b.as("usr_2", authn.ProjectEditor, "k")
	first, err := b.CreatePlaygroundSession(other, b.ask(1))
	require.NoError(t, err, "the limit is per user")
	again, err := b.CreatePlaygroundSession(other, b.ask(1))
	require.NoError(t, err)
	require.Equal(t, first.GetId(), again.GetId(), "a repeat creates no session")
	in := b.ask(1)
	in.Targets[0].Source.Version = 9
	_, err = b.CreatePlaygroundSession(b.as("usr_2", authn.ProjectEditor, ""), in)
	require.True(t, fault.Is(err, fault.Refused), "%v", err)
	b.exec(`UPDATE model_version SET lifecycle = 'archived'`)
	_, err = b.CreatePlaygroundSession(b.as("usr_2", authn.ProjectEditor, ""), b.ask(1))
	require.True(t, fault.HasCode(err, "version_archived"), "%v", err)
}

func TestStore_DeleteBefore(t *testing.T) {
	t.Parallel()
	b := open(t)
	old, live := b.create(), b.create(ttl(14400, 14400))
	require.NoError(t, b.Changer.Stop(t.Context(), old.GetId()))
	ended := b.clock.Now()
	n, err := b.Changer.Store.DeleteBefore(t.Context(), b.Changer.Pool, ended, 10)
	require.NoError(t, err)
	require.Zero(t, n)
	require.Equal(t, "stopped", b.now(old).GetState(), "a session that ended later stays readable")
	n, err = b.Changer.Store.DeleteBefore(t.Context(), b.Changer.Pool, ended.Add(time.Second), 0)
	require.NoError(t, err)
	require.Zero(t, n, "the limit bounds the step")
	n, err = b.Changer.Store.DeleteBefore(t.Context(), b.Changer.Pool, ended.Add(time.Second), 10)
	require.NoError(t, err)
	require.Equal(t, int64(1), n)
	_, err = b.GetPlaygroundSession(b.ann(), &registryv1.GetPlaygroundSessionRequest{PlaygroundId: old.GetId()})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	require.Empty(t, b.engines(old))
	require.Len(t, b.engines(live), 1)
}

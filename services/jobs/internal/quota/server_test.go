package quota_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	jobspeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/quota"
)

// fakeAuth knows two users and one team: ann is usr_1, bob is usr_2, crew is team_1.
type fakeAuth struct {
	authpeerv1.AccountPeerServiceClient
}

func (fakeAuth) GetAccount(_ context.Context, in *authpeerv1.GetAccountRequest, _ ...grpc.CallOption) (*authpeerv1.Account, error) {
	switch in.GetAccount() {
	case "ann", "usr_1":
		return &authpeerv1.Account{Id: "usr_1", Username: "ann"}, nil
	case "down":
		return nil, fault.New(fault.Unavailable, "", "auth is unavailable")
	}
	return nil, fault.Absentf("user", in.GetAccount())
}

func (fakeAuth) GetTeam(_ context.Context, in *authpeerv1.GetTeamRequest, _ ...grpc.CallOption) (*authpeerv1.Team, error) {
	if in.GetTeam() != "crew" {
		return nil, fault.Absentf("team", in.GetTeam())
	}
	return &authpeerv1.Team{Id: "team_1", Key: "crew"}, nil
}

func (fakeAuth) ListAccounts(_ context.Context, in *authpeerv1.ListAccountsRequest, _ ...grpc.CallOption) (*authpeerv1.ListAccountsResponse, error) {
	all := []*authpeerv1.Account{{Id: "usr_1", Username: "ann"}, {Id: "usr_2", Username: "bob"}}
	return &authpeerv1.ListAccountsResponse{Accounts: all[min(int(in.GetOffset()), 2):]}, nil
}

func (fakeAuth) ListTeams(context.Context, *authpeerv1.ListTeamsRequest, ...grpc.CallOption) (*authpeerv1.ListTeamsResponse, error) {
	return &authpeerv1.ListTeamsResponse{Teams: []*authpeerv1.Team{{Id: "team_1", Key: "crew"}}}, nil
}

func newServer(t *testing.T) (*quota.Server, *pgxpool.Pool) {
	t.Helper()
	pool := newPool(t)
	return &quota.Server{
		Pool: pool, Ledger: quota.Ledger{Default: 8, TeamDefault: 64}, People: &quota.AuthPeople{Client: fakeAuth{}},
		Audit: audit.NewLog(clock.Real(), id.NewSource(clock.Real(), rand.Reader), "jobs"),
	}, pool
}

func as(ctx context.Context, subject, name string) context.Context {
	return authn.NewContext(ctx, &authn.Caller{Kind: authn.KindUser, Subject: subject, Username: name, Role: authn.RoleOperator})
}

func TestGetQuotaOfCaller(t *testing.T) {
	t.Parallel()
	s, pool := newServer(t)
	ok, err := reserve(t.Context(), pool, s.Ledger, "usr_1", 3)
	require.NoError(t, err)
	require.True(t, ok)
	got, err := s.GetQuota(as(t.Context(), "usr_1", "ann"), &jobsv1.GetQuotaRequest{})
	require.NoError(t, err)
	want := &jobsv1.Quota{SubjectKind: "users", Subject: "ann", GpuLimit: 8, GpuHeld: 3, GpuAvailable: 5}
	require.Equal(t, want.String(), got.String())
	_, err = s.GetQuota(t.Context(), &jobsv1.GetQuotaRequest{})
	require.True(t, fault.Is(err, fault.Unauthenticated))
	peer := quota.NewPeerServer(pool, s.Ledger)
	account, err := peer.GetAccountQuota(t.Context(), &jobspeerv1.GetAccountQuotaRequest{UserId: "usr_1"})
	require.NoError(t, err)
	require.Equal(t, []int32{8, 3, 0, 5}, []int32{account.GetGpuLimit(), account.GetGpuHeld(), account.GetGpuQueued(), account.GetGpuAvailable()})
}

func TestPutQuotaAudited(t *testing.T) {
	t.Parallel()
	s, pool := newServer(t)
	put := func(kind, subject string, limit *int32) (*jobsv1.Quota, error) {
		return s.PutQuota(as(t.Context(), "usr_9", "root"), &jobsv1.PutQuotaRequest{SubjectKind: kind, Subject: subject, GpuLimit: limit})
	}
	two, zero := int32(2), int32(0)
	for _, step := range []struct {
		kind, subject string
		limit         *int32
		want          int32
	}{{"users", "ann", &two, 2}, {"users", "ann", &zero, 0}, {"users", "ann", nil, 8}, {"teams", "crew", &two, 2}, {"teams", "crew", nil, 64}} {
		got, err := put(step.kind, step.subject, step.limit)
		require.NoError(t, err)
		want := &jobsv1.Quota{SubjectKind: step.kind, Subject: step.subject, GpuLimit: step.want, GpuAvailable: step.want}
		require.Equal(t, want.String(), got.String())
	}
	rows, err := audit.List(t.Context(), pool, audit.Filter{Action: "quota.set"}, request.Page{Limit: 10})
	require.NoError(t, err)
	require.Len(t, rows, 5)
	require.Equal(t, []string{"user", "usr_1", "usr_9"}, []string{rows[4].TargetKind, rows[4].TargetID, rows[4].Actor.ID})
	require.JSONEq(t, `{"gpu_limit": null}`, string(rows[4].Before))
	require.JSONEq(t, `{"gpu_limit": 2}`, string(rows[3].Before))
	require.JSONEq(t, `{"gpu_limit": 0}`, string(rows[3].After))
	for _, c := range []struct {
		kind, subject string
		want          fault.Kind
	}{{"users", "nobody", fault.Absent}, {"users", "usr_1", fault.Absent}, {"users", "crew", fault.Absent}, {"teams", "ann", fault.Absent}, {"users", "down", fault.Unavailable}} {
		_, err := put(c.kind, c.subject, &two)
		require.True(t, fault.Is(err, c.want), "%s/%s: %v", c.kind, c.subject, err)
	}
	_, err = s.PutQuota(t.Context(), &jobsv1.PutQuotaRequest{SubjectKind: "users", Subject: "ann"})
	require.True(t, fault.Is(err, fault.Unauthenticated))
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM account`).Scan(&n))
	require.Equal(t, 2, n, "unknown subjects must get no row")
}

// Jobs that wait for a limit are reconsidered as soon as the limit changes.
func TestPutQuotaWakesScheduler(t *testing.T) {
	t.Parallel()
	s, pool := newServer(t)
	hub := pg.NewNotifyHub()
	woken := hub.Wait(db.QueueTopic)
	defer woken.Close()
	listening, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = hub.Listen(listening, pool) }()
	guard, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	await := func() {
		select {
		case <-woken.C:
		case <-guard.Done():
			t.Error("no wake-up arrived")
		}
	}
	await() // the listener wakes all waiters when it starts
	limit := int32(9)
	_, err := s.PutQuota(as(t.Context(), "usr_9", "root"), &jobsv1.PutQuotaRequest{SubjectKind: "users", Subject: "ann", GpuLimit: &limit})
	require.NoError(t, err)
	await()
	stop()
	<-ended
}

func TestListQuotasByName(t *testing.T) {
	t.Parallel()
	s, pool := newServer(t)
	_, err := hold(t.Context(), pool, s.Ledger, quota.Holder{UserID: "usr_2", TeamID: "team_1"}, 5)
	require.NoError(t, err)
	list := func(kind string, offset *int32) (out []string) {
		got, err := s.ListQuotas(as(t.Context(), "usr_9", "root"), &jobsv1.ListQuotasRequest{SubjectKind: kind, Offset: offset})
		require.NoError(t, err)
		for _, q := range got.GetQuotas() {
			out = append(out, q.String())
		}
		return out
	}
	ann := (&jobsv1.Quota{SubjectKind: "users", Subject: "ann", GpuLimit: 8, GpuAvailable: 8}).String()
	bob := (&jobsv1.Quota{SubjectKind: "users", Subject: "bob", GpuLimit: 8, GpuHeld: 5, GpuAvailable: 3}).String()
	crew := (&jobsv1.Quota{SubjectKind: "teams", Subject: "crew", GpuLimit: 64, GpuHeld: 5, GpuAvailable: 59}).String()
	one := int32(1)
	require.Equal(t, []string{ann, bob}, list("users", nil), "holders that never held anything must be listed, too")
	require.Equal(t, []string{bob}, list("users", &one))
	require.Equal(t, []string{crew}, list("teams", nil))
	_, err = s.ListQuotas(t.Context(), &jobsv1.ListQuotasRequest{SubjectKind: "users", Limit: new(int32)})
	require.True(t, fault.Is(err, fault.Invalid))
}

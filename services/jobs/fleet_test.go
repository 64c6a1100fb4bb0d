package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

func TestJoinTokenUsesAndExpiry(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	two := int32(2)
	tok, err := w.fleets().CreateJoinToken(w.as(admin()), &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId(), MaxUses: &two})
	require.NoError(t, err)
	require.Equal(t, "signalbox-agent join --server http://signalbox.example --join-token-file -", tok.GetCommand())
	join := func(token, request string) (*jobsv1.JoinFleetResponse, error) {
		return w.fleets().JoinFleet(w.as(nobody()), &jobsv1.JoinFleetRequest{
			Token: token, Hostname: "host", CertificateRequest: request, Inventory: cpuNode(),
		})
	}
	_, err = join(tok.GetToken(), "bad")
	require.True(t, fault.Is(err, fault.Refused), "%v", err)
	require.Zero(t, w.count("node"), "a failed join must not create a node")
	for range two {
		joined, err := join(tok.GetToken(), "good")
		require.NoError(t, err)
		require.NoError(t, id.Check(id.Node, joined.GetNodeId()))
		require.Equal(t, "cert of "+joined.GetNodeId(), joined.GetCertificate())
		require.Equal(t, "ca", joined.GetCaCertificate())
		require.Equal(t, "127.0.0.1:7443", joined.GetAgentAddress())
		require.Positive(t, joined.GetHeartbeatS())
	}
	for name, token := range map[string]string{"used up": tok.GetToken(), "no token": "x", "unknown": tok.GetToken()[:52] + "x"} {
		_, err := join(token, "good")
		require.True(t, fault.Is(err, fault.Unauthenticated), "%s: %v", name, err)
		require.Equal(t, "the join token is unknown, expired, revoked or used up", fault.From(err).Text())
	}
	tok, err = w.fleets().CreateJoinToken(w.as(admin()), &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.NoError(t, err)
	_, err = w.pool.Exec(t.Context(), `UPDATE join_token SET expires_at = clock_timestamp() WHERE id = $1`, tok.GetId())
	require.NoError(t, err)
	_, err = join(tok.GetToken(), "good")
	require.True(t, fault.Is(err, fault.Unauthenticated), "an expired token must be refused: %v", err)
	require.Equal(t, 2, w.count(`audit WHERE action = 'node.join'`))
	require.Zero(t, w.count(`audit WHERE after::text LIKE '%fjt_%'`), "the audit log must not contain the token")
}

func TestCreateJoinTokenRepeatHidesToken(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	ctx := keyed(w.as(admin()), "mint")
	first, err := w.fleets().CreateJoinToken(ctx, &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.NoError(t, err)
	require.NotNil(t, first.Token)
	again, err := w.fleets().CreateJoinToken(ctx, &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.NoError(t, err)
	require.Equal(t, first.GetId(), again.GetId())
	require.Nil(t, again.Token)
}

func TestGetAndListFleetsAndNodes(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("gpu", "cpu")
	a := w.join(fleet, gpuNode(4))
	w.submit(oneGPU)
	a.attempt()
	got, err := w.fleets().GetFleet(w.as(alice()), &jobsv1.GetFleetRequest{FleetId: fleet.GetId()})
	require.NoError(t, err)
	require.Equal(t, [3]int32{1, 4, 3}, [3]int32{got.GetNodes(), got.GetGpusTotal(), got.GetGpusFree()})
	nodes, err := w.fleets().ListNodes(w.as(alice()), &jobsv1.ListNodesRequest{})
	require.NoError(t, err)
	require.Len(t, nodes.GetNodes(), 1)
	require.Equal(t, "ready", nodes.GetNodes()[0].GetState())
	require.EqualValues(t, 3, nodes.GetNodes()[0].GetGpusFree())
	list, err := w.fleets().ListFleets(w.as(alice()), &jobsv1.ListFleetsRequest{})
	require.NoError(t, err)
	require.Len(t, list.GetFleets(), 1)

	_, err = w.fleets().CreateFleet(w.as(admin()), &jobsv1.CreateFleetRequest{Name: got.GetName(), Kind: jobsv1.FleetKind_FLEET_KIND_AGENT, Pools: []string{"x"}})
	require.True(t, fault.Is(err, fault.Conflict), "%v", err)
	_, err = w.fleets().CreateFleet(w.as(alice()), &jobsv1.CreateFleetRequest{Name: "mine", Kind: jobsv1.FleetKind_FLEET_KIND_AGENT, Pools: []string{"x"}})
	require.True(t, fault.Is(err, fault.Forbidden), "%v", err)
	_, err = w.fleets().GetFleet(w.as(alice()), &jobsv1.GetFleetRequest{FleetId: w.ids.New(id.Fleet)})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

// A fleet of a kind for which there is no agent is refused, but only after every other check. Nothing is stored.
func TestCreateFleetRefusesKindsWithoutAgent(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	taken := w.fleet("cpu")
	for _, kind := range []jobsv1.FleetKind{jobsv1.FleetKind_FLEET_KIND_KUBERNETES} {
		ctx := keyed(w.as(admin()), kind.String())
		_, err := w.fleets().CreateFleet(ctx, &jobsv1.CreateFleetRequest{Name: taken.GetName(), Kind: kind, Pools: []string{"x"}})
		require.True(t, fault.Is(err, fault.Conflict), "%v", err)
		_, err = w.fleets().CreateFleet(ctx, &jobsv1.CreateFleetRequest{Name: "other", Kind: kind, Pools: []string{"x"}})
		require.True(t, fault.Is(err, fault.Unconfigured) && fault.HasCode(err, "fleet_kind"), "%v", err)
		_, err = w.fleets().CreateFleet(ctx, &jobsv1.CreateFleetRequest{Name: "other", Kind: jobsv1.FleetKind_FLEET_KIND_AGENT, Pools: []string{"x"}})
		require.NoError(t, err, "a refusal must not be replayed for the same idempotency key")
		_, err = w.pool.Exec(t.Context(), `DELETE FROM fleet WHERE name = 'other'`)
		require.NoError(t, err)
	}
	require.Equal(t, 1, w.count("fleet"))
}

func TestJoinLocal(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	for range 2 {
		tok, err := w.svc.JoinLocal(t.Context(), "local", []string{"local"})
		require.NoError(t, err)
		_, err = w.fleets().JoinFleet(w.as(nobody()), &jobsv1.JoinFleetRequest{
			Token: tok.Reveal(), Hostname: "here", CertificateRequest: "good", Inventory: cpuNode(),
		})
		require.NoError(t, err)
	}
	require.Equal(t, 1, w.count("fleet"))
	require.Equal(t, 2, w.count("node"))
}

func TestCreateJoinTokenRequiresAgentListener(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	fleet := w.fleet("cpu")
	address := ""
	w.stop()
	w.deps.AgentAddress = func() string { return address }
	w.start()
	ctx := keyed(w.as(admin()), "mint")
	_, err := w.fleets().CreateJoinToken(ctx, &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.True(t, fault.Is(err, fault.Unconfigured), "%v", err)
	for _, name := range []string{"SERVICE_JOBS_AGENT_LISTEN", "SERVICE_JOBS_AGENT_ADDRESS"} {
		require.Contains(t, fault.From(err).Text(), name)
	}
	require.Zero(t, w.count("join_token"))
	_, err = w.fleets().CreateJoinToken(w.as(alice()), &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.True(t, fault.Is(err, fault.Forbidden), "callers without the admin role must not learn about the settings: %v", err)

	// An agent in the same process needs no listener.
	tok, err := w.svc.JoinLocal(t.Context(), "local", []string{"local"})
	require.NoError(t, err)
	joined, err := w.fleets().JoinFleet(w.as(nobody()), &jobsv1.JoinFleetRequest{
		Token: tok.Reveal(), Hostname: "here", CertificateRequest: "good", Inventory: cpuNode(),
	})
	require.NoError(t, err)
	require.Empty(t, joined.GetAgentAddress())

	address = "127.0.0.1:7443"
	given, err := w.fleets().CreateJoinToken(ctx, &jobsv1.CreateJoinTokenRequest{FleetId: fleet.GetId()})
	require.NoError(t, err, "a refusal must not be replayed for the same idempotency key")
	require.NotEmpty(t, given.GetToken())
}

func TestRenewCertificateOnlyOwn(t *testing.T) {
	t.Parallel()
	w := newHarness(t)
	a := w.join(w.fleet("cpu"), cpuNode())
	renew := func(as, request string) (*jobsv1.RenewCertificateResponse, error) {
		return jobsv1.NewAgentServiceClient(w.dial(as)).RenewCertificate(w.t.Context(), &jobsv1.RenewCertificateRequest{CertificateRequest: request})
	}
	renewed, err := renew("node/"+a.nodeID, "good")
	require.NoError(t, err)
	require.Equal(t, "cert of "+a.nodeID, renewed.GetCertificate(), "the new certificate must have the identity of the current one")
	require.Equal(t, "ca", renewed.GetCaCertificate())
	require.Equal(t, 1, w.count(`audit WHERE action = 'node.renew' AND target_id = '`+a.nodeID+`'`))
	for name, c := range map[string]struct {
		as, request string
		kind        fault.Kind
	}{
		"unsignable request":  {"node/" + a.nodeID, "bad", fault.Refused},
		"empty request":       {"node/" + a.nodeID, "", fault.Invalid},
		"removed node":        {"node/" + w.ids.New(id.Node), "good", fault.Unauthenticated},
		"service certificate": {"registry", "good", fault.Forbidden},
		"gateway certificate": {"gateway", "good", fault.Forbidden},
	} {
		_, err := renew(c.as, c.request)
		require.True(t, fault.Is(err, c.kind), "%s: %v", name, err)
	}
	require.Equal(t, 1, w.count(`audit WHERE action = 'node.renew'`), "refused renewals must leave no audit row")
	require.Equal(t, 1, w.count("node"))
	// The stream remains open while the fleet is deleted.
	a.wait("no work", func(works []*jobsv1.Work) bool { return len(works) == 0 })
}

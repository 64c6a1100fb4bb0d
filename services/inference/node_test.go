package inference_test

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	agentrelay "github.com/signalbox-dev/signalbox/agent/engineport"
	"github.com/signalbox-dev/signalbox/agent/executor"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
)

// authority is an internal CA that signs the certificates of nodes and of inference.
type authority struct {
	t  *testing.T
	ca *pki.CA
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	ca, err := pki.NewCA(clock.Real().Now(), time.Hour)
	require.NoError(t, err)
	return &authority{t: t, ca: ca}
}

// inference returns the TLS configuration with which the inference service connects to nodes.
func (a *authority) inference() func(node string) *tls.Config {
	a.t.Helper()
	pair, err := a.ca.IssueService("inference", clock.Real().Now(), time.Hour)
	require.NoError(a.t, err)
	identity, err := pki.Parse(pair.Cert, pair.Key, a.ca.CertPEM())
	require.NoError(a.t, err)
	return func(node string) *tls.Config { return pki.ClientTLS(identity, node) }
}

// singleEngine is an executor that reports one engine.
type singleEngine struct {
	executor.Executor
	addr string
}

func (o singleEngine) Observed() []executor.Observation {
	return []executor.Observation{{
		Key: executor.Key{WorkID: "w"}, Engine: &executor.EngineReport{Address: "http://" + o.addr, Ready: true},
	}}
}

// behindNode runs the agent relay of a node in front of the engine and returns the replica as the node reports it, with
// the address of the agent's port.
func (a *authority) behindNode(node string, e *engine) *registrypeerv1.ServedReplica {
	a.t.Helper()
	key, request, err := pki.NewRequest()
	require.NoError(a.t, err)
	cert, err := a.ca.SignNode(request, node, clock.Real().Now(), time.Hour)
	require.NoError(a.t, err)
	identity, err := pki.Parse(cert, key, a.ca.CertPEM())
	require.NoError(a.t, err)
	relay := agentrelay.New(agentrelay.Config{Listen: "127.0.0.1:0", Host: "127.0.0.1"}, singleEngine{addr: e.addr},
		func() (pki.Source, error) { return identity, nil }, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.WithoutCancel(a.t.Context()))
	done := make(chan error, 1)
	go func() { done <- relay.Run(ctx) }()
	a.t.Cleanup(func() { cancel(); require.NoError(a.t, <-done) })
	return &registrypeerv1.ServedReplica{
		Id: "rep_" + node, Address: relay.Observed()[0].Engine.Address, NodeId: node, ApiKey: engineKey,
	}
}

func TestCallReachesRemoteEngine(t *testing.T) {
	t.Parallel()
	own := newAuthority(t)
	r, w := openWith(t, own.inference()), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "application/json", okJSON))))
	d := served(deploymentA, list(w.good))
	d.Promoted.Replicas = []*registrypeerv1.ServedReplica{own.behindNode("nod_1", w.e)}
	r.ready(d)
	require.Equal(t, okJSON, text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, `{"model":"m"}`)))
	require.Contains(t, w.e.seen()[0], "Authorization: Bearer "+engineKey+"\r\n", "the engine must get its own key")
	require.NotContains(t, w.e.seen()[0], w.good.text)
	require.Equal(t, "ok", r.rows(1)[0].Outcome)
}

func TestStreamFromRemoteEngine(t *testing.T) {
	t.Parallel()
	own, s := newAuthority(t), newWordStream()
	r, w := openWith(t, own.inference()), newDeploymentStates(t, newEngine(t, s.play))
	d := served(deploymentA, list(w.good))
	d.Promoted.Replicas = []*registrypeerv1.ServedReplica{own.behindNode("nod_1", w.e)}
	r.ready(d)
	resp, in := r.stream(w.good.text)
	for _, word := range []string{"one", "two", "three"} {
		s.words <- word
		require.Equal(t, word, event(t, in), "each event must arrive before the next is sent")
	}
	require.NoError(t, resp.Body.Close())
	<-s.gone
	require.Equal(t, "client_closed", r.rows(1)[0].Outcome)
}

func TestWrongNodeCertificateRefused(t *testing.T) {
	t.Parallel()
	own, foreign := newAuthority(t), newAuthority(t)
	r, w := openWith(t, own.inference()), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "reached"))))
	right := own.behindNode("nod_1", w.e)
	for name, wrong := range map[string]*registrypeerv1.ServedReplica{
		"other node":         {Id: "rep_1", Address: right.GetAddress(), NodeId: "nod_2", ApiKey: engineKey},
		"other installation": foreign.behindNode("nod_1", w.e),
		"no node":            {Id: "rep_1", Address: right.GetAddress(), ApiKey: engineKey},
		"invalid node id":    {Id: "rep_1", Address: right.GetAddress(), NodeId: "../nod_1", ApiKey: engineKey},
		"engine without TLS": {Id: "rep_1", Address: "https://" + w.e.addr, NodeId: "nod_1", ApiKey: engineKey},
	} {
		d := served(deploymentA, list(w.good))
		d.Promoted.Replicas = []*registrypeerv1.ServedReplica{wrong}
		r.ready(d)
		out := refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 502, "engine_unreachable")
		require.Equal(t, "server_error", out.Error.Type, name)
		// If there is also a valid replica, the call reaches it, because nothing was sent to the invalid one.
		d.Promoted.Replicas = append(d.Promoted.Replicas, right)
		r.registry.await(t, r.registry.push(d))
		require.Equal(t, "reached", text(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}")), name)
	}
	for _, head := range w.e.seen() {
		require.Contains(t, head, "POST /v1/chat/completions HTTP/1.1\r\n")
	}
	require.Len(t, w.e.seen(), 5)
}

func TestRemoteEngineNeedsClientCertificate(t *testing.T) {
	t.Parallel()
	own := newAuthority(t)
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "reached"))))
	d := served(deploymentA, list(w.good))
	d.Promoted.Replicas = []*registrypeerv1.ServedReplica{own.behindNode("nod_1", w.e)}
	r.ready(d)
	refused(t, r.do(http.MethodPost, "/inference/"+deploymentA+chat, w.good.text, "{}"), 502, "engine_unreachable")
	require.Empty(t, w.e.seen())
}

package gateway

import (
	"context"
	"net/http"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Maintenance is a mode of the installation, which auth keeps: every check of a caller is judged by it, so
// that no replica of the gateway has to know. Draining is this instance's own.

// serving is why nobody is served on the route now. Where auth cannot be asked, what does not answer in
// maintenance does not answer.
func (g *Gateway) serving(ctx context.Context, r *http.Request, rt route.Route) error {
	if rt.InMaintenance {
		return nil
	}
	_, err := g.checker.Caller(ctx, bearer.Claim{Client: g.proxies.Client(r)})
	return named(rt, err)
}

// unserved is what a request is told that is refused before anybody was asked: in maintenance that, and
// otherwise why it is refused. What the table does not name is not judged: it is never served.
func (g *Gateway) unserved(ctx context.Context, r *http.Request, rt route.Route, refused *fault.Error) error {
	if err := g.serving(ctx, r, rt); fault.HasCode(err, fault.CodeMaintenance) {
		return err
	}
	return refused
}

// submitRPC names the gate that refused in front of the words of a refusal; maintenance is one.
const submitRPC = "signalbox.jobs.v1.JobService/SubmitJob"

// named is a refusal in the words of its route.
func named(rt route.Route, err error) error {
	if rt.RPC != submitRPC || !fault.HasCode(err, fault.CodeMaintenance) {
		return err
	}
	f := *fault.From(err)
	f.Msg = fault.CodeMaintenance + ": " + f.Msg
	return &f
}

func draining() *fault.Error {
	return fault.New(fault.Unavailable, "draining", "the server is shutting down")
}

type lateKey struct{}

// withLate marks a gRPC call that came when the gateway drained already.
func withLate(ctx context.Context, late bool) context.Context {
	return context.WithValue(ctx, lateKey{}, late)
}

func isLate(ctx context.Context) bool {
	late, _ := ctx.Value(lateKey{}).(bool)
	return late
}

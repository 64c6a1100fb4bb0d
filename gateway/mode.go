package gateway

import (
	"context"

	"github.com/signalbox-dev/signalbox/gateway/internal/bearer"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Maintenance is a mode of the installation that auth keeps and applies to every check of a caller, so no
// replica of the gateway has to know the mode. Package bearer caches auth's responses under a lease.
// Draining concerns this instance only.

// serving returns an error if the route is closed to all callers now. While auth is unreachable, every route that
// maintenance would close is closed.
func (g *Gateway) serving(ctx context.Context, rt route.Route) error {
	if rt.InMaintenance {
		return nil
	}
	_, err := g.checker.Caller(ctx, bearer.Claim{}) // an anonymous caller; no service gets its identity
	return named(rt, err)
}

// unserved returns the error for a request that is refused before its credential is checked: the maintenance fault
// during maintenance, otherwise the given fault.
func (g *Gateway) unserved(ctx context.Context, rt route.Route, refused *fault.Error) error {
	if err := g.serving(ctx, rt); fault.HasCode(err, fault.CodeMaintenance) {
		return err
	}
	return refused
}

// submitRPC is the RPC that submits a job. The text of its error begins with the name of the admission check that
// refused the job. Maintenance counts as such a check.
const submitRPC = "signalbox.jobs.v1.JobService/SubmitJob"

// named puts the name "maintenance" in front of the text of a maintenance fault if the route submits jobs. It returns
// any other error unchanged.
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

// withLate marks a gRPC call that arrived after draining had begun.
func withLate(ctx context.Context, late bool) context.Context {
	return context.WithValue(ctx, lateKey{}, late)
}

func isLate(ctx context.Context) bool {
	late, _ := ctx.Value(lateKey{}).(bool)
	return late
}

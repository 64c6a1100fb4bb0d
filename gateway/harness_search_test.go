package gateway_test

import (
	"context"
	"slices"
	"sync"
	"testing"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/gateway"
	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// searching is the connection to a service that finds one object of each kind and counts the calls.
type searching struct {
	grpc.ClientConnInterface
	fail  func(ctx context.Context, kind string) error
	mu    sync.Mutex
	kinds []string
}

func (c *searching) Invoke(ctx context.Context, method string, args, reply any, options ...grpc.CallOption) error {
	in, ok := args.(*searchv1.SearchRequest)
	if !ok {
		return c.ClientConnInterface.Invoke(ctx, method, args, reply, options...)
	}
	if len(in.GetKinds()) != 1 || in.GetKinds()[0] == "nothing" {
		return fault.InvalidFields(fault.At(fault.TypeValue, "not one known kind", "kinds"))
	}
	kind := in.GetKinds()[0]
	c.mu.Lock()
	c.kinds = append(c.kinds, kind)
	c.mu.Unlock()
	if c.fail != nil {
		if err := c.fail(ctx, kind); err != nil {
			return err
		}
	}
	out, _ := reply.(*searchv1.SearchResponse)
	score := map[string]float64{"run": 0.9, "project": 0.7}[kind]
	out.Results = []*searchv1.SearchResult{{Kind: kind, Id: kind + "_1", Title: in.GetQ(), Score: score}}
	return nil
}

// startSearch returns a gateway whose services search, and the kinds that were searched.
func startSearch(t *testing.T, fail func(context.Context, string) error) (*harness, func() []string) {
	t.Helper()
	var conns []*searching
	wrap := func(c *grpc.ClientConnInterface) {
		s := &searching{ClientConnInterface: *c, fail: fail}
		conns, *c = append(conns, s), s
	}
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		wrap(&d.Conns.Auth)
		wrap(&d.Conns.Jobs)
		wrap(&d.Conns.Registry)
	})
	return r, func() (all []string) {
		for _, c := range conns {
			c.mu.Lock()
			all = append(all, c.kinds...)
			c.kinds = nil
			c.mu.Unlock()
		}
		slices.Sort(all)
		return all
	}
}

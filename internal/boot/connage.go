package boot

import (
	"context"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

// connectionAges limits how long a connection of HTTP/1.1 takes new requests, as package rpc does for connections of gRPC.
// Behind the address of a balancer, a connection that is in use stays with its replica, so that replicas that were added
// would get only the requests of new connections.
type connectionAges struct {
	elapsed func() time.Duration
	// chance returns a random number in [0, 1).
	chance func() float64
}

func newConnectionAges() connectionAges {
	return connectionAges{elapsed: clock.Monotonic(), chance: rand.Float64}
}

// connectionEnds is the key of the elapsed time after which a connection takes no new requests.
type connectionEnds struct{}

// begin is the ConnContext of a server. It varies the limit by a tenth, so that connections that were opened together do
// not end together.
func (a connectionAges) begin(ctx context.Context, _ net.Conn) context.Context {
	const least, span = rpc.ConnectionAge - rpc.ConnectionAge/10, rpc.ConnectionAge / 5
	age := least + time.Duration(a.chance()*float64(span))
	return context.WithValue(ctx, connectionEnds{}, a.elapsed()+age)
}

// over reports whether the response to r must end its connection. It returns false if the server's ConnContext is not
// begin.
func (a connectionAges) over(r *http.Request) bool {
	ends, limited := r.Context().Value(connectionEnds{}).(time.Duration)
	return limited && a.elapsed() >= ends
}

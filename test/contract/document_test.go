package contract

import (
	"testing"

	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/test/contract/exchange"
)

// described says that there is a description of the API that declares every status.
const described = false

// document is the API's description, against which every answer is checked.
func document(testing.TB) exchange.Document { return nil }

// example is a minimal body that a route takes.
func example(testing.TB, route.Route) string { return "{}" }

// declared are the statuses that the description declares for a route.
func declared(_ testing.TB, rt route.Route) []int {
	if rt.Kind == route.Stream {
		return []int{200}
	}
	if rt.Kind == route.RPC {
		return []int{rt.Status}
	}
	return nil
}

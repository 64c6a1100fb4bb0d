// Package inference is the service that applications call: it relays their calls to the engines of the
// promoted revision, under a lease from the registry, and records them. It promises that a revoked token
// is refused before the request that revokes it returns, that the path of a call never waits for a
// database, and that a truncated response never looks complete.
//
// The packages lease, relay, socket and tally are independent of each other. Package traffic owns the
// record of calls, package playground relays the calls of playground sessions, and package proxy uses the
// others to serve a call.
package inference

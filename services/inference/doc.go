// Package inference is the service that applications call: it relays their calls to the engines of the
// promoted revision, under a lease from the registry, and records them. It promises that a revoked token
// is refused before the request that revokes it returns, that the path of a call never waits for a
// database, and that a truncated response never looks complete.
//
// Its areas, in the order in which a call passes them: routing holds the table of what to serve, under the lease;
// proxy finds the deployment, checks the token and relays the call; engineclient and socket speak HTTP and WebSocket
// with the engine; traffic records the call. playgroundproxy relays the calls of playground sessions. db holds the
// migrations.
package inference

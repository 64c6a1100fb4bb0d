// Package inference is the service that applications call. It relays their calls to the engines of the promoted
// revision, as long as it has a lease from the registry, and records them. It promises that a token is refused on
// every replica when the request that revokes it returns, that a call never waits for a database, and that a
// truncated response never looks complete.
//
// Its packages, in the order in which a call passes them: routing holds the registry's snapshot and the lease; proxy
// finds the deployment, checks the token and relays the call; engineclient sends HTTP requests to engines; socket
// relays WebSockets; traffic records the call. playgroundproxy relays the calls of playground sessions. db contains
// the migrations.
package inference

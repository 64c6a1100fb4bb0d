// Package inference is the service that applications call. It relays their calls to the engines of the promoted
// revision, as long as it has a lease from the registry, and records them. It promises that a token is refused on
// every replica when the request that revokes it returns, that a call to a deployment never waits for a database, and
// that a truncated response never looks complete.
//
// Its packages: routing holds the registry's snapshot and the lease; proxy checks the token, finds the deployment and
// relays the call; engineclient sends HTTP requests to engines; socket relays WebSockets; traffic records the calls;
// playgroundproxy relays the calls of playground sessions; db contains the migrations.
package inference

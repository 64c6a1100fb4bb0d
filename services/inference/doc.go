// Package inference is the service that applications call. It relays their calls to the engines of the promoted
// revision, as long as it has a lease from the registry, and records them. It promises that every replica refuses a
// token as soon as the request that revokes the token has returned, that a call to a deployment never waits for a
// database, and that a truncated response never looks complete.
//
// Its packages, in the order in which a call passes them: routing holds the registry's snapshot and the lease; proxy
// checks the token, finds the deployment in routing and relays the call; playgroundproxy does the same for calls of
// playground sessions, which the registry authorizes. Both reach the engine through engineclient for HTTP and socket for
// WebSockets. traffic records the calls of deployments at their end. db contains the migrations.
package inference

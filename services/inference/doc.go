// Package inference is the service that answers applications: it relays their calls to the engines of
// the promoted revision, under a lease from the registry, and keeps the record of them. It promises that
// a revoked token is refused before its revocation is answered, that nothing on the path of a call waits
// for a database, and that a call that was cut never looks whole.
//
// Inside: lease, relay and tally stand alone, traffic owns rows, proxy joins them.
package inference

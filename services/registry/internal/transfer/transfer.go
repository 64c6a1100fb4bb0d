// Package transfer transfers everything that a user owns in the registry to another user: datasets, models, packages,
// environments, rubrics, solutions, their applications, deployments and playground sessions.
//
// It promises that everything moves in one transaction, each thing with its event and its audit entry. Deployments
// continue to serve and their tokens remain valid; inference learns of the new owner with the next snapshot. The recorded
// creator of a version does not change.
//
// It also applies changes of a project's visibility to everything in the project, here and in inference.
package transfer

// Count is the number of things of one kind.
type Count struct {
	Kind  string
	Count int
}

// Person is a user who receives things.
type Person struct{ ID, Name string }

// EventTransferred is the type of the event that records a change of owner.
const EventTransferred = "transferred"

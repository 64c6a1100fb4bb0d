// Package transfer transfers all objects that a user owns in the registry to another user: datasets, models, packages,
// environments, rubrics, solutions, their applications, deployments and playground sessions.
//
// Each object is transferred in one transaction with its event and its audit entry, and a transaction transfers a
// bounded number of objects. Deployments continue to serve and their tokens remain valid; inference learns of the new
// owner with the next snapshot. The recorded creator of a version does not change.
//
// The package also applies changes of a project's visibility to all objects of the project, in the registry and in
// inference.
package transfer

// Count is the number of objects of one kind.
type Count struct {
	Kind  string
	Count int
}

// Person is the user who becomes the owner.
type Person struct{ ID, Name string }

// EventTransferred is the type of the event that records a change of owner.
const EventTransferred = "transferred"

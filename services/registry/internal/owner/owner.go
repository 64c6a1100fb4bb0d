// Package owner gives what a person owns in the registry to another person: datasets, models,
// environments, rubrics, solutions, their applications, deployments, and playground sessions. It promises that all of
// it moves in one transaction, each thing with its event and its audit row. Deployments go on serving, and their tokens with them; inference hears of the new owner by the next
// snapshot. Who made a version stays who made it.
//
// It also makes what belongs to a project as visible as the project is, here and in inference.
package owner

// Count is how many things of a kind.
type Count struct {
	Kind  string
	Count int
}

// Person is who gets it.
type Person struct{ ID, Name string }

// EventTransferred is the event of a thing that got another owner.
const EventTransferred = "transferred"

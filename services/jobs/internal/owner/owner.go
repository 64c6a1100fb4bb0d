// Package owner gives what a person owns in jobs to another person: jobs, runs, and with them the GPUs that
// they hold and the works that carry them out. It promises that all of it moves in one transaction, each
// thing with its audit row and each live job with its event; nothing that runs is ended. What waits is
// judged by the new owner's quota from then on.
//
// It also makes what belongs to a project as visible as the project is.
package owner

// The kinds of things that have owners here.
const (
	kindJob = "job"
	kindRun = "run"
)

// EventTransferred is the event of a live job that got another owner.
const EventTransferred = "job.transferred"

// Counts are how many things of each kind.
type Counts struct{ Jobs, Runs int }

// Person is who gets it.
type Person struct{ ID, Name string }

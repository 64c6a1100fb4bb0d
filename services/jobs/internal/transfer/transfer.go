// Package transfer transfers what a user owns in this service to another user: jobs and runs, the GPUs that they hold
// and their work items. It promises that everything moves in one transaction, with an audit row for each job and run
// and an event for each job that has not ended. Running jobs and engines continue. From then on, queued jobs count
// against the new owner's quota.
//
// It also applies a project's visibility to the project's jobs and runs.
package transfer

// The kinds of owned resources.
const (
	kindJob = "job"
	kindRun = "run"
)

// EventTransferred is the type of the event of a job that gets a new owner before it has ended.
const EventTransferred = "job.transferred"

// Counts is the number of resources of each kind.
type Counts struct{ Jobs, Runs int }

// Person is the new owner.
type Person struct{ ID, Name string }

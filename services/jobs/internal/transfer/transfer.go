// Package transfer transfers what a user owns in this service to another user: jobs and runs, the GPUs that they hold and
// their work items. A job moves with its run, its works and its GPUs in one transaction, with audit rows for job and run
// and, if it has not ended, an event. Each transaction moves a bounded number of jobs, those that hold GPUs first, or of
// engines. Running jobs and engines continue. From then on, queued jobs count against the new owner's quota.
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

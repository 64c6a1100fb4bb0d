package job

import "time"

// Attempt is one execution of a job.
type Attempt struct {
	ID       string
	JobID    string
	Number   int
	State    State
	NodeID   string // the node of rank 0
	Held     int    // GPUs charged to the job's owner and team; released once
	Phase    string // the executor's phase
	ExitCode *int

	EndReason string
	Message   string

	// ReportedEnd is the terminal lifecycle event that the training sent, or empty.
	ReportedEnd     string
	ReportedMessage string

	// ResumedFrom is the checkpoint artifact that the attempt started from, or empty.
	ResumedFrom string

	CreatedAt          time.Time
	StartingAt         *time.Time
	ReportedStartingAt *time.Time
	ExecutorRunningAt  *time.Time // set from the executor's report
	RunningAt          *time.Time // when the training reported running; billing starts here
	ListensAt          *time.Time // when the training first polled for signals
	EndedAt            *time.Time
}

// Over reports whether the attempt has ended.
func (a *Attempt) Over() bool { return a.EndedAt != nil }

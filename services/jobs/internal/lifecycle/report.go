package lifecycle

import (
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Report applies a lifecycle event that the training of an attempt reported. It returns a conflict if the attempt
// is not the run's current one.
func (d *Driver) Report(ctx context.Context, runID string, attempt int, event, message string) (bool, error) {
	var applied bool
	err := d.withCurrent(ctx, runID, attempt, "lifecycle", func(ctx context.Context, tx pgx.Tx, s *lockedJob) error {
		if s.job.Protected {
			message = withheld(message)
		}
		var err error
		if applied, err = s.job.Report(s.attempt, event, message, s.now); err != nil || !applied {
			return err
		}
		if err := d.Jobs.SaveAttempt(ctx, tx, s.attempt); err != nil {
			return err
		}
		cause := job.Cause{ActorKind: "run", ActorID: runID, Reason: "reported_" + event, Message: message}
		if s.job.State == s.before {
			cause.Type = "job.reported"
		}
		return d.Jobs.Save(ctx, tx, s.job, s.before, cause)
	})
	return applied, err
}

// withheld replaces the message of a protected run, which may contain records.
func withheld(message string) string {
	if message == "" {
		return ""
	}
	return fmt.Sprintf("the message is withheld, because the run is protected; it has %d characters", utf8.RuneCountInString(message))
}

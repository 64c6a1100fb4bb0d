package db

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/event"
)

// RecordChange writes the event and the audit entry of an action on the subject of e. The argument after is the new
// state of the subject, without secrets.
func RecordChange(ctx context.Context, tx pgx.Tx, events *event.Log, entries *audit.Log, action string, e event.Event, after any) error {
	if _, err := events.Append(ctx, tx, e); err != nil {
		return err
	}
	return entries.Record(ctx, tx, audit.Entry{Action: action, TargetKind: e.SubjectKind, TargetID: e.SubjectID, After: after})
}

package db

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
)

// Recorder writes audit rows. The packages use this interface so that their tests need no audit table.
type Recorder interface {
	// Record writes a row for an action of the caller in ctx, in the transaction of the change.
	Record(ctx context.Context, tx pgx.Tx, action, kind, target string, after any) error
}

// AuditTrail is the Recorder of the service.
type AuditTrail struct{ Log *audit.Log }

// Record writes an audit row for an action of the caller in ctx. The target's new state must not contain secrets.
func (t *AuditTrail) Record(ctx context.Context, tx pgx.Tx, action, kind, target string, after any) error {
	return t.Log.Record(ctx, tx, audit.Entry{Action: action, TargetKind: kind, TargetID: target, After: after})
}

package db

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
)

// AuditTrail records who did what.
type AuditTrail struct{ Log *audit.Log }

// Record writes an audit row for an action of the caller in ctx. after is the new state of the target, without secrets.
func (t *AuditTrail) Record(ctx context.Context, tx pgx.Tx, action, kind, target string, after any) error {
	return t.Log.Record(ctx, tx, audit.Entry{Action: action, TargetKind: kind, TargetID: target, After: after})
}

// Package trail puts the audit rows of this service's changes into words, each written in the
// transaction of its change.
package trail

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/signalbox-dev/signalbox/platform/audit"
)

// Trail records who did what.
type Trail struct{ Log *audit.Log }

// Record writes that the caller did an action; after is what the target became, without secrets.
func (t *Trail) Record(ctx context.Context, tx pgx.Tx, action, kind, target string, after any) error {
	return t.Log.Record(ctx, tx, audit.Entry{Action: action, TargetKind: kind, TargetID: target, After: after})
}

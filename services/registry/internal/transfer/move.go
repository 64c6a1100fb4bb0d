package transfer

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/registry/internal/epoch"
)

// Owners transfers the objects of users.
type Owners struct {
	Pool   *pgxpool.Pool
	Events *event.Log
	Audit  *audit.Log
}

// Transfer changes the owner of all objects of a user. It proceeds in steps that each change a bounded number of rows.
// It returns the number of transferred objects of each kind. After an error, a repeated call continues the transfer.
func (o *Owners) Transfer(ctx context.Context, from string, to Person) ([]Count, error) {
	var moved []Count
	for _, k := range kinds() {
		c := Count{Kind: k.name}
		for {
			n, err := o.step(ctx, k, from, to)
			if err != nil {
				return nil, err
			}
			if n == 0 {
				break
			}
			c.Count += n
		}
		moved = append(moved, c)
	}
	return moved, nil
}

// step transfers objects of one kind in one transaction, together with everything that belongs to the objects.
func (o *Owners) step(ctx context.Context, k kind, from string, to Person) (n int, err error) {
	err = pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		ids, err := k.transfer(ctx, tx, from, to)
		if n = len(ids); err != nil || n == 0 {
			return err
		}
		for _, id := range ids {
			if err := o.record(ctx, tx, k, id, from, to); err != nil {
				return err
			}
		}
		return o.engines(ctx, tx, k, ids, from, to)
	})
	return n, err
}

// engines makes the new owner the owner of the engines of transferred deployments and sessions. If deployments were
// transferred, it also raises the epoch, so that inference gets the new owner.
func (o *Owners) engines(ctx context.Context, tx pgx.Tx, k kind, ids []string, from string, to Person) error {
	if k.name != kindDeployment && k.name != kindPlayground {
		return nil
	}
	if err := transferPlans(ctx, tx, ids, from, to.ID); err != nil || k.name != kindDeployment {
		return err
	}
	_, err := epoch.Bump(ctx, tx, epoch.ChangedDeployments(ids...))
	return err
}

func (o *Owners) record(ctx context.Context, tx pgx.Tx, k kind, id, from string, to Person) error {
	_, err := o.Events.Append(ctx, tx, event.Event{SubjectKind: k.subject(), SubjectID: id, Type: EventTransferred, Message: "transferred to " + to.Name})
	if err != nil {
		return err
	}
	return o.Audit.Record(ctx, tx, audit.Entry{
		Action: k.name + ".transfer", TargetKind: k.subject(), TargetID: id,
		After: map[string]string{"owner_id": to.ID, "former_owner_id": from},
	})
}

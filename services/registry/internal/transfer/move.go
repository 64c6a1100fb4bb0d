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

// Transfer changes the owner of all objects of the user from. It returns the number of transferred objects of each
// kind.
func (o *Owners) Transfer(ctx context.Context, from string, to Person) ([]Count, error) {
	var moved []Count
	err := pg.InTx(ctx, o.Pool, func(ctx context.Context, tx pgx.Tx) error {
		moved = nil
		var deployments []string
		for _, k := range kinds() {
			ids, err := k.transfer(ctx, tx, from, to)
			if err != nil {
				return err
			}
			for _, id := range ids {
				if err := o.record(ctx, tx, k, id, from, to); err != nil {
					return err
				}
			}
			moved = append(moved, Count{k.name, len(ids)})
			if k.name == kindDeployment {
				deployments = ids
			}
		}
		if err := transferPlans(ctx, tx, from, to.ID); err != nil {
			return err
		}
		_, err := epoch.Bump(ctx, tx, epoch.ChangedDeployments(deployments...))
		return err
	})
	return moved, err
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

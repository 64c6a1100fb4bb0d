package account

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"

	commonpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// kindProject is the kind of the objects that auth itself counts: the user's projects that have no other enabled owner.
const kindProject = "project"

// Owned is the number of objects of one kind that a user owns or that were transferred.
type Owned struct {
	Kind  string
	Count int
}

// Holder is a service that stores objects with owners.
type Holder struct {
	Name string
	// Client is nil if the service is not connected; then counts and transfers fail.
	Client commonpeerv1.OwnerPeerServiceClient
}

const (
	countWithin = 5 * time.Second
	moveWithin  = time.Minute
)

// Transfers transfers the objects of one user to another. One service after another moves its objects, each service in
// one transaction. The row of the former owner's account stores the receiver until all services have moved their
// objects. Repeating an interrupted transfer therefore continues where it stopped, and the remaining objects cannot go
// to another user. The former owner must be disabled, because an enabled user could create new objects. A request that
// was in progress when the account was disabled may still create some; repeating the transfer moves them.
type Transfers struct {
	Pool  *pgxpool.Pool
	Audit *audit.Log
	// Transfer calls the holders in this order. The service jobs must come before those that copy the owners of jobs.
	Holders []Holder
}

// Count returns how many objects an account owns, by kind. It omits kinds with a count of zero.
func (t *Transfers) Count(ctx context.Context, userID string) ([]Owned, error) {
	if _, err := getUser(ctx, t.Pool, userID); err != nil {
		return nil, err
	}
	found := make([][]Owned, len(t.Holders))
	all, gctx := errgroup.WithContext(ctx)
	for i, h := range t.Holders {
		all.Go(func() error {
			cctx, cancel := context.WithTimeout(gctx, countWithin)
			defer cancel()
			if h.Client == nil {
				return h.notConnected()
			}
			out, err := h.Client.CountOwned(cctx, &commonpeerv1.CountOwnedRequest{UserId: userID})
			if err != nil {
				return fmt.Errorf("count the user's objects in %s: %w", h.Name, err)
			}
			found[i] = ownedFromProto(out)
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return nil, err
	}
	projects, err := soleProjects(ctx, t.Pool, userID)
	if err != nil {
		return nil, err
	}
	var owned []Owned
	for _, part := range append(found, []Owned{{kindProject, len(projects)}}) {
		owned = append(owned, part...)
	}
	return some(owned), nil
}

// Transfer moves all objects of an account to another account and returns how many it moved, by kind. A project with
// another enabled owner does not move.
func (t *Transfers) Transfer(ctx context.Context, fromID, toID string) ([]Owned, error) {
	to, fresh, err := t.begin(ctx, fromID, toID)
	if err != nil {
		return nil, err
	}
	var moved []Owned
	for i, h := range t.Holders {
		part, err := h.give(ctx, fromID, to)
		if err != nil {
			// If the first service refuses the transfer, no object has moved, so another user may become the
			// receiver.
			if i == 0 && fresh && (fault.Is(err, fault.Conflict) || fault.Is(err, fault.Refused)) {
				return nil, giveUp(ctx, t.Pool, fromID, toID, err)
			}
			return nil, err
		}
		moved = append(moved, part...)
	}
	projects, err := t.finish(ctx, fromID, to, moved)
	if err != nil {
		return nil, err
	}
	return some(append(moved, Owned{kindProject, projects})), nil
}

// notConnected returns the error for a service without a client.
func (h Holder) notConnected() error {
	return fault.New(fault.Unavailable, "peer_missing", "the service %s is not connected", h.Name)
}

func (h Holder) give(ctx context.Context, fromID string, to User) ([]Owned, error) {
	if h.Client == nil {
		return nil, h.notConnected()
	}
	ctx, cancel := context.WithTimeout(ctx, moveWithin)
	defer cancel()
	out, err := h.Client.TransferOwned(ctx, &commonpeerv1.TransferOwnedRequest{UserId: fromID, ToUserId: to.ID, ToUsername: to.Username})
	if err != nil {
		return nil, fmt.Errorf("move the user's objects in %s: %w", h.Name, err)
	}
	return ownedFromProto(out), nil
}

// begin stores the receiver. The result fresh is false if an earlier call has stored the same receiver. A pending
// transfer continues even if the receiver has been disabled since then: the objects can then be transferred from the
// receiver to another user.
func (t *Transfers) begin(ctx context.Context, fromID, toID string) (to User, fresh bool, err error) {
	if fromID == toID {
		return to, false, fault.New(fault.Refused, "transfer", "source and target user are the same")
	}
	err = pg.InTx(ctx, t.Pool, func(ctx context.Context, tx pgx.Tx) error {
		from, err := lockUser(ctx, tx, fromID)
		if err != nil {
			return err
		}
		pending, err := pendingTransfer(ctx, tx, fromID)
		if err != nil {
			return err
		}
		if to, err = getUser(ctx, tx, toID); fault.Is(err, fault.Absent) {
			return fault.New(fault.Refused, "transfer", "no such user: %s", toID)
		}
		switch {
		case err != nil:
			return err
		case from.DisabledAt == nil:
			return fault.New(fault.Conflict, "user_enabled", "%s is enabled and could create objects during the transfer; disable the user first", from.Username)
		case pending == toID:
			fresh = false
			return nil
		case pending != "":
			return fault.New(fault.Conflict, "transfer_pending", "an earlier transfer to %[1]s is not finished; repeat it, then transfer the objects from %[1]s", pending)
		case to.DisabledAt != nil:
			return fault.New(fault.Conflict, "user_disabled", "%s is disabled; choose an enabled user as the receiver", to.Username)
		}
		fresh = true
		if err := setTransfer(ctx, tx, fromID, &toID); err != nil {
			return err
		}
		return t.Audit.Record(ctx, tx, audit.Entry{
			Action: "account.transfer_begin", TargetKind: SubjectKind, TargetID: fromID, After: map[string]string{"to_user_id": toID},
		})
	})
	return to, fresh, err
}

// finish transfers the projects and records the end of the transfer.
func (t *Transfers) finish(ctx context.Context, fromID string, to User, moved []Owned) (projects int, err error) {
	err = pg.InTx(ctx, t.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := lockUser(ctx, tx, fromID); err != nil {
			return err
		}
		given, err := giveProjects(ctx, tx, fromID, to.ID)
		if err != nil {
			return err
		}
		projects = len(given)
		for _, id := range given {
			err := t.Audit.Record(ctx, tx, audit.Entry{
				Action: "project.transfer", TargetKind: kindProject, TargetID: id,
				After: map[string]string{"owner_id": to.ID, "former_owner_id": fromID},
			})
			if err != nil {
				return err
			}
		}
		if err := setTransfer(ctx, tx, fromID, nil); err != nil {
			return err
		}
		counts := map[string]int{kindProject: projects}
		for _, o := range moved {
			counts[o.Kind] = o.Count
		}
		return t.Audit.Record(ctx, tx, audit.Entry{
			Action: "account.transfer", TargetKind: SubjectKind, TargetID: fromID, After: map[string]any{"to_user_id": to.ID, "moved": counts},
		})
	})
	return projects, err
}

// some returns the elements of the list whose count is not zero.
func some(all []Owned) []Owned {
	kept := []Owned{}
	for _, o := range all {
		if o.Count > 0 {
			kept = append(kept, o)
		}
	}
	return kept
}

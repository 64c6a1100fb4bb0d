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

// kindProject is the kind that auth itself counts: projects without another enabled owner.
const kindProject = "project"

// Owned is the number of objects of one kind that a user owns, or that were moved.
type Owned struct {
	Kind  string
	Count int
}

// Holder is a service whose rows have owners.
type Holder struct {
	Name string
	// Client is nil if the service is not connected; then counts and transfers fail.
	Client commonpeerv1.OwnerPeerServiceClient
}

const (
	countWithin = 5 * time.Second
	moveWithin  = time.Minute
)

// Transfers gives what users own to other users. The services move their parts one after another, each in one
// transaction. The account stores the receiver until all parts have moved, so that a repeat continues where an
// interrupted transfer stopped and the rest cannot go to another user. Only the objects of a disabled account are
// transferred, because a disabled account creates no new ones. A request that was in progress when the account was
// disabled may still leave objects behind; a repeat moves them.
type Transfers struct {
	Pool  *pgxpool.Pool
	Audit *audit.Log
	// Holders are called in this order: jobs comes before the services that copy the owners of its jobs.
	Holders []Holder
}

// Count returns how many objects an account owns, by kind, without kinds that it owns nothing of.
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
				return fmt.Errorf("count what the user owns in %s: %w", h.Name, err)
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

// Transfer gives everything that an account owns to another account and returns what moved.
func (t *Transfers) Transfer(ctx context.Context, fromID, toID string) ([]Owned, error) {
	to, fresh, err := t.begin(ctx, fromID, toID)
	if err != nil {
		return nil, err
	}
	var moved []Owned
	for i, h := range t.Holders {
		part, err := h.give(ctx, fromID, to)
		if err != nil {
			// A refusal by the first holder has moved nothing, so another user may become the receiver.
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

// notConnected is the error for a service without a client.
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
		return nil, fmt.Errorf("move what the user owns in %s: %w", h.Name, err)
	}
	return ownedFromProto(out), nil
}

// begin stores the receiver; fresh reports that no earlier call had stored it. A transfer that has begun is
// finished even if the receiver has been disabled since: another transfer can move the objects from there.
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
			return fault.New(fault.Conflict, "transfer_pending", "a transfer to %s is pending; finish it, then transfer from that user", pending)
		case to.DisabledAt != nil:
			return fault.New(fault.Conflict, "user_disabled", "%s is disabled", to.Username)
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

// some drops kinds with a count of zero.
func some(all []Owned) []Owned {
	kept := []Owned{}
	for _, o := range all {
		if o.Count > 0 {
			kept = append(kept, o)
		}
	}
	return kept
}

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

// kindProject is what auth itself has owners of: the projects that nobody else who is enabled owns.
const kindProject = "project"

// Owned is how many things of a kind somebody owns, or how many moved.
type Owned struct {
	Kind  string
	Count int
}

// Holder is a service whose rows have owners.
type Holder struct {
	Name string
	// Client is nil where the service is not connected: nothing is counted or given away without it.
	Client commonpeerv1.OwnerPeerServiceClient
}

const (
	countWithin = 5 * time.Second
	moveWithin  = time.Minute
)

// Transfers gives what people own to others. Each service moves its part in one transaction, one service
// after the other; the account remembers to whom until all is done, so that a repeat goes on where an
// interrupted one stopped and nobody sends the rest elsewhere. Only what a disabled account owns is given
// away: he makes nothing new meanwhile. A request of his that was under way when he was disabled may leave
// something behind, which a repeat moves.
type Transfers struct {
	Pool  *pgxpool.Pool
	Audit *audit.Log
	// Holders come in the order in which they are asked: jobs before those that repeat what it says.
	Holders []Holder
}

// Count answers what an account owns, by kind; kinds of which it owns nothing are left out.
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
				return h.away()
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

// Transfer gives all that an account owns to another one and answers what moved.
func (t *Transfers) Transfer(ctx context.Context, fromID, toID string) ([]Owned, error) {
	to, fresh, err := t.begin(ctx, fromID, toID)
	if err != nil {
		return nil, err
	}
	var moved []Owned
	for i, h := range t.Holders {
		part, err := h.give(ctx, fromID, to)
		if err != nil {
			// What the first one refused left nothing behind: another person may get it.
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

// away is the answer without the service.
func (h Holder) away() error {
	return fault.New(fault.Unavailable, "peer_missing", "the service %s is not connected", h.Name)
}

func (h Holder) give(ctx context.Context, fromID string, to User) ([]Owned, error) {
	if h.Client == nil {
		return nil, h.away()
	}
	ctx, cancel := context.WithTimeout(ctx, moveWithin)
	defer cancel()
	out, err := h.Client.TransferOwned(ctx, &commonpeerv1.TransferOwnedRequest{UserId: fromID, ToUserId: to.ID, ToUsername: to.Username})
	if err != nil {
		return nil, fmt.Errorf("move what the user owns in %s: %w", h.Name, err)
	}
	return ownedFromProto(out), nil
}

// begin notes who gets it; fresh says that this call is the first to. What was begun is finished even if the
// new owner was disabled meanwhile: from there it can be given on.
func (t *Transfers) begin(ctx context.Context, fromID, toID string) (to User, fresh bool, err error) {
	if fromID == toID {
		return to, false, fault.New(fault.Refused, "transfer", "a user cannot be given what is already his")
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
			return fault.New(fault.Conflict, "user_enabled", "disable %s first: an enabled user makes new things meanwhile", from.Username)
		case pending == toID:
			fresh = false
			return nil
		case pending != "":
			return fault.New(fault.Conflict, "transfer_pending", "a transfer to %s has been begun: finish it first, and give on from there", pending)
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

// finish gives the projects away and notes the end.
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

// some leaves out kinds of which there is nothing.
func some(all []Owned) []Owned {
	kept := []Owned{}
	for _, o := range all {
		if o.Count > 0 {
			kept = append(kept, o)
		}
	}
	return kept
}

package fleet

import (
	"context"
	"io"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/event"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/db"
)

// CA signs the certificates with which nodes authenticate.
type CA interface {
	SignNode(requestPEM []byte, nodeID string) (certPEM, caPEM []byte, err error)
}

// Registrar creates fleets and admits nodes to them.
type Registrar struct {
	Pool   *pgxpool.Pool
	Store  Store
	Clock  clock.Clock
	IDs    *id.Source
	Rand   io.Reader
	CA     CA
	Events *event.Log
	Trail  db.Recorder
	Slots  int
}

// Create registers a fleet in tx. Fleets of Kubernetes clusters are not supported yet: jobs would wait forever in them.
func (r *Registrar) Create(ctx context.Context, tx pgx.Tx, name, kind string, pools []string) (*Fleet, error) {
	f := &Fleet{ID: r.IDs.New(id.Fleet), Name: name, Kind: kind, State: Active, Pools: pools, CreatedAt: r.Clock.Now()}
	if err := r.Store.Insert(ctx, tx, f); err != nil {
		return nil, err
	}
	if kind == KindKubernetes { // last, after every other reason to refuse the fleet
		return nil, fault.New(fault.Unconfigured, "fleet_kind", "fleets of kind %s are not available yet; use kind %s or %s", kind, KindAgent, KindSlurm)
	}
	if _, err := r.Events.Append(ctx, tx, event.Event{SubjectKind: SubjectFleet, SubjectID: f.ID, Type: "fleet.created", To: Active}); err != nil {
		return nil, err
	}
	return f, r.Trail.Record(ctx, tx, "fleet.create", SubjectFleet, f.ID, map[string]any{"name": name, "kind": kind, "pools": pools})
}

// Mint creates a join token in tx.
func (r *Registrar) Mint(ctx context.Context, tx pgx.Tx, fleetID string, ttl time.Duration, uses int) (*JoinToken, secret.String, error) {
	tok, err := secret.Mint(r.Rand, secret.KindFleetJoin)
	if err != nil {
		return nil, tok, err
	}
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return nil, tok, err
	}
	t := &JoinToken{ID: r.IDs.New(id.JoinToken), FleetID: fleetID, MaxUses: uses, ExpiresAt: now.Add(ttl), CreatedAt: now}
	if err := r.Store.InsertToken(ctx, tx, t, secret.Hash(tok.Reveal()), now); err != nil {
		return nil, tok, err
	}
	return t, tok, r.Trail.Record(ctx, tx, "join_token.create", SubjectFleet, fleetID,
		map[string]any{"join_token_id": t.ID, "max_uses": uses, "expires_at": t.ExpiresAt})
}

// Update changes a fleet in tx and wakes the scheduler, because the set of pools may have changed.
func (r *Registrar) Update(ctx context.Context, tx pgx.Tx, fleetID string, c Change) (*Fleet, error) {
	before, err := r.Store.Get(ctx, tx, fleetID)
	if err != nil {
		return nil, err
	}
	if err := r.Store.Update(ctx, tx, fleetID, c); err != nil {
		return nil, err
	}
	if err := r.Store.RemoveUnservedPools(ctx, tx); err != nil {
		return nil, err
	}
	after, err := r.Store.Get(ctx, tx, fleetID)
	if err != nil {
		return nil, err
	}
	if before.State != after.State {
		moved := event.Event{SubjectKind: SubjectFleet, SubjectID: fleetID, Type: "fleet." + after.State, From: before.State, To: after.State}
		if _, err := r.Events.Append(ctx, tx, moved); err != nil {
			return nil, err
		}
	}
	if err := r.Trail.Record(ctx, tx, "fleet.update", SubjectFleet, fleetID,
		map[string]any{"name": after.Name, "state": after.State, "pools": after.Pools}); err != nil {
		return nil, err
	}
	return after, pg.Notify(ctx, tx, db.QueueTopic)
}

// Delete removes a fleet in tx. The streams of its nodes end at their next check, and their certificates are no
// longer renewed.
func (r *Registrar) Delete(ctx context.Context, tx pgx.Tx, fleetID string) error {
	nodes, err := r.Store.Delete(ctx, tx, fleetID)
	if err != nil {
		return err
	}
	if err := r.Store.RemoveUnservedPools(ctx, tx); err != nil {
		return err
	}
	for _, id := range nodes {
		if err := pg.Notify(ctx, tx, db.NodeTopic(id)); err != nil {
			return err
		}
	}
	if _, err := r.Events.Append(ctx, tx, event.Event{SubjectKind: SubjectFleet, SubjectID: fleetID, Type: "fleet.deleted"}); err != nil {
		return err
	}
	return r.Trail.Record(ctx, tx, "fleet.delete", SubjectFleet, fleetID, map[string]any{"nodes": len(nodes)})
}

// Revoke revokes a join token in tx.
func (r *Registrar) Revoke(ctx context.Context, tx pgx.Tx, fleetID, tokenID string) error {
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return err
	}
	first, err := r.Store.RevokeToken(ctx, tx, fleetID, tokenID, now)
	if err != nil || !first {
		return err
	}
	return r.Trail.Record(ctx, tx, "join_token.revoke", SubjectFleet, fleetID, map[string]any{"join_token_id": tokenID})
}

// Joined is the response to a node that joins or renews its certificate.
type Joined struct {
	NodeID         string
	CertPEM, CAPEM []byte
}

// Join admits a node to the token's fleet. A use of the token is counted only if everything else succeeds.
func (r *Registrar) Join(ctx context.Context, token, hostname string, request []byte, inv Inventory) (*Joined, error) {
	hash, ok := secret.Parse(secret.KindFleetJoin, token)
	if !ok {
		return nil, errJoin()
	}
	var joined *Joined
	err := pg.InTx(ctx, r.Pool, func(ctx context.Context, tx pgx.Tx) error {
		now, err := pg.Now(ctx, tx)
		if err != nil {
			return err
		}
		fleetID, tokenID, err := r.Store.UseToken(ctx, tx, hash, now)
		if err != nil {
			return err
		}
		n := &Node{
			ID: r.IDs.New(id.Node), FleetID: fleetID, Name: hostname, State: NodeJoining,
			Inventory: inv, SlotsTotal: inv.Slots(r.Slots), JoinedAt: now,
		}
		if err := r.Store.InsertNode(ctx, tx, n); err != nil {
			return err
		}
		if joined, err = r.sign(n.ID, request); err != nil {
			return err
		}
		if _, err := r.Events.Append(ctx, tx, event.Event{SubjectKind: SubjectNode, SubjectID: n.ID, Type: "node.joining", To: NodeJoining}); err != nil {
			return err
		}
		return r.Trail.Record(ctx, tx, "node.join", SubjectNode, n.ID,
			map[string]any{"fleet_id": fleetID, "join_token_id": tokenID, "hostname": hostname})
	})
	return joined, err
}

// Renew issues a new certificate to a node that authenticated with its current one.
func (r *Registrar) Renew(ctx context.Context, nodeID string, request []byte) (*Joined, error) {
	var renewed *Joined
	err := pg.InTx(ctx, r.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := r.Store.Session(ctx, tx, nodeID); err != nil {
			return err // a removed node gets no new certificate
		}
		var err error
		if renewed, err = r.sign(nodeID, request); err != nil {
			return err
		}
		return r.Trail.Record(ctx, tx, "node.renew", SubjectNode, nodeID, nil)
	})
	return renewed, err
}

func (r *Registrar) sign(nodeID string, request []byte) (*Joined, error) {
	cert, ca, err := r.CA.SignNode(request, nodeID)
	if err != nil {
		return nil, fault.New(fault.Refused, "certificate_request", "the certificate request cannot be signed").Wrap(err)
	}
	return &Joined{NodeID: nodeID, CertPEM: cert, CAPEM: ca}, nil
}

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
)

// CA signs the certificates that nodes prove themselves with.
type CA interface {
	SignNode(requestPEM []byte, nodeID string) (certPEM, caPEM []byte, err error)
}

// Trail writes audit rows.
type Trail interface {
	Record(ctx context.Context, tx pgx.Tx, action, kind, target string, after any) error
}

// Registrar makes fleets and lets nodes join them.
type Registrar struct {
	Pool   *pgxpool.Pool
	Store  Store
	Clock  clock.Clock
	IDs    *id.Source
	Rand   io.Reader
	CA     CA
	Events *event.Log
	Trail  Trail
	Slots  int
}

// Create registers a fleet in tx.
func (r *Registrar) Create(ctx context.Context, tx pgx.Tx, name, kind string, pools []string) (*Fleet, error) {
	f := &Fleet{ID: r.IDs.New(id.Fleet), Name: name, Kind: kind, State: Active, Pools: pools, CreatedAt: r.Clock.Now()}
	if err := r.Store.Insert(ctx, tx, f); err != nil {
		return nil, err
	}
	if _, err := r.Events.Append(ctx, tx, event.Event{SubjectKind: "fleet", SubjectID: f.ID, Type: "fleet.created", To: Active}); err != nil {
		return nil, err
	}
	return f, r.Trail.Record(ctx, tx, "fleet.create", "fleet", f.ID, map[string]any{"name": name, "kind": kind, "pools": pools})
}

// Mint makes a join token in tx.
func (r *Registrar) Mint(ctx context.Context, tx pgx.Tx, fleetID string, ttl time.Duration, uses int) (*JoinToken, secret.String, error) {
	tok, err := secret.Mint(r.Rand, secret.KindFleetJoin)
	if err != nil {
		return nil, tok, err
	}
	now, err := pg.Now(ctx, tx)
	if err != nil {
		return nil, tok, err
	}
	t := &JoinToken{ID: r.IDs.New(id.JoinToken), FleetID: fleetID, MaxUses: uses, ExpiresAt: now.Add(ttl)}
	if err := r.Store.InsertToken(ctx, tx, t, secret.Hash(tok.Reveal()), now); err != nil {
		return nil, tok, err
	}
	return t, tok, r.Trail.Record(ctx, tx, "join_token.create", "fleet", fleetID,
		map[string]any{"join_token_id": t.ID, "max_uses": uses, "expires_at": t.ExpiresAt})
}

// Joined is what a node gets for its join token, and again when it renews its certificate.
type Joined struct {
	NodeID         string
	CertPEM, CAPEM []byte
}

// Join lets a node into the fleet of its token. The token is used only if everything else succeeds.
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

// Renew makes a new certificate for a node that has proved itself with its present one.
func (r *Registrar) Renew(ctx context.Context, nodeID string, request []byte) (*Joined, error) {
	var renewed *Joined
	err := pg.InTx(ctx, r.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := r.Store.Session(ctx, tx, nodeID); err != nil {
			return err // A node that was removed gets no further certificate.
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

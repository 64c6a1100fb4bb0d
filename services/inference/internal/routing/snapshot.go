// Package routing owns what this replica may serve: the state that the registry sends, which is valid only while the
// replica has a lease. A lookup takes no lock and reads no database. The first state arrives in parts; afterwards the
// registry sends only changes. A new state is acknowledged only after the tokens that it does not contain are refused
// and their open calls have ended. A replica without contact with the registry serves until its lease expires, and then
// refuses all calls. When a replica stops, it releases its lease last. When it starts, it releases the leases of killed
// processes that used its folder.
package routing

import (
	"cmp"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Deployment is a deployment as this replica serves it.
type Deployment struct {
	ID        string
	Suspended bool
	// Cut means that open calls are cut when the deployment is suspended.
	Cut bool
	// Promoted is nil if no revision is promoted.
	Promoted   *Revision
	OwnerID    string
	ProjectID  string
	Visibility string
}

// Revision is the promoted revision of a deployment.
type Revision struct {
	ID       string
	Number   int32
	Ready    bool
	Reason   string
	Replicas []*Replica
	// Task and Model are what a probe of an engine requests.
	Task, Model string
}

// Replica is one engine of a revision.
type Replica struct {
	ID      string
	Address string
	// NodeID is the node whose identity the peer must prove if Address is https.
	NodeID string
	APIKey secret.String
	// FirstByte and Idle are how long calls wait for the first byte of the engine's response, and between its bytes; 0
	// for the settings of the service.
	FirstByte, Idle time.Duration
}

// ReadReplica returns the replica in a message of the registry.
func ReadReplica(in *registrypeerv1.ServedReplica) *Replica {
	return &Replica{
		ID: in.GetId(), Address: in.GetAddress(), NodeID: in.GetNodeId(), APIKey: secret.New(in.GetApiKey()),
		FirstByte: time.Duration(in.GetFirstByteS()) * time.Second, Idle: time.Duration(in.GetIdleS()) * time.Second,
	}
}

// Token is a deployment token; snapshots store only its hash.
type Token struct {
	ID           string
	Name         string
	DeploymentID string
}

// hash is a token's SHA-256.
type hash [32]byte

// snapshot is the state that a replica serves. Lookups take no lock. Only Lease.apply changes it, one row at a time: a
// lookup during a change may see a row that belongs to the next epoch.
type snapshot struct {
	epoch       atomic.Int64
	deployments sync.Map // the *Deployment of each id
	tokens      sync.Map // the *Token of each hash
}

func (s *snapshot) deployment(id string) (*Deployment, bool) {
	found, ok := s.deployments.Load(id)
	d, _ := found.(*Deployment)
	return d, ok
}

// each calls fn for every deployment.
func (s *snapshot) each(fn func(*Deployment)) {
	s.deployments.Range(func(_, found any) bool {
		if d, ok := found.(*Deployment); ok {
			fn(d)
		}
		return true
	})
}

func (s *snapshot) token(h hash) (*Token, bool) {
	found, ok := s.tokens.Load(h)
	t, _ := found.(*Token)
	return t, ok
}

// change makes the changes in one message of the registry.
func (s *snapshot) change(in *registrypeerv1.Snapshot) error {
	for _, d := range in.GetDeployments() {
		s.deployments.Store(d.GetId(), &Deployment{
			ID: d.GetId(), Suspended: d.GetSuspended(), Cut: d.GetCut(), Promoted: readRevision(d.GetPromoted()),
			OwnerID: d.GetOwnerId(), ProjectID: d.GetProjectId(), Visibility: d.GetVisibility(),
		})
		if err := s.add(d.GetTokens(), d.GetId()); err != nil {
			return err
		}
	}
	if err := s.add(in.GetTokens(), ""); err != nil {
		return err
	}
	for _, id := range in.GetDeletedDeploymentIds() {
		s.deployments.Delete(id)
	}
	for _, h := range in.GetRevokedHashes() {
		if len(h) != len(hash{}) {
			return fmt.Errorf("the hash of a revoked token has %d bytes, want %d", len(h), len(hash{}))
		}
		s.tokens.Delete(hash(h))
	}
	return nil
}

// add adds tokens. A token that names no deployment belongs to the deployment with the given id.
func (s *snapshot) add(tokens []*registrypeerv1.ServedToken, deploymentID string) error {
	for _, t := range tokens {
		if len(t.GetHash()) != len(hash{}) {
			return fmt.Errorf("the hash of token %s has %d bytes, want %d", t.GetId(), len(t.GetHash()), len(hash{}))
		}
		s.tokens.Store(hash(t.GetHash()), &Token{ID: t.GetId(), Name: t.GetName(), DeploymentID: cmp.Or(t.GetDeploymentId(), deploymentID)})
	}
	return nil
}

func readRevision(in *registrypeerv1.ServedRevision) *Revision {
	if in == nil {
		return nil
	}
	r := &Revision{ID: in.GetId(), Number: in.GetNumber(), Ready: in.GetReady(), Reason: in.GetReason(), Task: in.GetTask(), Model: in.GetModel()}
	for _, rep := range in.GetReplicas() {
		r.Replicas = append(r.Replicas, ReadReplica(rep))
	}
	return r
}

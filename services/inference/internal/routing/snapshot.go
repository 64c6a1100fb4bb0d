// Package routing owns what this replica may serve: the registry's snapshot, which is valid only while the replica
// has a lease. A lookup takes no lock and reads no database. A new snapshot is acknowledged only after the tokens that
// it does not contain are refused and their open calls have ended. A replica without contact to the registry serves
// until its lease expires, and then refuses all calls. When a replica stops, it releases its lease last. When it
// starts, it releases the leases of killed processes that used its folder.
package routing

import (
	"fmt"

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
}

// Replica is one engine of a revision.
type Replica struct {
	ID      string
	Address string
	// NodeID is the node whose identity the peer must prove if Address is https.
	NodeID string
	APIKey secret.String
}

// Token is a deployment token; snapshots store only its hash.
type Token struct {
	ID           string
	Name         string
	DeploymentID string
}

// hash is a token's SHA-256.
type hash [32]byte

// snapshot is the content of one epoch. It is immutable.
type snapshot struct {
	epoch       int64
	deployments map[string]*Deployment
	tokens      map[hash]*Token
}

// read converts the registry's message to a snapshot.
func read(epoch int64, in *registrypeerv1.Snapshot) (*snapshot, error) {
	s := &snapshot{epoch: epoch, deployments: map[string]*Deployment{}, tokens: map[hash]*Token{}}
	for _, d := range in.GetDeployments() {
		s.deployments[d.GetId()] = &Deployment{
			ID: d.GetId(), Suspended: d.GetSuspended(), Cut: d.GetCut(), Promoted: readRevision(d.GetPromoted()),
			OwnerID: d.GetOwnerId(), ProjectID: d.GetProjectId(), Visibility: d.GetVisibility(),
		}
		for _, t := range d.GetTokens() {
			if len(t.GetHash()) != len(hash{}) {
				return nil, fmt.Errorf("the hash of token %s has %d bytes, want %d", t.GetId(), len(t.GetHash()), len(hash{}))
			}
			s.tokens[hash(t.GetHash())] = &Token{ID: t.GetId(), Name: t.GetName(), DeploymentID: d.GetId()}
		}
	}
	return s, nil
}

func readRevision(in *registrypeerv1.ServedRevision) *Revision {
	if in == nil {
		return nil
	}
	r := &Revision{ID: in.GetId(), Number: in.GetNumber(), Ready: in.GetReady(), Reason: in.GetReason()}
	for _, rep := range in.GetReplicas() {
		r.Replicas = append(r.Replicas, &Replica{
			ID: rep.GetId(), Address: rep.GetAddress(), NodeID: rep.GetNodeId(), APIKey: secret.New(rep.GetApiKey()),
		})
	}
	return r
}

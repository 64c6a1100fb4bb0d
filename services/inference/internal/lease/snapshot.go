// Package lease holds what this replica may serve: the registry's snapshot, in force only while its
// lease runs. A lookup takes no lock and asks no database. A token that a snapshot no longer has is dead
// here before the snapshot is acknowledged, its open calls cut; a replica that has lost the registry
// serves until its lease is over and then refuses. A replica that stops gives its lease back as its last
// deed, and that of a process which was killed on its folder before it.
package lease

import (
	"fmt"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Deployment is one deployment as it is served.
type Deployment struct {
	ID        string
	Suspended bool
	// Cut ends the calls that run when it is suspended.
	Cut bool
	// Promoted is nil where nothing is promoted.
	Promoted   *Revision
	OwnerID    string
	ProjectID  string
	Visibility string
}

// Revision is the one that answers.
type Revision struct {
	ID       string
	Number   int32
	Ready    bool
	Reason   string
	Replicas []*Replica
}

// Replica is one engine.
type Replica struct {
	ID      string
	Address string
	// NodeID is the node that an https address must prove to be.
	NodeID string
	APIKey secret.String
}

// Token is a deployment token that was found by its hash.
type Token struct {
	ID           string
	Name         string
	DeploymentID string
}

// hash is a token's SHA-256.
type hash [32]byte

// snapshot is everything of one epoch; it never changes.
type snapshot struct {
	epoch       int64
	deployments map[string]*Deployment
	tokens      map[hash]*Token
}

// read turns the registry's message into a snapshot.
func read(epoch int64, in *registrypeerv1.Snapshot) (*snapshot, error) {
	s := &snapshot{epoch: epoch, deployments: map[string]*Deployment{}, tokens: map[hash]*Token{}}
	for _, d := range in.GetDeployments() {
		s.deployments[d.GetId()] = &Deployment{
			ID: d.GetId(), Suspended: d.GetSuspended(), Cut: d.GetCut(), Promoted: readRevision(d.GetPromoted()),
			OwnerID: d.GetOwnerId(), ProjectID: d.GetProjectId(), Visibility: d.GetVisibility(),
		}
		for _, t := range d.GetTokens() {
			if len(t.GetHash()) != len(hash{}) {
				return nil, fmt.Errorf("the hash of token %s has %d bytes", t.GetId(), len(t.GetHash()))
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

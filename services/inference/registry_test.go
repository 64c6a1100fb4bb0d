package inference_test

import (
	"context"
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// registry is a fake registry with one snapshot, served over the in-process network.
type registry struct {
	registrypeerv1.UnimplementedSnapshotServiceServer

	mu      sync.Mutex
	epoch   int64
	current *registrypeerv1.Snapshot
	stored  map[string]*registrypeerv1.DeploymentOwner // by deployment, deleted ones included
	lease   time.Duration
	down    bool
	acked   int64
	changed chan struct{}
	opened  int
	// replaced receives the reports on hung engines.
	replaced chan *registrypeerv1.ReplaceEngineRequest
}

func newRegistry() *registry {
	return &registry{
		replaced: make(chan *registrypeerv1.ReplaceEngineRequest, 100),
		lease:    10 * time.Minute, changed: make(chan struct{}), stored: map[string]*registrypeerv1.DeploymentOwner{},
	}
}

// ReplaceEngine implements SnapshotService.
func (r *registry) ReplaceEngine(_ context.Context, in *registrypeerv1.ReplaceEngineRequest) (*registrypeerv1.ReplaceEngineResponse, error) {
	r.replaced <- in
	return &registrypeerv1.ReplaceEngineResponse{Replaced: true}, nil
}

// GetDeploymentOwner implements SnapshotService.
func (r *registry) GetDeploymentOwner(
	_ context.Context, in *registrypeerv1.GetDeploymentOwnerRequest,
) (*registrypeerv1.DeploymentOwner, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if o := r.stored[in.GetDeploymentId()]; o != nil {
		return o, nil
	}
	return nil, fault.Absentf("deployment", in.GetDeploymentId())
}

// change modifies the registry under its lock and notifies all streams.
func (r *registry) change(f func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f()
	close(r.changed)
	r.changed = make(chan struct{})
}

// push makes a snapshot the current one and returns its epoch.
func (r *registry) push(deployments ...*registrypeerv1.ServedDeployment) int64 {
	var epoch int64
	r.change(func() {
		r.epoch++
		epoch = r.epoch
		r.current = &registrypeerv1.Snapshot{Deployments: deployments}
		for _, d := range deployments {
			r.stored[d.GetId()] = &registrypeerv1.DeploymentOwner{OwnerId: d.GetOwnerId(), ProjectId: d.GetProjectId(), Visibility: d.GetVisibility()}
		}
	})
	return epoch
}

// await waits until the replica has acknowledged the epoch.
func (r *registry) await(t *testing.T, epoch int64) {
	t.Helper()
	r.awaitThat(t, func() bool { return r.acked >= epoch })
}

// awaitThat waits until the given condition is true. It evaluates the condition under the lock.
func (r *registry) awaitThat(t *testing.T, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		r.mu.Lock()
		ok, changed := condition(), r.changed
		r.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			require.FailNow(t, "the replica did not reach the expected state")
		}
	}
}

func (r *registry) Watch(s registrypeerv1.SnapshotService_WatchServer) error {
	requests := make(chan *registrypeerv1.WatchRequest)
	go func() {
		defer close(requests)
		for {
			in, err := s.Recv()
			if err != nil {
				return
			}
			select {
			case requests <- in:
			case <-s.Context().Done():
				return
			}
		}
	}()
	r.change(func() { r.opened++ })
	sent := int64(0)
	for {
		r.mu.Lock()
		epoch, current, lease, down, changed := r.epoch, r.current, r.lease, r.down, r.changed
		r.mu.Unlock()
		if down {
			return status.Error(codes.Unavailable, "the registry is unavailable")
		}
		if epoch > sent {
			if err := s.Send(&registrypeerv1.WatchResponse{Epoch: epoch, Snapshot: current}); err != nil {
				return err
			}
			sent = epoch
			continue
		}
		select {
		case in, ok := <-requests:
			if !ok {
				return nil
			}
			r.change(func() { r.acked = in.GetAckedEpoch() })
			if in.GetRenewal() == 0 {
				continue
			}
			err := s.Send(&registrypeerv1.WatchResponse{Epoch: sent, Renewed: in.GetRenewal(), Lease: durationpb.New(lease)})
			if err != nil {
				return err
			}
		case <-changed:
		}
	}
}

// served returns a deployment whose promoted revision is ready and runs on the given engines.
func served(deployment string, tokens []*registrypeerv1.ServedToken, engines ...*engine) *registrypeerv1.ServedDeployment {
	d := &registrypeerv1.ServedDeployment{
		Id: deployment, Tokens: tokens, OwnerId: "usr_1", ProjectId: "prj_1", Visibility: "all",
		Promoted: &registrypeerv1.ServedRevision{Id: "rev_1", Number: 1, Ready: true},
	}
	for _, e := range engines {
		d.Promoted.Replicas = append(d.Promoted.Replicas, &registrypeerv1.ServedReplica{
			Id: "rep_" + e.addr, Address: "http://" + e.addr, ApiKey: engineKey,
		})
	}
	return d
}

const engineKey = "the-engines-own-key"

// token is a deployment token and its entry in the snapshot.
type token struct {
	text   string
	served *registrypeerv1.ServedToken
}

func newToken(t *testing.T, name string) token {
	t.Helper()
	minted, err := secret.Mint(rand.Reader, secret.KindDeployment)
	require.NoError(t, err)
	text := minted.Reveal()
	return token{text: text, served: &registrypeerv1.ServedToken{Id: "tok_" + name, Name: name, Hash: secret.Hash(text)}}
}

func list(tokens ...token) []*registrypeerv1.ServedToken {
	out := make([]*registrypeerv1.ServedToken, 0, len(tokens))
	for _, t := range tokens {
		out = append(out, t.served)
	}
	return out
}

package auth

import (
	"context"
	"time"

	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/services/auth/internal/key"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

const (
	// rotateEvery is the interval at which a replica checks whether a key is due for rotation.
	rotateEvery  = 5 * time.Minute
	rotateJitter = time.Minute
	// callerLife is longer than the time for which verifiers accept a caller identity: 60 s plus their leeway.
	callerLife = 2 * time.Minute
)

// openKeys loads the signing keys, or creates them at the first start.
func openKeys(ctx context.Context, cfg Config, d Deps, trail *audit.Log) (*key.Rotation, error) {
	ring, err := key.NewRing(ctx, &key.Store{Pool: d.Pool, Keyring: d.Keyring, Clock: d.Clock, Rand: d.Rand})
	if err != nil {
		return nil, err
	}
	return &key.Rotation{
		Ring: ring, Audit: trail, Every: time.Duration(cfg.KeyDays) * 24 * time.Hour,
		Lives: map[key.Purpose]time.Duration{
			key.Access: max(cfg.accessLife(), session.GrantTTL), key.Caller: callerLife,
		},
	}, nil
}

// Keys returns the public keys of caller identities. Auth's own server calls it instead of an RPC.
func (s *Service) Keys(ctx context.Context) ([]authn.PublicKey, error) {
	return s.keys.Ring.Of(key.Caller).Public(ctx)
}

func (s *Service) registerKeys(r grpc.ServiceRegistrar) {
	authv1.RegisterKeyServiceServer(r, &key.Server{Rotation: s.keys})
}

// rotating returns the loop that replaces keys that are due for rotation.
func (s *Service) rotating() process.Worker {
	return process.Worker{Name: "auth.key-rotation", Run: func(ctx context.Context) error {
		return process.Loop(ctx, s.deps.Clock, rotateEvery, rotateJitter, process.Logged(s.deps.Log, "auth.key-rotation", s.keys.Run))
	}}
}

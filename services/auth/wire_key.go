package auth

import (
	"context"
	"time"

	"google.golang.org/grpc"

	authv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/run"
	"github.com/signalbox-dev/signalbox/services/auth/internal/key"
	"github.com/signalbox-dev/signalbox/services/auth/internal/session"
)

const (
	// rotateEvery is how often a replica looks whether a key is of age.
	rotateEvery  = 5 * time.Minute
	rotateJitter = time.Minute
	// callerLife is how long a caller identity may hold.
	callerLife = 2 * time.Minute
)

// openKeys reads the signing keys, and makes them at the first start.
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

// Keys answers the caller keys without a hop, for auth's own server.
func (s *Service) Keys(ctx context.Context) ([]authn.PublicKey, error) {
	return s.keys.Ring.Of(key.Caller).Public(ctx)
}

func (s *Service) registerKeys(r grpc.ServiceRegistrar) {
	authv1.RegisterKeyServiceServer(r, &key.Server{Rotation: s.keys})
}

// rotating is the loop that gives keys of age their successors.
func (s *Service) rotating() run.Worker {
	return run.Worker{Name: "auth.key-rotation", Run: func(ctx context.Context) error {
		return run.Loop(ctx, s.deps.Clock, rotateEvery, rotateJitter, run.Logged(s.deps.Log, "auth.key-rotation", s.keys.Run))
	}}
}

package boot

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/run"
)

// Sealing is how the audit of a process's schemas is sealed.
type Sealing struct {
	Key authn.SigningKey
	// Dir keeps the signed heads, a file a service.
	Dir string
}

// OpenSealing reads the settings; both are needed, because a log that its database's master can rewrite
// proves nothing.
func OpenSealing(a Audit) (Sealing, error) {
	if a.Key.IsZero() || a.Dir == "" {
		return Sealing{}, errors.New("SERVICE_AUDIT_KEY and SERVICE_AUDIT_DIR must be set")
	}
	seed, err := base64.StdEncoding.DecodeString(a.Key.Reveal())
	if err != nil || len(seed) != ed25519.SeedSize {
		return Sealing{}, fmt.Errorf("SERVICE_AUDIT_KEY: want base64 of %d bytes", ed25519.SeedSize)
	}
	key, err := authn.SigningKeyFromSeed(seed)
	if err != nil {
		return Sealing{}, fmt.Errorf("SERVICE_AUDIT_KEY: %w", err)
	}
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return Sealing{}, fmt.Errorf("make SERVICE_AUDIT_DIR: %w", err)
	}
	return Sealing{Key: key, Dir: a.Dir}, nil
}

// sealer is the worker that seals the audit of the Env's schema.
func (e *Env) sealer() (run.Worker, error) {
	s, err := audit.NewSealer(audit.SealerConfig{
		Service: e.Name, Pool: e.Pool, Clock: e.Clock, Log: e.Log, Key: e.Sealing.Key.Private, KeyID: e.Sealing.Key.ID,
		Keep: audit.NewFile(filepath.Join(e.Sealing.Dir, e.Name+".jsonl")),
	})
	if err != nil {
		return run.Worker{}, fmt.Errorf("make the %s sealer: %w", e.Name, err)
	}
	return run.Worker{Name: e.Name + ".audit", Run: s.Run}, nil
}

package boot

import (
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/internal/auditpeer"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/process"
	"github.com/signalbox-dev/signalbox/platform/retention"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Sealing holds the keys that sign the audit log of a process's schemas, and the folder that stores the signed heads.
type Sealing struct {
	Key authn.SigningKey
	// Keys are the public keys of Key and of all earlier keys, by ID. They verify the signed heads.
	Keys map[string]ed25519.PublicKey
	// Dir is the folder of the signed heads and the revocation journals. It has one file and some folders per service.
	Dir string
	// RevocationAge is how long revocations are kept in the journals and in the database; 0 keeps them forever.
	RevocationAge time.Duration
}

// OpenSealing parses the settings and creates the folder. Both settings are required: without them a database
// administrator could change the audit log unnoticed.
func OpenSealing(a Audit) (Sealing, error) {
	if a.Key.IsZero() || a.Dir == "" {
		return Sealing{}, errors.New("SERVICE_AUDIT_KEY and SERVICE_AUDIT_DIR must be set")
	}
	s := Sealing{Keys: map[string]ed25519.PublicKey{}, Dir: a.Dir, RevocationAge: retention.Days(a.RevocationDays)}
	for n, text := range strings.Fields(a.Key.Reveal()) {
		key, err := sealingKey(text)
		if err != nil {
			return Sealing{}, err
		}
		if n == 0 {
			s.Key = key
		}
		s.Keys[key.ID] = key.Public().Key
	}
	if err := os.MkdirAll(a.Dir, 0o700); err != nil {
		return Sealing{}, fmt.Errorf("create SERVICE_AUDIT_DIR: %w", err)
	}
	return s, nil
}

// sealingKey parses one seed. It rejects seeds that do not look random, such as those copied from an example.
func sealingKey(text string) (authn.SigningKey, error) {
	seed, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(seed) != ed25519.SeedSize {
		return authn.SigningKey{}, fmt.Errorf("SERVICE_AUDIT_KEY: each key must be the base64 of %d bytes", ed25519.SeedSize)
	}
	if !secret.LooksRandom(seed) {
		return authn.SigningKey{}, errors.New("SERVICE_AUDIT_KEY looks like an example key; replace it with random bytes")
	}
	key, err := authn.SigningKeyFromSeed(seed)
	if err != nil {
		return authn.SigningKey{}, fmt.Errorf("SERVICE_AUDIT_KEY: %w", err)
	}
	return key, nil
}

// AuditPeer returns the server that serves the audit log of the Env's schema to auth.
func (e *Env) AuditPeer() *auditpeer.Server {
	return &auditpeer.Server{Service: e.Name, Pool: e.Pool, Keys: e.Sealing.Keys, Heads: e.heads(), Clock: e.Clock}
}

// heads returns the file that stores the signed heads outside the database.
func (e *Env) heads() *audit.File {
	return audit.NewFile(filepath.Join(e.Sealing.Dir, e.Name+".jsonl"))
}

// sealer returns the worker that seals the audit log of the Env's schema.
func (e *Env) sealer() (process.Worker, error) {
	s, err := audit.NewSealer(audit.SealerConfig{
		Service: e.Name, Pool: e.Pool, Clock: e.Clock, Log: e.Log, Key: e.Sealing.Key.Private, KeyID: e.Sealing.Key.ID,
		Heads: e.heads(),
	})
	if err != nil {
		return process.Worker{}, fmt.Errorf("create the %s sealer: %w", e.Name, err)
	}
	return process.Worker{Name: e.Name + ".audit", Run: s.Run}, nil
}

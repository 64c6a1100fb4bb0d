package allinone

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/internal/boot"
	"github.com/signalbox-dev/signalbox/platform/localfile"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// folder is the data folder. One process holds it at a time.
type folder struct {
	path string
	hold *localfile.FolderLock
}

// openFolder creates the folder and takes its lock. If another process holds it, the error names that process.
func openFolder(path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	held, err := localfile.LockFolder(filepath.Join(path, "lock"))
	if taken, ok := errors.AsType[*localfile.FolderLockedError](err); ok {
		return nil, fmt.Errorf("the data folder %s is in use by another signalboxd%s; use or stop that one, or choose another folder with --data",
			path, taken.Holder)
	}
	if err != nil {
		return nil, fmt.Errorf("lock the data folder: %w", err)
	}
	return &folder{path: path, hold: held}, nil
}

// close releases the folder.
func (f *folder) close() error { return f.hold.Close() }

func (f *folder) in(names ...string) string {
	return filepath.Join(append([]string{f.path}, names...)...)
}

// keep returns the secret with the given name, which has the given number of random bytes. The first start generates
// the secret and saves it in its own file.
func (f *folder) keep(name string, size int) (secret.String, error) {
	path := f.in("keys", name)
	if raw, err := os.ReadFile(path); err == nil {
		return secret.New(string(raw)), nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return secret.String{}, fmt.Errorf("read %s: %w", path, err)
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return secret.String{}, fmt.Errorf("generate %s: %w", name, err)
	}
	text := base64.StdEncoding.EncodeToString(raw)
	if err := pki.WriteFile(path, []byte(text)); err != nil {
		return secret.String{}, fmt.Errorf("save %s: %w", name, err)
	}
	return secret.New(text), nil
}

// keys are the secrets that an installation needs even if none are configured.
type keys struct {
	ring  *secret.Keyring
	audit secret.String
	blobs secret.String
	ca    *pki.CA
}

func (f *folder) keys(now time.Time) (keys, error) {
	if err := os.MkdirAll(f.in("keys"), 0o700); err != nil {
		return keys{}, fmt.Errorf("create the folder for keys: %w", err)
	}
	ring, err := secret.LoadOrCreateKeyring(f.in("keys", "keyring"))
	if err != nil {
		return keys{}, fmt.Errorf("open the keyring: %w", err)
	}
	audit, err := f.keep("audit", ed25519.SeedSize)
	if err != nil {
		return keys{}, err
	}
	blobs, err := f.keep("blobs", 32)
	if err != nil {
		return keys{}, err
	}
	ca, err := f.authority(now)
	if err != nil {
		return keys{}, err
	}
	return keys{ring: ring, audit: audit, blobs: blobs, ca: ca}, nil
}

// override replaces keys of the folder with those that the settings name.
func (k *keys) override(s boot.Settings) error {
	if !s.Keyring.IsZero() {
		ring, err := secret.ParseKeyring(s.Keyring)
		if err != nil {
			return fmt.Errorf("SERVICE_KEYRING: %w", err)
		}
		k.ring = ring
	}
	if !s.Audit.Key.IsZero() {
		k.audit = s.Audit.Key
	}
	return nil
}

// authority loads or creates the internal CA, which signs the certificates of nodes and of the services that talk to
// them over TLS.
func (f *folder) authority(now time.Time) (*pki.CA, error) {
	dir := f.in("keys", "ca")
	ca, err := pki.LoadCA(dir)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return ca, err
	}
	if ca, err = pki.NewCA(now, pki.DefaultCALife); err != nil {
		return nil, fmt.Errorf("create the internal CA: %w", err)
	}
	return ca, ca.Save(dir)
}

package single

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// folder is the data folder, held by one process at a time.
type folder struct {
	path string
	lock *os.File
}

// openFolder makes the folder and takes it, or says who has it.
func openFolder(path string) (*folder, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find the data folder: %w", err)
	}
	if err := os.MkdirAll(path, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open the data folder's lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("the data folder %s is in use by another signalboxd", path)
	}
	return &folder{path: path, lock: lock}, nil
}

// close lets the folder go. The lock is released by name, because a child that was forked a moment ago
// may still hold the file.
func (f *folder) close() error {
	return errors.Join(syscall.Flock(int(f.lock.Fd()), syscall.LOCK_UN), f.lock.Close())
}

func (f *folder) in(names ...string) string {
	return filepath.Join(append([]string{f.path}, names...)...)
}

// keep answers a secret of so many random bytes, drawn at the first start and kept in a file of its own.
func (f *folder) keep(name string, size int) (secret.String, error) {
	path := f.in("keys", name)
	if raw, err := os.ReadFile(path); err == nil {
		return secret.New(string(raw)), nil
	} else if !errors.Is(err, os.ErrNotExist) {
		return secret.String{}, fmt.Errorf("read %s: %w", path, err)
	}
	raw := make([]byte, size)
	if _, err := io.ReadFull(rand.Reader, raw); err != nil {
		return secret.String{}, fmt.Errorf("draw %s: %w", name, err)
	}
	text := base64.StdEncoding.EncodeToString(raw)
	if err := pki.WriteFile(path, []byte(text)); err != nil {
		return secret.String{}, fmt.Errorf("keep %s: %w", name, err)
	}
	return secret.New(text), nil
}

// keys are the secrets of an installation that nobody configured.
type keys struct {
	ring  *secret.Keyring
	audit secret.String
	blobs secret.String
	ca    *pki.CA
}

func (f *folder) keys(now time.Time) (keys, error) {
	if err := os.MkdirAll(f.in("keys"), 0o700); err != nil {
		return keys{}, fmt.Errorf("make the folder of keys: %w", err)
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

// authority is the internal CA, which signs the certificates of nodes that join from outside.
func (f *folder) authority(now time.Time) (*pki.CA, error) {
	dir := f.in("keys", "ca")
	ca, err := pki.LoadCA(dir)
	if err == nil || !errors.Is(err, os.ErrNotExist) {
		return ca, err
	}
	if ca, err = pki.NewCA(now, pki.DefaultCALife); err != nil {
		return nil, fmt.Errorf("make the internal CA: %w", err)
	}
	return ca, ca.Save(dir)
}

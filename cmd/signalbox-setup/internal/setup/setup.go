// Package setup creates the files that separate services start from. Every step keeps existing files, so that an
// interrupted setup can be run again. Only certificates are replaced: those that are invalid or in the last third of
// their life. The running services then load the new ones. Only the owner of a secret can write it. The owner can read
// it and, if the installation's groups are given, so can the processes that need it.
package setup

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/pg/migrate"
	"github.com/signalbox-dev/signalbox/platform/rpc/pki"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Setup creates one installation's folder.
type Setup struct {
	Dir   string
	Clock clock.Clock
	// Readers are the groups of the services; nil if one user creates and reads everything.
	Readers *Readers
}

const (
	urlSuffix      = ".database-url"
	ownerURLSuffix = ".database-owner-url"
)

// Schemas returns the services that have a database schema.
func Schemas() []string { return []string{"auth", "jobs", "ingest", "registry", "inference"} }

// Identities returns the processes that have a certificate.
func Identities() []string { return append(Schemas(), "gateway") }

func (s Setup) in(names ...string) string { return filepath.Join(append([]string{s.Dir}, names...)...) }

// Certs creates the CA and certificates if they are missing, and renews certificates that expire soon.
func (s Setup) Certs() error { return s.step(s.certs) }

// Secrets creates the secrets that are missing.
func (s Setup) Secrets() error { return s.step(s.secrets) }

// Database creates the database, its schemas and roles, and writes the URL of each role. It reads the URL of the role
// that creates them from the given file, and first creates the secrets that are missing.
func (s Setup) Database(ctx context.Context, adminFile, name string) error {
	return s.step(func() error { return s.database(ctx, adminFile, name) })
}

// step creates files and lets their readers read them.
func (s Setup) step(files func() error) error {
	if err := s.agree(); err != nil {
		return err
	}
	if err := files(); err != nil {
		return err
	}
	return s.share()
}

func (s Setup) certs() error {
	now := s.Clock.Now()
	ca, err := pki.LoadCA(s.in("ca"))
	if errors.Is(err, os.ErrNotExist) {
		if ca, err = pki.NewCA(now, pki.DefaultCALife); err == nil {
			err = ca.Save(s.in("ca"))
		}
	}
	if err != nil {
		return fmt.Errorf("create the internal CA: %w", err)
	}
	if err := pki.WriteFile(s.in("tls", "ca.pem"), ca.CertPEM()); err != nil {
		return fmt.Errorf("write the CA's certificate: %w", err)
	}
	for _, name := range Identities() {
		if s.holds(name, now) {
			continue
		}
		pair, err := ca.IssueService(name, now, pki.DefaultServiceLife)
		if err != nil {
			return fmt.Errorf("issue the certificate of %s: %w", name, err)
		}
		if err := pair.Save(s.in("tls"), name); err != nil {
			return fmt.Errorf("write the certificate of %s: %w", name, err)
		}
	}
	return nil
}

// holds reports whether a process's certificate exists, is valid, and has at least a third of its life left.
func (s Setup) holds(name string, now time.Time) bool {
	files, err := pki.OpenFiles(s.in("tls", name+".pem"), s.in("tls", name+"-key.pem"), s.in("tls", "ca.pem"))
	return err == nil && now.Add(pki.DefaultServiceLife/3).Before(files.Current().NotAfter)
}

// signingKeyBytes is the length of the key of signed URLs and of the database seed before they are encoded as text.
const signingKeyBytes = 32

func (s Setup) secrets() error {
	if err := os.MkdirAll(s.in("secrets"), 0o700); err != nil {
		return fmt.Errorf("create the folder for secrets: %w", err)
	}
	if err := s.keyring(); err != nil {
		return fmt.Errorf("create the keyring: %w", err)
	}
	for name, size := range map[string]int{"audit-key": ed25519.SeedSize, "blob-key": signingKeyBytes, "database-seed": signingKeyBytes} {
		if err := s.draw(name, size); err != nil {
			return err
		}
	}
	return nil
}

// keyring creates the keyring, or checks that the existing one is valid. It does not check the mode of the file,
// because its group may be allowed to read it.
func (s Setup) keyring() error {
	path := s.in("secrets", "keyring")
	if !exists(path) {
		_, err := secret.LoadOrCreateKeyring(path)
		return err
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = secret.ParseKeyring(secret.New(string(raw)))
	return err
}

func (s Setup) draw(name string, size int) error {
	path := s.in("secrets", name)
	if exists(path) {
		return nil
	}
	raw := make([]byte, size)
	if _, err := rand.Read(raw); err != nil {
		return fmt.Errorf("generate %s: %w", name, err)
	}
	if err := pki.WriteFile(path, []byte(base64.StdEncoding.EncodeToString(raw))); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

func (s Setup) database(ctx context.Context, adminFile, name string) error {
	raw, err := os.ReadFile(adminFile)
	if err != nil {
		return fmt.Errorf("read the file with the admin's URL: %w", err)
	}
	if err := s.secrets(); err != nil {
		return err
	}
	seed, err := os.ReadFile(s.in("secrets", "database-seed"))
	if err != nil {
		return fmt.Errorf("read the seed of the roles: %w", err)
	}
	access, err := migrate.Bootstrap(ctx, migrate.RoleConfig{
		AdminURL: secret.New(strings.TrimSpace(string(raw))), Database: name, Services: Schemas(), Seed: secret.New(string(seed)),
	})
	if err != nil {
		return fmt.Errorf("prepare the database: %w", err)
	}
	for service, c := range access {
		for file, url := range map[string]secret.String{urlSuffix: c.URL, ownerURLSuffix: c.OwnerURL} {
			if err := pki.WriteFile(s.in("secrets", service+file), []byte(url.Reveal())); err != nil {
				return fmt.Errorf("write the URL of %s: %w", service, err)
			}
		}
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

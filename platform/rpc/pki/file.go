package pki

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
)

const (
	caCertFile = "ca.pem"
	caKeyFile  = "ca-key.pem"
)

// Save writes ca.pem and ca-key.pem into a folder, both with mode 0600. It fails if the folder already contains a CA.
func (ca *CA) Save(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, caKeyFile)); err == nil {
		return fmt.Errorf("%s already contains a CA", dir)
	}
	keyPEM, err := encodeKey(ca.key)
	if err != nil {
		return err
	}
	if err := WriteFile(filepath.Join(dir, caCertFile), ca.CertPEM()); err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, caKeyFile), keyPEM)
}

// LoadCA reads a CA that Save wrote.
func LoadCA(dir string) (*CA, error) {
	certPEM, err := os.ReadFile(filepath.Join(dir, caCertFile))
	if err != nil {
		return nil, fmt.Errorf("read the CA certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(filepath.Join(dir, caKeyFile))
	if err != nil {
		return nil, fmt.Errorf("read the CA key: %w", err)
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parse the CA in %s: %w", dir, err)
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok || !pair.Leaf.IsCA {
		return nil, fmt.Errorf("%s does not contain a CA", dir)
	}
	return &CA{cert: pair.Leaf, key: key}, nil
}

// Save writes NAME.pem and NAME-key.pem into a folder, both with mode 0600.
func (p Pair) Save(dir, name string) error {
	if err := WriteFile(filepath.Join(dir, name+"-key.pem"), p.Key); err != nil {
		return err
	}
	return WriteFile(filepath.Join(dir, name+".pem"), p.Cert)
}

// WriteFile replaces a file atomically. Only the owner can read the file. If the folder does not exist, WriteFile
// creates it with mode 0700.
func WriteFile(path string, data []byte) (err error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of %s: %w", path, err)
	}
	f, err := os.CreateTemp(dir, ".pem-*") // CreateTemp uses mode 0600.
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(f.Name()))
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Identity is the name, certificate and trusted CA of this process.
type Identity struct {
	// Name is the name of a service, such as `jobs`, or `node/<id>`.
	Name string
	// NotAfter is when the certificate expires.
	NotAfter time.Time

	cert  tls.Certificate
	roots *x509.CertPool
}

// Current implements Source for an identity that never changes.
func (i *Identity) Current() *Identity { return i }

// Parse parses an identity from PEM.
func Parse(certPEM, keyPEM, caPEM []byte) (*Identity, error) {
	cert, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("parse the certificate: %w", err)
	}
	name, err := NameOf(cert.Leaf)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	for rest := caPEM; ; {
		var block *pem.Block
		if block, rest = pem.Decode(rest); block == nil {
			break
		}
		root, err := x509.ParseCertificate(block.Bytes)
		if err != nil || !root.IsCA {
			return nil, errors.New("the CA file contains something other than CA certificates")
		}
		roots.AddCert(root)
	}
	if roots.Equal(x509.NewCertPool()) {
		return nil, errors.New("the CA file contains no certificate")
	}
	return &Identity{Name: name, NotAfter: cert.Leaf.NotAfter, cert: cert, roots: roots}, nil
}

// Files is an identity that is stored in three files. It loads a renewed certificate or CA at the next connection,
// without a restart. While the files do not match each other, it uses the old identity.
type Files struct {
	paths [3]string

	mu      sync.Mutex
	stamps  [3]time.Time
	current *Identity
}

// OpenFiles loads an identity from three files.
func OpenFiles(cert, key, ca string) (*Files, error) {
	f := &Files{paths: [3]string{cert, key, ca}}
	if err := f.load(); err != nil {
		return nil, err
	}
	return f, nil
}

// Current returns the identity, after reloading the files if they have changed.
func (f *Files) Current() *Identity {
	f.mu.Lock()
	defer f.mu.Unlock()
	if stamps, err := f.stat(); err == nil && stamps != f.stamps {
		// If the renewal is incomplete, use the old identity; the next connection tries again.
		_ = f.load()
	}
	return f.current
}

func (f *Files) stat() (stamps [3]time.Time, err error) {
	for i, path := range f.paths {
		info, err := os.Stat(path)
		if err != nil {
			return stamps, fmt.Errorf("stat %s: %w", path, err)
		}
		stamps[i] = info.ModTime()
	}
	return stamps, nil
}

func (f *Files) load() error {
	stamps, err := f.stat()
	if err != nil {
		return err
	}
	var text [3][]byte
	for i, path := range f.paths {
		if text[i], err = os.ReadFile(path); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	identity, err := Parse(text[0], text[1], text[2])
	if err != nil {
		return fmt.Errorf("load the identity from %s: %w", f.paths[0], err)
	}
	if f.current != nil && f.current.Name != identity.Name {
		return fmt.Errorf("the certificate in %s now belongs to %s; restart the process to use it", f.paths[0], identity.Name)
	}
	f.stamps, f.current = stamps, identity
	return nil
}

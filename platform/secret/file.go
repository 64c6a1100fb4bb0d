package secret

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// ParseKeyring parses the text form of a keyring, which has one line "<id> <base64 of 32 bytes>" per key. The first
// key encrypts new values. Empty lines and lines that start with # are skipped.
func ParseKeyring(text String) (*Keyring, error) {
	var keys []Key
	n := 0
	for line := range strings.Lines(text.Reveal()) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 {
			return nil, fmt.Errorf("keyring: line %d is not \"<id> <base64>\"", n)
		}
		raw, err := base64.StdEncoding.DecodeString(fields[1])
		if err != nil {
			return nil, fmt.Errorf("keyring: the key in line %d is not base64", n)
		}
		keys = append(keys, Key{ID: fields[0], Bytes: raw})
	}
	return NewKeyring(keys...)
}

// LoadKeyring reads a keyring from a file. It returns an error if the file's mode gives permissions to other users.
func LoadKeyring(path string) (*Keyring, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("check the permissions of the keyring: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("keyring: %s is accessible to other users (mode %v); run chmod 600 on it", path, info.Mode().Perm())
	}
	text, err := os.ReadFile(path) // #nosec G304 -- the path is a setting of the operator
	if err != nil {
		return nil, fmt.Errorf("read the keyring: %w", err)
	}
	ring, err := ParseKeyring(New(string(text)))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return ring, nil
}

// LoadOrCreateKeyring reads the keyring at path. If the file does not exist, it creates one with a random key.
// Concurrent processes all use the same file.
func LoadOrCreateKeyring(path string) (*Keyring, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := createKeyring(path); err != nil {
			return nil, fmt.Errorf("create the keyring: %w", err)
		}
	}
	return LoadKeyring(path)
}

func createKeyring(path string) error {
	var raw [keySize]byte
	var name [4]byte
	_, _ = rand.Read(raw[:])
	_, _ = rand.Read(name[:])
	tmp, err := os.CreateTemp(filepath.Dir(path), ".keyring-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) //nolint:errcheck // the content remains at path after os.Link
	line := fmt.Sprintf("k%s %s\n", hex.EncodeToString(name[:]), base64.StdEncoding.EncodeToString(raw[:]))
	_, err = tmp.WriteString(line)
	if err = errors.Join(err, tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	// Link does not replace an existing file. If another process was faster, its file is used.
	if err = os.Link(tmp.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

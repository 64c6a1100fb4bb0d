package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// FileName is the name of the file with the logins.
const FileName = "credentials.json"

// file is a store in one file, with the mode 0600 in a folder with the mode 0700.
type file struct{ dir string }

// NewFile returns a store in the file credentials.json of a folder. The file and the folder are created with the first
// login.
func NewFile(dir string) Store { return file{dir: dir} }

func (file) Kind() string { return File }

func (f file) path() string { return filepath.Join(f.dir, FileName) }

func (f file) load() (map[string]stored, error) {
	logins := map[string]stored{}
	info, err := os.Stat(f.path())
	if errors.Is(err, fs.ErrNotExist) {
		return logins, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the stored logins: %w", err)
	}
	if info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("other users can read the logins in %s; run: chmod 600 %s", f.path(), f.path())
	}
	if err := localfile.ReadJSON(f.path(), &logins); err != nil {
		return nil, fmt.Errorf("read the stored logins: %w", err)
	}
	return logins, nil
}

func (f file) save(logins map[string]stored) error {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the logins: %w", err)
	}
	if err := localfile.WriteJSON(f.path(), logins, 0o600); err != nil {
		return fmt.Errorf("store the login: %w", err)
	}
	return nil
}

func (f file) Get(context string) (Credential, error) {
	logins, err := f.load()
	if err != nil {
		return Credential{}, err
	}
	s, ok := logins[context]
	if !ok {
		return Credential{}, ErrNone
	}
	return s.credential(), nil
}

func (f file) Set(context string, c Credential) error {
	logins, err := f.load()
	if err != nil {
		return err
	}
	logins[context] = c.stored()
	return f.save(logins)
}

func (f file) Delete(context string) error {
	logins, err := f.load()
	if err != nil {
		return err
	}
	if _, ok := logins[context]; !ok {
		return nil
	}
	delete(logins, context)
	return f.save(logins)
}

package credential

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

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
		return nil, fmt.Errorf("read the stored logins: %w; if %s is damaged, remove it and log in again", err, f.path())
	}
	if logins == nil { // the file contains null
		logins = map[string]stored{}
	}
	return logins, nil
}

// lockTime is how long a login waits for that of another command.
const lockTime = 10 * time.Second

// update changes the logins. Other commands wait until the change is written, so that none is lost.
func (f file) update(change func(map[string]stored)) (err error) {
	if err := os.MkdirAll(f.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the logins: %w", err)
	}
	// The folder may be older than the login.
	if err := os.Chmod(f.dir, 0o700); err != nil { //nolint:gosec // a folder needs the permission to enter it
		return fmt.Errorf("close the folder of the logins to other users: %w", err)
	}
	lock, err := localfile.LockWithin(filepath.Join(f.dir, "credentials.lock"), lockTime)
	if err != nil {
		return fmt.Errorf("change the logins in %s: %w", f.dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	logins, err := f.load()
	if err != nil {
		return err
	}
	change(logins)
	return f.save(logins)
}

func (f file) save(logins map[string]stored) error {
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
	return f.update(func(logins map[string]stored) { logins[context] = c.stored() })
}

func (f file) Delete(context string) error {
	logins, err := f.load()
	if err != nil {
		return err
	}
	if _, ok := logins[context]; !ok {
		return nil
	}
	return f.update(func(logins map[string]stored) { delete(logins, context) })
}

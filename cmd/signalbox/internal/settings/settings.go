// Package settings owns where a command gets its installation and its project from: flags, then variables of the
// environment, then .signalbox.yaml in the working folder or a folder above it, then the context in the user's
// config.yaml. Neither file contains a secret. A setting that does not exist is an error, so that a misspelled one is
// never ignored. Commands that change config.yaml at the same time lose nothing of each other.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// The variables of the environment.
const (
	EnvServer  = "SERVICE_SERVER"
	EnvToken   = "SERVICE_TOKEN"
	EnvContext = "SERVICE_CONTEXT"
	EnvProject = "SERVICE_PROJECT"
	EnvStore   = "SERVICE_CREDENTIAL_STORE"
)

// Context is an installation with the login and the project that commands use.
type Context struct {
	Server  string `yaml:"server"`
	Project string `yaml:"project,omitempty"`
	// Store is where the credential is stored: keyring or file.
	Store string `yaml:"credential_store,omitempty"`
}

// Config is the user's config.yaml.
type Config struct {
	Current  string             `yaml:"current,omitempty"`
	Contexts map[string]Context `yaml:"contexts,omitempty"`
}

// Folder is the file .signalbox.yaml of a folder with code.
type Folder struct {
	Server  string `yaml:"server,omitempty"`
	Context string `yaml:"context,omitempty"`
	Project string `yaml:"project,omitempty"`
}

// FolderFile is the name of the file with the settings of a folder.
const FolderFile = ".signalbox.yaml"

// Dir returns the folder of the user's settings: $XDG_CONFIG_HOME/signalbox, or .config/signalbox in the home folder.
func Dir(getenv func(string) string) (string, error) {
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "signalbox"), nil
	}
	home := getenv("HOME")
	if home == "" {
		return "", errors.New("the folder of the settings is unknown; set HOME or XDG_CONFIG_HOME")
	}
	return filepath.Join(home, ".config", "signalbox"), nil
}

// Load reads config.yaml in a folder. A missing file is an empty one.
func Load(dir string) (Config, error) {
	var c Config
	if err := read(filepath.Join(dir, "config.yaml"), &c); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return c, err
	}
	if c.Contexts == nil {
		c.Contexts = map[string]Context{}
	}
	return c, nil
}

// lockTime is how long a change waits for that of another command.
const lockTime = 10 * time.Second

// Update changes config.yaml in a folder, which it creates with access for the user only. Other commands wait until the
// change is written. If change returns an error, the file stays as it is.
func Update(dir string, change func(*Config) error) (err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the settings: %w", err)
	}
	lock, err := localfile.LockWithin(filepath.Join(dir, "config.lock"), lockTime)
	if err != nil {
		return fmt.Errorf("change the settings in %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	c, err := Load(dir)
	if err != nil {
		return err
	}
	if err := change(&c); err != nil {
		return err
	}
	raw, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	return localfile.Write(filepath.Join(dir, "config.yaml"), raw, 0o600)
}

// LoadFolder reads .signalbox.yaml in a folder or in the next folder above it that has one.
func LoadFolder(dir string) (Folder, error) {
	for {
		var f Folder
		err := read(filepath.Join(dir, FolderFile), &f)
		if !errors.Is(err, fs.ErrNotExist) {
			return f, err
		}
		above := filepath.Dir(dir)
		if above == dir {
			return Folder{}, nil
		}
		dir = above
	}
}

// maxFile is the maximum size of a file with settings, in bytes.
const maxFile = 1 << 20

func read(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	defer func() { _ = f.Close() }()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	if len(raw) > maxFile {
		return fmt.Errorf("read %s: it has more than %d bytes", path, maxFile)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

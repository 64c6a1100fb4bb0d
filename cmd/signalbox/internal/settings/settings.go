// Package settings owns where a command gets its installation and its project from: flags, then variables of the
// environment, then .signalbox.yaml in the working folder or a folder above it, then the context in the user's
// config.yaml. Neither file contains a secret. A setting that does not exist is an error, so that a misspelled one is
// never ignored.
package settings

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

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

// Save replaces config.yaml in a folder, which it creates with access for the user only.
func Save(dir string, c Config) error {
	raw, err := yaml.Marshal(c)
	if err != nil {
		return fmt.Errorf("encode the settings: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the settings: %w", err)
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
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return fmt.Errorf("read the settings: %w", err)
	}
	d := yaml.NewDecoder(bytes.NewReader(raw))
	d.KnownFields(true)
	if err := d.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

// Flags are the settings that the command line gives. An empty one is not given.
type Flags struct{ Server, Context, Project string }

// Chosen are the settings of one command.
type Chosen struct {
	// Server is the base URL of the installation, or "" if none is known.
	Server string
	// Name is the context, or "" if the server was given without one.
	Name string
	Context
}

// UnknownContextError reports a context that config.yaml does not have.
type UnknownContextError struct{ Name string }

// Error implements error.
func (e *UnknownContextError) Error() string {
	return "no such context: " + e.Name + "; signalbox context ls lists those that exist"
}

// AddressError reports a text that is not the address of an installation.
type AddressError struct{ Address string }

// Error implements error.
func (e *AddressError) Error() string {
	return fmt.Sprintf("%q is not the address of an installation; it looks like https://signalbox.example.com", e.Address)
}

// Choose returns the settings of a command.
func Choose(flags Flags, getenv func(string) string, folder Folder, config Config) (Chosen, error) {
	out := Chosen{}
	named := first(flags.Context, getenv(EnvContext), folder.Context)
	server := first(flags.Server, getenv(EnvServer), folder.Server)
	switch {
	case named != "":
		c, ok := config.Contexts[named]
		if !ok {
			return out, &UnknownContextError{Name: named}
		}
		out.Name, out.Context = named, c
	case server != "":
		base, err := BaseURL(server)
		if err != nil {
			return out, err
		}
		// A login is stored under the name of its context; find the one that belongs to this server.
		out.Name, out.Context = config.Of(base)
	default:
		out.Name = config.Current
		out.Context = config.Contexts[config.Current]
	}
	out.Server = out.Context.Server
	if server != "" {
		base, err := BaseURL(server)
		if err != nil {
			return out, err
		}
		out.Server = base
	}
	out.Project = first(flags.Project, getenv(EnvProject), folder.Project, out.Context.Project)
	return out, nil
}

// Of returns the context of an installation: the current one if it fits, or the first in alphabetical order.
func (c Config) Of(server string) (string, Context) {
	if current, ok := c.Contexts[c.Current]; ok && current.Server == server {
		return c.Current, current
	}
	found := ""
	for name, context := range c.Contexts {
		if context.Server == server && (found == "" || name < found) {
			found = name
		}
	}
	return found, c.Contexts[found]
}

func first(values ...string) string {
	for _, v := range values {
		if v = strings.TrimSpace(v); v != "" {
			return v
		}
	}
	return ""
}

// BaseURL checks the address of an installation and returns it without a path or a slash at the end. Without a scheme
// it is https, or http on this machine.
func BaseURL(address string) (string, error) {
	text := address
	if !strings.Contains(text, "://") {
		scheme := "https://"
		host, _, _ := strings.Cut(text, "/")
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
			scheme = "http://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil {
		return "", &AddressError{Address: address}
	}
	return u.Scheme + "://" + u.Host, nil
}

// ContextName returns the name for the context of an installation: its host, with the port if it has one.
func ContextName(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "default"
	}
	return u.Host
}

package settings

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// Flags are the settings that the command line gives. An empty one is not given.
type Flags struct{ Server, Context, Project string }

// Chosen are the settings of one command.
type Chosen struct {
	// Server is the base URL of the installation, or "" if none is known.
	Server string
	// Name is the context, or "" if the server was given without one.
	Name string
	// FolderOnly states that only .signalbox.yaml names the server: the author of the code in the folder has chosen it, and
	// not the user.
	FolderOnly bool
	Context
}

// ErrAddress reports a text that is not the address of an installation.
var ErrAddress = errors.New("is not the address of an installation")

// ErrNoContext reports the name of a context that does not exist.
var ErrNoContext = errors.New("no such context")

// NoContext returns the error for the name of a context that does not exist.
func NoContext(name string) error {
	return fmt.Errorf("%w: %s; signalbox context ls lists those that exist", ErrNoContext, name)
}

// Choose returns the settings of a command. Flags, the environment and the folder each may name a context, a server, or
// both; the first of the three that does decides. A server beside a context replaces the server of the context.
func Choose(flags Flags, getenv func(string) string, folder Folder, config Config) (Chosen, error) {
	levels := []Flags{
		flags,
		{Server: getenv(EnvServer), Context: getenv(EnvContext)},
		{Server: folder.Server, Context: folder.Context},
		{Context: config.current()},
	}
	out := Chosen{}
	for i, level := range levels {
		server, name := strings.TrimSpace(level.Server), strings.TrimSpace(level.Context)
		if server == "" && name == "" {
			continue
		}
		var err error
		if out, err = config.choose(name, server); err != nil {
			return Chosen{}, err
		}
		const ofFolder = 2
		out.FolderOnly = i == ofFolder && server != "" && !config.knows(out.Server)
		break
	}
	out.Project = first(flags.Project, getenv(EnvProject), folder.Project, out.Context.Project)
	return out, nil
}

// current returns the name of the current context, or "" if it does not exist.
func (c Config) current() string {
	if _, ok := c.Contexts[c.Current]; ok {
		return c.Current
	}
	return ""
}

// choose returns a context by its name, by its server, or by its name with another server.
func (c Config) choose(name, server string) (out Chosen, err error) {
	base := ""
	if server != "" {
		if base, err = BaseURL(server); err != nil {
			return out, err
		}
	}
	if name == "" {
		// A login is stored under the name of its context; find the one that belongs to this server.
		out.Name, out.Context = c.Of(base)
		out.Server = base
		return out, nil
	}
	found, ok := c.Contexts[name]
	if !ok {
		return out, NoContext(name)
	}
	out.Name, out.Context, out.Server = name, found, base
	if base == "" && found.Server != "" {
		if out.Server, err = BaseURL(found.Server); err != nil {
			return Chosen{}, fmt.Errorf("the context %s: %w", name, err)
		}
	}
	return out, nil
}

func (c Config) knows(server string) bool {
	name, _ := c.Of(server)
	return name != ""
}

// Of returns the context of an installation: the current one if it fits, or the first in alphabetical order.
func (c Config) Of(server string) (string, Context) {
	fits := func(x Context) bool {
		base, err := BaseURL(x.Server)
		return err == nil && base == server
	}
	if current, ok := c.Contexts[c.Current]; ok && fits(current) {
		return c.Current, current
	}
	found := ""
	for name, context := range c.Contexts {
		if fits(context) && (found == "" || name < found) {
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

// BaseURL checks the address of an installation and returns it in its only form: without a path, a slash at the end or
// the usual port, in small letters. Without a scheme it is https, or http on this machine.
func BaseURL(address string) (string, error) {
	text := strings.TrimSpace(address)
	if ip := net.ParseIP(text); ip != nil && strings.Contains(text, ":") {
		text = "[" + text + "]"
	}
	if !strings.Contains(text, "://") {
		scheme := "https://"
		if u, err := url.Parse("//" + text); err == nil && isLocal(u.Hostname()) {
			scheme = "http://"
		}
		text = scheme + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || strings.ContainsAny(u.Host, " \t\"<>\\^`{}|%,;") {
		return "", fmt.Errorf("%q %w; it looks like https://signalbox.example.com", withoutUser(address), ErrAddress)
	}
	return client.Origin(u), nil
}

// withoutUser removes a user and a password from an address that an error repeats.
func withoutUser(address string) string {
	head, rest, ok := strings.Cut(address, "://")
	if !ok {
		head, rest = "", address
	} else {
		head += "://"
	}
	return head + rest[strings.LastIndexByte(rest, '@')+1:]
}

func isLocal(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ContextName returns the name for the context of an installation: its host, with the port if it has one.
func ContextName(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Host == "" {
		return "default"
	}
	return u.Host
}

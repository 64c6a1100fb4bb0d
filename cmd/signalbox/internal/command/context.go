package command

import (
	"encoding/json"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/settings"
)

// contextRow is a context as context ls prints it.
type contextRow struct {
	Name    string `json:"name"`
	Current bool   `json:"current"`
	Server  string `json:"server"`
	Project string `json:"project"`
	Store   string `json:"credential_store"`
}

func (t *tool) loadConfig() (dir string, config settings.Config, err error) {
	if dir, err = settings.Dir(t.Getenv); err != nil {
		return dir, config, err
	}
	config, err = settings.Load(dir)
	return dir, config, err
}

func (t *tool) listContexts() error {
	_, config, err := t.loadConfig()
	if err != nil {
		return err
	}
	rows := make([]json.RawMessage, 0, len(config.Contexts))
	for _, name := range sortedContexts(config) {
		c := config.Contexts[name]
		raw, err := json.Marshal(contextRow{Name: name, Current: name == config.Current, Server: c.Server, Project: c.Project, Store: c.Store})
		if err != nil {
			return err
		}
		rows = append(rows, raw)
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	if len(rows) == 0 && p.ForPeople() {
		t.Say("no contexts; signalbox login makes one")
		return nil
	}
	return p.Rows([]output.Column{{Name: "name"}, {Name: "current"}, {Name: "server"}, {Name: "project"}, {Name: "credential_store"}}, rows)
}

func (t *tool) useContext(name string) error {
	var server string
	err := t.changeConfig(func(config *settings.Config) error {
		c, ok := config.Contexts[name]
		if !ok {
			return settings.NoContext(name)
		}
		config.Current = name
		if t.Flags.Project != "" {
			c.Project = t.Flags.Project
			config.Contexts[name] = c
		}
		server = c.Server
		return nil
	})
	if err != nil {
		return err
	}
	t.Say("commands use %s (%s)", name, server)
	return nil
}

func (t *tool) changeConfig(change func(*settings.Config) error) error {
	dir, err := settings.Dir(t.Getenv)
	if err != nil {
		return err
	}
	return settings.Update(dir, change)
}

func (t *tool) removeContext(name string) error {
	err := t.changeConfig(func(config *settings.Config) error {
		c, ok := config.Contexts[name]
		if !ok {
			return settings.NoContext(name)
		}
		store, err := t.Store(c.Store)
		if err != nil {
			return err
		}
		if err := store.Delete(name); err != nil {
			return err
		}
		delete(config.Contexts, name)
		if config.Current == name {
			config.Current = ""
		}
		return nil
	})
	if err != nil {
		return err
	}
	t.Say("removed %s", name)
	return nil
}

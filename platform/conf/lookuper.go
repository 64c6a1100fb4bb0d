package conf

import (
	"maps"
	"os"
	"slices"
	"strings"
)

// Lookuper is a snapshot of settings in layers. Later layers take precedence.
type Lookuper struct{ layers []layer }

type layer struct {
	source string
	vars   map[string]string
}

// OS returns the environment of the process. Only this function reads it.
func OS() Lookuper {
	vars := map[string]string{}
	for _, pair := range os.Environ() {
		if name, value, ok := strings.Cut(pair, "="); ok && name != "" {
			vars[name] = value
		}
	}
	return Lookuper{}.With(SourceEnv, vars)
}

// Map returns a fixed environment, for tests.
func Map(vars map[string]string) Lookuper { return Lookuper{}.With(SourceEnv, vars) }

// With returns a copy with vars as a new top layer, for example the flags of a command under the names of their
// settings. The given source is what Print shows next to their values.
func (l Lookuper) With(source string, vars map[string]string) Lookuper {
	layers := append(slices.Clone(l.layers), layer{source, maps.Clone(vars)})
	return Lookuper{layers}
}

// Lookup returns the value of a setting in the topmost layer that contains the setting.
func (l Lookuper) Lookup(name string) (string, bool) {
	value, _, ok := l.find(name)
	return value, ok
}

func (l Lookuper) find(name string) (value, source string, ok bool) {
	for _, at := range slices.Backward(l.layers) {
		if value, ok = at.vars[name]; ok {
			return value, at.source, true
		}
	}
	return "", SourceDefault, false
}

func (l Lookuper) names() []string {
	all := map[string]struct{}{}
	for _, at := range l.layers {
		for name := range at.vars {
			all[name] = struct{}{}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

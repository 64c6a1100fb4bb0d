// Package ref writes and reads references: <kind>/<project-key>/<name>@<version>.
package ref

import (
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Kind is what a reference refers to.
type Kind string

// The kinds that the registry resolves.
const (
	Dataset     Kind = "ds"
	Model       Kind = "mdl"
	Environment Kind = "env"
	Rubric      Kind = "rub"
)

// Latest stands for the newest version in a reference that is to be resolved.
const Latest = "latest"

// Free refuses the version that stands for another one: whoever asks for the newest must not get what is merely
// called so.
func Free(version string) error {
	if version != Latest {
		return nil
	}
	return fault.InvalidFields(fault.At(fault.TypeValue, "latest stands for the newest version: choose another name", "version"))
}

// Ref is a reference in parts.
type Ref struct {
	Kind    Kind
	Project string
	Name    string
	Version string
}

// String writes the reference; one without a version stands for all of them.
func (r Ref) String() string {
	if r.Version == "" {
		return string(r.Kind) + "/" + r.Project + "/" + r.Name
	}
	return string(r.Kind) + "/" + r.Project + "/" + r.Name + "@" + r.Version
}

// Number is the version of a kind whose versions are integers; ok is false for what is none in its one spelling.
func (r Ref) Number() (n int32, ok bool) {
	wide, err := strconv.ParseInt(r.Version, 10, 32)
	return int32(wide), err == nil && wide > 0 && strconv.FormatInt(wide, 10) == r.Version
}

// Parse reads a reference of one kind; ok is false for anything else.
func Parse(kind Kind, s string) (r Ref, ok bool) {
	rest, ok := strings.CutPrefix(s, string(kind)+"/")
	if !ok {
		return Ref{}, false
	}
	project, rest, ok := strings.Cut(rest, "/")
	if !ok {
		return Ref{}, false
	}
	name, version, ok := strings.Cut(rest, "@")
	if !ok || project == "" || name == "" || version == "" || strings.ContainsAny(name+version, "/@") {
		return Ref{}, false
	}
	return Ref{Kind: kind, Project: project, Name: name, Version: version}, true
}

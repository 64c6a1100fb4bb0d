// Package ref formats and parses references: <kind>/<project-key>/<name>@<version>.
package ref

import (
	"strconv"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Kind is the kind of object that a reference identifies.
type Kind string

// The kinds that the registry resolves.
const (
	Dataset     Kind = "ds"
	Model       Kind = "mdl"
	Environment Kind = "env"
	Rubric      Kind = "rub"
)

// Latest is the version in a reference to the newest version.
const Latest = "latest"

// CheckVersionName returns an error for the reserved version name Latest. Callers that request the newest version would
// otherwise get the version with that name.
func CheckVersionName(version string) error {
	if version != Latest {
		return nil
	}
	return fault.InvalidFields(fault.At(fault.TypeValue, "latest is reserved for the newest version; choose another name", "version"))
}

// Ref is a parsed reference.
type Ref struct {
	Kind    Kind
	Project string
	Name    string
	Version string
}

// String formats the reference. If the version is empty, the result ends with the name.
func (r Ref) String() string {
	if r.Version == "" {
		return string(r.Kind) + "/" + r.Project + "/" + r.Name
	}
	return string(r.Kind) + "/" + r.Project + "/" + r.Name + "@" + r.Version
}

// Number returns the version as a number, for the kinds whose versions are positive integers. The result ok is false
// unless the version is in canonical decimal form.
func (r Ref) Number() (n int32, ok bool) {
	wide, err := strconv.ParseInt(r.Version, 10, 32)
	return int32(wide), err == nil && wide > 0 && strconv.FormatInt(wide, 10) == r.Version
}

// Parse parses a reference of the given kind. The result ok is false if s is not a valid reference of this kind.
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

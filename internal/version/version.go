// Package version says which build this is: what `make build` linked in (scripts/version.sh), else the commit
// that the go command wrote down, else dev. The same commit gives the same words to everyone.
package version

import "runtime/debug"

// API is the JobSpec dialect that this control plane speaks.
const API = "service/v1"

// Core is the version of the JobSpec's and recipes' semantics.
const Core = "1"

// build is set by the linker: -X .../internal/version.build=v1.2.3.
var build string //nolint:gochecknoglobals // the linker can set nothing else.

// Server names the running build; it is for bug reports and not to be branched on.
func Server() string {
	if build != "" {
		return build
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return unknown
	}
	return ofCommit(info.Settings)
}

// unknown is a build without a commit: of an archive, or a test's.
const unknown = "dev"

// revisionLength is that of a commit in scripts/version.sh.
const revisionLength = 12

func ofCommit(settings []debug.BuildSetting) string {
	revision, dirty := "", ""
	for _, s := range settings {
		switch {
		case s.Key == "vcs.revision" && len(s.Value) >= revisionLength:
			revision = "-" + s.Value[:revisionLength]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if revision == "" {
		return unknown
	}
	return unknown + revision + dirty
}

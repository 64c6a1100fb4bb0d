// Package version provides the name of the running build. `make build` sets it to the output of scripts/version.sh. Any
// other build is named dev-<commit> after the commit that the go command recorded, or dev if it recorded none. The
// suffix -dirty means uncommitted changes.
package version

import "runtime/debug"

// API is the version of the JobSpec format that this control plane accepts.
const API = "service/v1"

// Core is the version of the JobSpec and recipe semantics.
const Core = "1"

// build is set by the linker: -X .../internal/version.build=v1.2.3.
var build string //nolint:gochecknoglobals // the linker can only set variables.

// Server returns the name of the running build. It is for bug reports; code must not depend on it.
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

// unknown is the name of a build that records no commit, such as one from a source archive or a test binary.
const unknown = "dev"

// revisionLength is the length of an abbreviated commit, the same as in scripts/version.sh.
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

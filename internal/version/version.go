// Package version says which build this is. The linker sets it: -X .../internal/version.build=1.2.3.
package version

import "runtime/debug"

// API is the JobSpec dialect that this control plane speaks.
const API = "service/v1"

// Core is the version of the JobSpec's and recipes' semantics.
const Core = "1"

// build is set by the linker for releases.
var build string //nolint:gochecknoglobals // the linker can set nothing else.

// Server names the running build; it is for bug reports and not to be branched on.
func Server() string {
	if build != "" {
		return build
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" && len(s.Value) >= 12 {
			return "dev-" + s.Value[:12]
		}
	}
	return "dev"
}

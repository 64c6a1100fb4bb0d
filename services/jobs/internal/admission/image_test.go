package admission

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/jobs/internal/jobspec"
)

// A reference that one parser reads as an allowed registry and another reads differently must be refused.
func TestCheckImageRejectsAmbiguousReferences(t *testing.T) {
	t.Parallel()
	allowed := []string{"registry.corp.example", "docker.io", "localhost"}
	good := func(ref string) bool {
		return checkImage(&Draft{Spec: jobspec.Spec{Image: &jobspec.Image{Ref: ref}}}, allowed) == nil
	}
	for _, ref := range []string{"registry.corp.example/x", "Registry.Corp.Example/x:1", "docker.io/library/busybox", "busybox"} {
		require.True(t, good(ref), "%q", ref)
	}
	for _, ref := range []string{
		"registry.corp.example/../evil/x", "registry.corp.example/./x", "registry.corp.example//x", "registry.corp.example./x",
		"registry.corp.example:/x", "registry.corp.example:443x/x", "registry.corp.example%2fx", "registry.corp.example/x/", "registry.corp.example/X",
		"registry.corp.example\\x/y", "registry.corp.example/x:1@sha256:ab", "registry.corp.example/x@", "registry.corp.example/x:", " registry.corp.example/x",
		"registry.corp.example/x\n", "registry.corp.example\x00/x", "Evil/img", "EVIL.example/img", "user@registry.corp.example/x", "//registry.corp.example/x",
		"[::1]/x", "registry.corp.example.evil.example/x", "xn--registry-corp.example/x", "registry。corp。example/x",
	} {
		require.False(t, good(ref), "%q", ref)
	}
}

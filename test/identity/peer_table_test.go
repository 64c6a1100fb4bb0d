package identity

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/signalbox-dev/signalbox/gen/route"
	_ "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	_ "github.com/signalbox-dev/signalbox/gen/signalbox/common/peer/v1"
	_ "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/peer/v1"
	_ "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/peer/v1"
	optionsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/options/v1"
	_ "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
)

// peerTable is the hand-written table of the services that may call each method.
//
//go:embed testdata/peers.txt
var peerTable string

// services returns the services of an installation.
func services() []string {
	return []string{"gateway", "auth", "jobs", "ingest", "registry", "inference"}
}

// peerMethod is a method that users cannot call.
type peerMethod struct {
	name    string
	on      []string // the services that serve it
	callers []string // the services that may call it; node is for agents
}

// peerMethods parses peerTable.
func peerMethods(t *testing.T) []peerMethod {
	t.Helper()
	var out []peerMethod
	for line := range strings.Lines(peerTable) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		require.Len(t, fields, 3, line)
		m := peerMethod{fields[0], strings.Split(fields[1], ","), strings.Split(fields[2], ",")}
		for _, s := range append(slices.Clone(m.on), m.callers...) {
			require.Contains(t, append(services(), "node"), s, line)
		}
		out = append(out, m)
	}
	return out
}

// methods returns all methods of Signalbox that are linked into the test.
func methods() []protoreflect.MethodDescriptor {
	var out []protoreflect.MethodDescriptor
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		if !strings.HasPrefix(string(f.Package()), "signalbox.") {
			return true
		}
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			for j := range s.Methods().Len() {
				out = append(out, s.Methods().Get(j))
			}
		}
		return true
	})
	return out
}

// nameOf returns the name of a method as in the tables.
func nameOf(m protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("%s/%s", m.Parent().FullName(), m.Name())
}

func accessOf(t *testing.T, m protoreflect.MethodDescriptor) *optionsv1.Access {
	t.Helper()
	a, ok := proto.GetExtension(m.Options(), optionsv1.E_Access).(*optionsv1.Access)
	require.True(t, ok, nameOf(m))
	return a
}

// TestMethods_inExactlyOneTable requires that each method is either in the route table or in peers.txt, and that its
// access option agrees with the table.
func TestMethods_inExactlyOneTable(t *testing.T) {
	t.Parallel()
	public, internal := map[string]bool{}, map[string][]string{}
	for _, rt := range route.Table() {
		public[rt.RPC] = true
	}
	for _, m := range peerMethods(t) {
		require.NotContains(t, internal, m.name, "each method must be listed only once")
		internal[m.name] = m.callers
	}
	all := methods()
	require.Greater(t, len(all), 100)
	for _, m := range all {
		name, a := nameOf(m), accessOf(t, m)
		callers, isInner := internal[name]
		require.NotEqual(t, isInner, public[name], "%s must be either in the route table or in peers.txt", name)
		switch {
		case !isInner:
			require.Empty(t, a.GetPeers(), name)
		case slices.Equal(callers, []string{"node"}):
			require.Equal(t, optionsv1.Credential_CREDENTIAL_AGENT, a.GetCredential(), name)
		default:
			require.ElementsMatch(t, callers, a.GetPeers(), name)
		}
		delete(internal, name)
	}
	require.Empty(t, internal, "peers.txt must not contain methods that do not exist")
}

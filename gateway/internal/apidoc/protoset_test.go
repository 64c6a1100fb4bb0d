package apidoc

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/signalbox-dev/signalbox/gen/route"
	_ "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1" // has services that are only partly in the table
)

func served(t *testing.T, table []route.Route) *descriptorpb.FileDescriptorSet {
	t.Helper()
	h, err := Headers{Headers: func(http.Header) {}, NewID: func() string { return "req_1" }}.Protoset(table)
	require.NoError(t, err)
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/api/protoset", nil))
	require.Equal(t, "application/protobuf", rec.Header().Get("Content-Type"))
	set := &descriptorpb.FileDescriptorSet{}
	require.NoError(t, proto.Unmarshal(rec.Body.Bytes(), set))
	return set
}

func TestProtosetMatchesTable(t *testing.T) {
	t.Parallel()
	set := served(t, route.Table())
	files, err := protodesc.NewFiles(set)
	require.NoError(t, err, "the set contains all dependencies")
	var got []string
	files.RangeFiles(func(fd protoreflect.FileDescriptor) bool {
		for i := range fd.Services().Len() {
			for j := range fd.Services().Get(i).Methods().Len() {
				got = append(got, string(fd.Services().Get(i).Methods().Get(j).FullName()))
			}
		}
		return true
	})
	var want []string
	for _, rt := range route.Table() {
		if name := strings.ReplaceAll(rt.RPC, "/", "."); name != "" && !slices.Contains(want, name) {
			want = append(want, name)
		}
	}
	require.ElementsMatch(t, want, got, "the set has no calls of agents or between services")
	require.Equal(t, served(t, route.Table()).String(), set.String(), "the encoding is deterministic")
	seen := map[string]bool{}
	for _, f := range set.GetFile() {
		for _, needed := range f.GetDependency() {
			require.True(t, seen[needed], "%s comes before %s", needed, f.GetName())
		}
		seen[f.GetName()] = true
	}
}

func TestProtosetErrorNamesUnknownCall(t *testing.T) {
	t.Parallel()
	_, err := Headers{}.Protoset([]route.Route{{RPC: "signalbox.nope.v1.Nope/Get"}})
	require.ErrorContains(t, err, "signalbox.nope.v1.Nope")
}

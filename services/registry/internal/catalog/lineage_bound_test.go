package catalog_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestLineage_depth(t *testing.T) {
	t.Parallel()
	h := openLineage(t)
	for n := 1; n <= 12; n++ {
		r := fakeRun{id: idOf("run", n)}
		if n > 1 {
			r.sources = []string{idOf("run", n-1)}
		}
		h.runs.runs = append(h.runs.runs, r)
	}
	nodes, _, more := h.run("usr_1", &registryv1.GetRunLineageRequest{Id: idOf("run", 6), Depth: new(int32(2))})
	require.Equal(t, " r:6(0) r:5(-1) r:4+(-2) r:7(1) r:8+(2)", nodes)
	require.True(t, more)
	nodes, _, more = h.run("usr_1", &registryv1.GetRunLineageRequest{Id: idOf("run", 10), Depth: new(int32(2)), Direction: new("down")})
	require.Equal(t, " r:10(0) r:11(1) r:12(2)", nodes)
	require.False(t, more, "the last run has no more neighbors, and the other direction was not requested")
}

func TestLineage_numberOfNodes(t *testing.T) {
	t.Parallel()
	h := openLineage(t)
	for n := 1; n <= 60; n++ {
		h.runs.runs = append(h.runs.runs, fakeRun{id: idOf("run", n), sources: []string{"ds/team/d1@v1"}})
	}
	get := func(limit *int32) (string, *registryv1.Lineage) {
		l, err := h.server.GetDatasetLineage(reader(t.Context(), "usr_1"), &registryv1.GetDatasetLineageRequest{DatasetId: idOf("ds", 1), Version: "v1", Nodes: limit})
		require.NoError(t, err)
		nodes, _ := text(l)
		return nodes, l
	}
	nodes, l := get(new(int32(4)))
	require.Equal(t, " d:1+(0) r:1+(1) r:2(1) r:3(1)", nodes, "run 1 has a model that is not shown")
	require.True(t, l.GetMore())
	require.Len(t, l.GetEdges(), 3)
	nodes, l = get(nil)
	require.True(t, strings.HasPrefix(nodes, " d:1+(0)"), "50 of the 60 runs must be shown")
	require.Equal(t, 53, len(l.GetNodes()), "the dataset, 50 runs, the model and its revision")
}

func TestLineage_invalidIDs(t *testing.T) {
	t.Parallel()
	h := openLineage(t)
	_, err := h.server.GetRunLineage(reader(t.Context(), "usr_1"), &registryv1.GetRunLineageRequest{Id: "x"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = h.server.GetDatasetLineage(reader(t.Context(), "usr_1"), &registryv1.GetDatasetLineageRequest{DatasetId: "x", Version: "v1"})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = h.server.GetModelLineage(reader(t.Context(), "usr_1"), &registryv1.GetModelLineageRequest{ModelId: "x", Version: 1})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	_, err = h.server.GetRevisionLineage(reader(t.Context(), "usr_1"), &registryv1.GetRevisionLineageRequest{DeploymentId: "x", Number: 1})
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protojson"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// chain is dataset 1 -> run 1 -> model 1 -> revision 1, with run 2 and a run of another team made from the same things.
func chain(h *lineageHarness) {
	h.runs.runs = []fakeRun{
		{id: idOf("run", 1), sources: []string{"ds/team/d1@v1"}},
		{id: idOf("run", 2), sources: []string{"ds/team/d2@v1", "mdl/team/m1@1", idOf("run", 1)}},
		{id: idOf("run", 3), sources: []string{"ds/team/d1@v1"}, hidden: true},
	}
}

func (h *lineageHarness) run(subject string, in *registryv1.GetRunLineageRequest, roles ...authn.ProjectRole) (nodes, edges string, more bool) {
	h.t.Helper()
	l, err := h.server.GetRunLineage(reader(h.t.Context(), subject, roles...), in)
	require.NoError(h.t, err)
	nodes, edges = text(l)
	return nodes, edges, l.GetMore()
}

func TestLineage_bothDirections(t *testing.T) {
	t.Parallel()
	h := openLineage(t)
	chain(h)
	nodes, edges, more := h.run("usr_1", &registryv1.GetRunLineageRequest{Id: idOf("run", 1)})
	require.Equal(t, " r:1(0) d:1(-1) r:2(1) m:1(1) r:1(2)", nodes, "the inputs' other results must not be shown")
	require.Equal(t, " d:1>r:1 r:1>r:2 r:1>m:1 m:1>r:2 m:1>r:1", edges)
	require.False(t, more)
	nodes, _, _ = h.run("usr_1", &registryv1.GetRunLineageRequest{Id: idOf("job", 1), Direction: new("up")})
	require.Equal(t, " r:1(0) d:1(-1)", nodes, "a job stands for its run")
}

func TestLineage_everyRoot(t *testing.T) {
	t.Parallel()
	h := openLineage(t)
	chain(h)
	ctx := reader(t.Context(), "usr_1")
	l, err := h.server.GetDatasetLineage(ctx, &registryv1.GetDatasetLineageRequest{DatasetId: idOf("ds", 1), Version: "v1"})
	require.NoError(t, err)
	nodes, _ := text(l)
	require.Equal(t, " d:1(0) r:1(1) r?(1) r:2(2) m:1(2) r:1(3)", nodes)
	l, err = h.server.GetModelLineage(ctx, &registryv1.GetModelLineageRequest{ModelId: idOf("mdl", 1), Version: 1})
	require.NoError(t, err)
	nodes, _ = text(l)
	require.Equal(t, " m:1(0) r:1(-1) d:1(-2) r:2(1) r:1(1)", nodes)
	l, err = h.server.GetRevisionLineage(ctx, &registryv1.GetRevisionLineageRequest{DeploymentId: idOf("dep", 1), Number: 1})
	require.NoError(t, err)
	nodes, _ = text(l)
	require.Equal(t, " r:1(0) m:1(-1) r:1(-2) d:1(-3)", nodes)
	require.Equal(t, "ready", l.GetNodes()[0].GetState())
	require.Equal(t, "sha256:m1", l.GetNodes()[1].GetDigest())
}

// Hidden objects and deleted ones look alike and have no name or id, in either direction.
func TestLineage_hiddenNodes(t *testing.T) {
	t.Parallel()
	h := openLineage(t)
	chain(h)
	h.exec(`UPDATE dataset SET project_id = 'prj_2', owner_id = 'usr_2' WHERE name = 'd1'`)
	h.exec(`UPDATE model SET deleted_at = now() WHERE name = 'm1'`)
	h.exec(`UPDATE deployment SET project_id = 'prj_2', owner_id = 'usr_2'`)
	nodes, edges, more := h.run("usr_1", &registryv1.GetRunLineageRequest{Id: idOf("run", 2)})
	require.Equal(t, " r:2(0) d:2(-1) m?(-1) r:1(-1) d?(-2)", nodes)
	require.Equal(t, " d:2>r:2 m?>r:2 r:1>r:2 d?>r:1", edges)
	require.False(t, more)

	l, err := h.server.GetRunLineage(reader(t.Context(), "usr_1"), &registryv1.GetRunLineageRequest{Id: idOf("run", 1)})
	require.NoError(t, err)
	raw, err := protojson.Marshal(l)
	require.NoError(t, err)
	for _, secret := range []string{"d1", "m1", idOf("ds", 1), idOf("mdl", 1), "chat", "prj_2"} {
		require.NotContains(t, string(raw), secret)
	}
}

func TestLineage_rightsOfTheCaller(t *testing.T) {
	t.Parallel()
	h := openLineage(t)
	chain(h)
	nodes, _, _ := h.run("usr_9", &registryv1.GetRunLineageRequest{Id: idOf("run", 1)})
	require.Equal(t, " r:1(0) d?(-1) r:2(1) m?(1)", nodes, "the graph must not continue behind a hidden node")
	nodes, _, _ = h.run("usr_9", &registryv1.GetRunLineageRequest{Id: idOf("run", 1)}, inTeam(authn.ProjectViewer))
	require.Equal(t, " r:1(0) d:1(-1) r:2(1) m:1(1) r:1(2)", nodes)

	ctx := reader(t.Context(), "usr_9")
	for name, get := range map[string]func(n int) error{
		"run": func(n int) error {
			_, err := h.server.GetRunLineage(ctx, &registryv1.GetRunLineageRequest{Id: idOf("run", n)})
			return err
		},
		"dataset": func(n int) error {
			_, err := h.server.GetDatasetLineage(ctx, &registryv1.GetDatasetLineageRequest{DatasetId: idOf("ds", n), Version: "v1"})
			return err
		},
		"model": func(n int) error {
			_, err := h.server.GetModelLineage(ctx, &registryv1.GetModelLineageRequest{ModelId: idOf("mdl", n), Version: 1})
			return err
		},
		"revision": func(n int) error {
			_, err := h.server.GetRevisionLineage(ctx, &registryv1.GetRevisionLineageRequest{DeploymentId: idOf("dep", n), Number: 1})
			return err
		},
	} {
		hidden := map[string]int{"run": 3}[name]
		require.True(t, fault.Is(get(max(hidden, 1)), fault.Absent), name)
		require.True(t, fault.Is(get(99), fault.Absent), name)
	}
	h.runs.away = true
	_, err := h.server.GetRunLineage(ctx, &registryv1.GetRunLineageRequest{Id: idOf("run", 1)})
	require.True(t, fault.Is(err, fault.Unavailable), "a lineage without its runs must not look complete: %v", err)
}

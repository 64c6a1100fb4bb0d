package model

import (
	"context"
	"encoding/binary"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// protectedRuns is like runs, but all runs read the protected datasets.
type protectedRuns struct {
	runs

	datasets []string
}

func (r protectedRuns) Origin(ctx context.Context, runID string) (Origin, error) {
	from, err := r.runs.Origin(ctx, runID)
	from.Protected, from.ProtectedDatasets = true, r.datasets
	return from, err
}

// protectedDataset adds a protected dataset and returns its id.
func (d *serverHarness) protectedDataset(name, owner, project string) string {
	d.t.Helper()
	_, err := d.pool.Exec(d.t.Context(), `INSERT INTO dataset (id, name, owner_id, owner_name, project_id, project, visibility, description, format,
		protected, created_at) VALUES ($1, $1, $2, $2, $3, $3, 'team', '', 'jsonl', true, now())`, "dst_"+name, owner, project)
	require.NoError(d.t, err)
	return "dst_" + name
}

// The weights of a protected run may contain records. Only users who may change its datasets may register the weights.
// The texts of the header, which the run wrote, are not stored.
func TestCreateModelVersion_protectedRun(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	header := []byte(`{"__metadata__":{"planted":"planted"},"planted":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`)
	data := append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), 0)
	d.artifact("art_1", FormatSafetensors, data)
	d.artifact("art_2", FormatSafetensors, data[:len(data)-1])
	for n, datasets := range [][]string{
		{d.protectedDataset("theirs", "usr_9", "prj_9")},
		{d.protectedDataset("mine", "usr_1", "prj_1"), "dst_theirs"},
		{"dst_mine", "dst_gone"},
		{},
	} {
		d.Artifacts = protectedRuns{d.runs, datasets}
		_, err := d.register(ann(t), m, "art_1")
		require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "dataset_protected"), strconv.Itoa(n)+": %v", err)
	}
	d.Artifacts = protectedRuns{d.runs, []string{"dst_mine", "dst_mine"}} // the run read two versions of the dataset
	v, err := d.register(ann(t), m, "art_1")
	require.NoError(t, err)
	require.True(t, v.GetProtected())
	require.JSONEq(t, `{"parameters":1,"tensors":1}`, string(v.GetFacts()))
	bad, err := d.register(ann(t), m, "art_2")
	require.NoError(t, err)
	require.Equal(t, "rejected", bad.GetStatus())
	require.Contains(t, bad.GetStatusReason(), "withheld")
	_, err = d.ListModelDownloads(ann(t), &registryv1.ListModelDownloadsRequest{ModelId: m.GetId(), Version: 1})
	require.True(t, fault.Is(err, fault.Forbidden) && fault.HasCode(err, "dataset_protected"), "not even the owner downloads the weights: %v", err)
	var noted int
	require.NoError(t, d.pool.QueryRow(t.Context(), `SELECT count(*) FROM audit WHERE action = 'model.access.refuse' AND target_id = $1`, m.GetId()).Scan(&noted))
	require.Equal(t, 1, noted)
	all, err := d.ListModelVersions(ann(t), &registryv1.ListModelVersionsRequest{ModelId: m.GetId()})
	require.NoError(t, err)
	for _, v := range all.GetVersions() {
		require.NotContains(t, v.String(), "planted")
	}
}

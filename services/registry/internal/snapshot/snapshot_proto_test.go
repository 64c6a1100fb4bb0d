package snapshot

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/registry/internal/deployment"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestSnapshotRevisionToProto_replicasOnlyWhenReady(t *testing.T) {
	t.Parallel()
	engine := revision.Engine{Address: "127.0.0.1:9", Key: secret.New("k"), Fence: 2}
	why := &revision.Reason{Phase: "pending", Code: "engine_lost", Message: "gone"}
	cases := map[string]struct {
		revision *revision.Revision
		ready    bool
		replicas int
		reason   string
	}{
		"ready":           {&revision.Revision{ID: "rev_1", State: revision.Ready, Engine: engine}, true, 1, ""},
		"without address": {&revision.Revision{ID: "rev_1", State: revision.Ready}, true, 0, ""},
		"not ready":       {&revision.Revision{ID: "rev_1", State: revision.NotReady, Engine: engine, Reason: why}, false, 0, "pending/engine_lost"},
		"stopped":         {&revision.Revision{ID: "rev_1", State: revision.Stopped, Engine: engine}, false, 0, ""},
	}
	for name, c := range cases {
		got := revisionToProto(c.revision)
		require.Equal(t, c.ready, got.GetReady(), name)
		require.Len(t, got.GetReplicas(), c.replicas, name)
		require.Equal(t, c.reason, got.GetReason(), name)
	}
	require.Nil(t, revisionToProto(nil))
}

// Inference dials a remote replica and verifies that it is the named node.
func TestSnapshotRevisionToProto_replicaAddressAndNode(t *testing.T) {
	t.Parallel()
	engine := revision.Engine{Address: "https://node-7:4433", NodeID: "nod_7", Key: secret.New("k"), Fence: 2}
	r := revisionToProto(&revision.Revision{ID: "rev_1", State: revision.Ready, Engine: engine}).GetReplicas()[0]
	require.Equal(t, []string{"https://node-7:4433", "nod_7", "k"}, []string{r.GetAddress(), r.GetNodeId(), r.GetApiKey()})
	require.NotEmpty(t, r.GetId())
	require.Zero(t, r.GetFirstByteS()+r.GetIdleS())
}

func TestSnapshotRevisionToProto_timeouts(t *testing.T) {
	t.Parallel()
	limits := revision.Serving{Timeouts: &revision.Timeouts{FirstByteS: 1800, IdleS: 60}}
	engine := revision.Engine{Address: "http://127.0.0.1:9"}
	r := revisionToProto(&revision.Revision{ID: "rev_1", State: revision.Ready, Engine: engine, Serving: limits}).GetReplicas()[0]
	require.Equal(t, []int32{1800, 60}, []int32{r.GetFirstByteS(), r.GetIdleS()})
}

func TestSnapshotDeploymentToProto(t *testing.T) {
	t.Parallel()
	promoted, cut := "rev_1", deployment.ModeCut
	revisions := map[string]*revision.Revision{"rev_1": {ID: "rev_1", Number: 4, State: revision.Ready}}
	got := deploymentToProto(&deployment.Deployment{
		ID: "dep_1", State: deployment.StateServing, PromotedID: &promoted,
		Owner: access.Owner{UserID: "usr_1", ProjectID: "prj_1", Visibility: "all"},
	}, revisions)
	require.EqualValues(t, 4, got.GetPromoted().GetNumber())
	require.Equal(t, []string{"dep_1", "usr_1", "prj_1", "all"}, []string{got.GetId(), got.GetOwnerId(), got.GetProjectId(), got.GetVisibility()})
	require.False(t, got.GetSuspended())
	got = deploymentToProto(&deployment.Deployment{ID: "dep_2", State: deployment.StateSuspended, SuspendMode: &cut}, revisions)
	require.True(t, got.GetSuspended())
	require.True(t, got.GetCut())
	require.Nil(t, got.GetPromoted())
}

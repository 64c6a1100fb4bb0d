package revision_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/services/registry/internal/revision"
)

func TestRevision_ReplicaID(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for work := range 3 {
		for generation := range int64(3) {
			for fence := range int64(3) {
				r := &revision.Revision{WorkID: fmt.Sprintf("wrk_%d", work), Generation: generation, Engine: revision.Engine{Fence: fence, NodeID: "nod_1"}}
				name := fmt.Sprint(work, generation, fence)
				got := r.ReplicaID()
				require.NoError(t, id.Check(id.Replica, got))
				require.Empty(t, seen[got], "%s has the same ID as %s", name, seen[got])
				seen[got] = name
				r.Engine.PID, r.Engine.Address = 9, "http://127.0.0.1:9"
				require.Equal(t, got, r.ReplicaID(), "the replica ID does not depend on the report")
			}
		}
	}
}

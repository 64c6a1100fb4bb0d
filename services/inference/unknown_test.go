package inference_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestWithoutASnapshotNobodyKnowsWhoseARecordIs(t *testing.T) {
	t.Parallel()
	r, w := open(t), newWorld(t, newEngine(t, always(answer("200 OK", "", "ok"))))
	api, me := r.reader(), user("usr_1", authn.RoleOperator)
	for name, id := range map[string]string{"one that there will be": deploymentA, "one that there is not": dep("z")} {
		_, _, err := api.list(me, &inferencev1.ListTrafficRequest{DeploymentId: id})
		f := fault.From(err)
		require.Equal(t, fault.Unavailable, f.Kind, "%s: %v", name, err)
		require.Equal(t, "lease_over", f.Code, name)
		require.Positive(t, f.RetryAfter, name)
	}
	r.ready(w.deployments()...)
	_, _, err := api.list(me, &inferencev1.ListTrafficRequest{DeploymentId: deploymentA})
	require.NoError(t, err)
	_, _, err = api.list(me, &inferencev1.ListTrafficRequest{DeploymentId: dep("z")})
	require.True(t, fault.Is(err, fault.Absent), "now it is known that there is none: %v", err)
}

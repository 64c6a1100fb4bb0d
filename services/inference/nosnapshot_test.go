package inference_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	inferencev1 "github.com/signalbox-dev/signalbox/gen/signalbox/inference/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestTrafficUnavailableWithoutSnapshot(t *testing.T) {
	t.Parallel()
	r, w := open(t), newDeploymentStates(t, newEngine(t, always(httpResponse("200 OK", "", "ok"))))
	api, me := r.reader(), user("usr_1", authn.RoleOperator)
	for name, id := range map[string]string{"deployment of a later snapshot": deploymentA, "unknown deployment": dep("z")} {
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
	require.True(t, fault.Is(err, fault.Absent), "with a snapshot, an unknown deployment must be reported as missing: %v", err)
}

package model

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
)

// registered registers an artifact 20 times concurrently with one idempotency key. It returns the status, which must be
// the same for all calls.
func (d *serverHarness) registered(m *registryv1.Model, artifactID, key string) string {
	d.t.Helper()
	const n = 20
	results, statuses, errs := make([]*registryv1.ModelVersion, n), make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		ctx, h := as(d.t, "usr_1", authn.ProjectEditor, key)
		wg.Go(func() {
			results[i], errs[i] = d.register(ctx, m, artifactID)
			statuses[i] = strings.Join(h.sent.Get("x-service-status"), "")
		})
	}
	wg.Wait()
	require.NoError(d.t, errors.Join(errs...))
	for i, v := range results {
		require.True(d.t, proto.Equal(results[0], v))
		require.Empty(d.t, v.ProtoReflect().GetUnknown(), "the stored mark is not part of the response")
		require.Equal(d.t, statuses[0], statuses[i])
	}
	return statuses[0]
}

func TestCreateModelVersion_repeatKeepsStatus(t *testing.T) {
	t.Parallel()
	d := newServerHarness(t)
	m := d.model("adder")
	d.artifact("art_1", FormatSafetensors, weights(5))
	require.Empty(t, d.registered(m, "art_1", "made"), "the first call creates the version with the method's default status 201")
	require.Equal(t, "200", d.registered(m, "art_1", "found"), "the version existed before the first call with this key")
	require.Empty(t, d.registered(m, "art_1", "made"), "a repeat keeps the first status although the version exists now")
	require.Equal(t, "200", d.registered(m, "art_1", ""), "without a key each call finds the existing version")
}

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

// registered registers an artifact many times at once under one key and answers the one status of all.
func (d *desk) registered(m *registryv1.Model, artifactID, key string) string {
	d.t.Helper()
	const n = 20
	answers, statuses, errs := make([]*registryv1.ModelVersion, n), make([]string, n), make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		ctx, h := as(d.t, "usr_1", authn.ProjectEditor, key)
		wg.Go(func() {
			answers[i], errs[i] = d.register(ctx, m, artifactID)
			statuses[i] = strings.Join(h.sent.Get("x-service-status"), "")
		})
	}
	wg.Wait()
	require.NoError(d.t, errors.Join(errs...))
	for i, v := range answers {
		require.True(d.t, proto.Equal(answers[0], v))
		require.Empty(d.t, v.ProtoReflect().GetUnknown(), "what is kept beside an answer is no part of it")
		require.Equal(d.t, statuses[0], statuses[i])
	}
	return statuses[0]
}

func TestARepeatHasTheStatusOfTheFirstAnswer(t *testing.T) {
	t.Parallel()
	d := openDesk(t)
	m := d.model("adder")
	d.artifact("art_1", FormatSafetensors, weights(5))
	require.Empty(t, d.registered(m, "art_1", "made"), "the first one made it: 201 is the method's own status")
	require.Equal(t, "200", d.registered(m, "art_1", "found"), "it was there before the first one")
	require.Empty(t, d.registered(m, "art_1", "made"), "also when it is there by now")
	require.Equal(t, "200", d.registered(m, "art_1", ""), "without a key each is a first one")
}

package restjson_test

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

func TestBodyLacks(t *testing.T) {
	t.Parallel()
	const spec = ` {"name": "", "env": {"a": ""}, "labels": {}, "resources": {"pools": [{"role": "x"}, {"pool": "p", "nodes": null, "role": "]}"}]}}`
	for _, tc := range []struct {
		body string
		loc  []any
		want bool
	}{
		{spec, []any{"name"}, false},
		{spec, []any{"project"}, true},
		{spec, []any{"env", "a"}, false},
		{spec, []any{"env", "b"}, true},
		{spec, []any{"resources", "topology"}, true},
		{spec, []any{"resources", "pools", 0, "pool"}, true},
		{spec, []any{"resources", "pools", 0, "role"}, false},
		{spec, []any{"resources", "pools", 1, "pool"}, false},
		{spec, []any{"resources", "pools", 1, "profile"}, true},
		{spec, []any{"resources", "pools", 2, "pool"}, false}, // the object that would contain it is missing
		{spec, []any{"resources", "pools", 0}, false},
		{spec, []any{"recipe", "name"}, false},
		{spec, []any{"name", "x"}, false},
		{spec, []any{"name", 0, "x"}, false},
		{spec, nil, false},
		{``, []any{"name"}, true},
		{``, []any{"recipe", "name"}, false},
		{``, []any{0}, false},
		{`{"name": 1}`, []any{"project"}, false}, // the body could not be decoded
	} {
		body := restjson.NewBody(io.NopCloser(strings.NewReader(tc.body)))
		_ = restjson.New().NewDecoder(body).Decode(&jobsv1.JobSpec{})
		require.Equal(t, tc.want, body.Lacks(tc.loc), fmt.Sprint(tc.body, tc.loc))
	}
	var none *restjson.Body
	require.False(t, none.Lacks([]any{"name"}))
}

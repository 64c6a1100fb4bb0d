package ingesttoken

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestCredential_oneHeaderOrSameInBoth(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		own, bearer []string
		want        string
	}{
		"service header":        {[]string{"a"}, nil, "a"},
		"padded service header": {[]string{" a "}, nil, "a"},
		"bearer":                {nil, []string{"Bearer a"}, "a"},
		"bearer in any case":    {nil, []string{"bEARER  a"}, "a"},
		"both headers, equal":   {[]string{"a"}, []string{"Bearer a"}, "a"},
		"both headers, unequal": {[]string{"a"}, []string{"Bearer b"}, ""},
		"service header twice":  {[]string{"a", "a"}, nil, ""},
		"bearer twice":          {nil, []string{"Bearer a", "Bearer a"}, ""},
		"another scheme":        {[]string{"a"}, []string{"Basic a"}, ""},
		"no header":             {nil, nil, ""},
		"no scheme":             {nil, []string{"a"}, ""},
	}
	for name, c := range cases {
		h := http.Header{}
		h[HeaderToken], h["Authorization"] = c.own, c.bearer
		got, err := credential(h)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.want == "", fault.Is(err, fault.Unauthenticated), name)
	}
}

func TestGrant_Run_rejectsOtherRuns(t *testing.T) {
	t.Parallel()
	g := &Grant{}
	g.Owner.RunID = "run_1"
	require.NoError(t, g.Run("run_1"))
	for _, other := range []string{"", "run_2", "run_1 ", "RUN_1"} {
		require.True(t, fault.HasCode(g.Run(other), "run_mismatch"), other)
	}
}

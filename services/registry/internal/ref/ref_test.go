package ref_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

func TestParse_roundTrip(t *testing.T) {
	t.Parallel()
	for _, r := range []ref.Ref{
		{Kind: ref.Dataset, Project: "default", Name: "sums", Version: "v1.0-rc_1"},
		{Kind: ref.Model, Project: "search", Name: "a.b", Version: "12"},
	} {
		got, ok := ref.Parse(r.Kind, r.String())
		require.True(t, ok, r.String())
		require.Equal(t, r, got)
	}
}

func TestParse_invalid(t *testing.T) {
	t.Parallel()
	for _, s := range []string{
		"", "ds", "ds/", "ds/p", "ds/p/n", "ds/p/n@", "ds/p/@1", "ds//n@1", "mdl/p/n@1", "ds/p/n@1@2", "ds/p/n/m@1", "ds/p/n@1/2", " ds/p/n@1",
	} {
		_, ok := ref.Parse(ref.Dataset, s)
		require.False(t, ok, s)
	}
}

func TestCheckVersionName(t *testing.T) {
	t.Parallel()
	err := ref.CheckVersionName(ref.Latest)
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.Equal(t, []any{"version"}, fault.From(err).Fields[0].Loc)
	for _, name := range []string{"v1", "1", "Latest", "latest.1", ""} {
		require.NoError(t, ref.CheckVersionName(name), name)
	}
}

package version

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheServerIsNamed(t *testing.T) {
	t.Parallel()
	if build != "" {
		require.Equal(t, build, Server())
		return
	}
	got := Server()
	require.True(t, got == "dev" || strings.HasPrefix(got, "dev-") && len(got) == len("dev-")+12, got)
}

func TestTheDialectIsTheSpecifications(t *testing.T) {
	t.Parallel()
	require.Equal(t, "service/v1", API)
	require.NotEmpty(t, Core)
}

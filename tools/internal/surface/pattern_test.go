package surface

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParsePattern_rest(t *testing.T) {
	t.Parallel()
	for path, fine := range map[string]bool{
		"/x/{rest...}": true, "/{rest...}": true, "/x/{a}/{rest...}": true, "/{rest...}/x": false, "/x/{...}": false, "/x/{rest..}": false, "/x/{Rest...}": false, "/x/{a}/{a...}": false,
	} {
		_, err := parsePattern(path, true)
		require.Equal(t, fine, err == nil, path)
		_, err = parsePattern(path, false)
		require.Error(t, err, path)
	}
}

package blob_test

import (
	"mime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/blob"
)

func TestDisposition(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"model.gguf":       `attachment; filename="model.gguf"`,
		"a b+c (1).tar":    `attachment; filename="a b+c (1).tar"`,
		"重み.safetensors":   `attachment; filename="__.safetensors"; filename*=UTF-8''%E9%87%8D%E3%81%BF.safetensors`,
		`q"uo%te.bin`:      `attachment; filename="q_uo_te.bin"; filename*=UTF-8''q%22uo%25te.bin`,
		"a\r\nSet-X: 1":    `attachment; filename="a__Set-X: 1"`,
		`..\..\etc/passwd`: `attachment; filename=".._.._etc_passwd"`,
		"\xff.bin":         `attachment; filename="_.bin"`,
	} {
		require.Equal(t, want, blob.Disposition(name), name)
		_, params, err := mime.ParseMediaType(want)
		require.NoError(t, err, name)
		require.NotContains(t, params["filename"], "/", name)
	}
	long := blob.Disposition(strings.Repeat("み", 200) + ".bin")
	_, params, err := mime.ParseMediaType(long)
	require.NoError(t, err)
	require.LessOrEqual(t, len(params["filename"]), 255)
	require.True(t, strings.HasSuffix(params["filename"], "み.bin"))
}

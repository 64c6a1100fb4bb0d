package access_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
)

func TestSearch_Snippet(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("数据 ", 50)
	for _, c := range []struct{ words, text, want string }{
		{"lamp", "The  Lamp\nof a yard", "The Lamp of a yard"},
		{"none lamp", "The Lamp", "The Lamp"},
		{"none", "The Lamp", "The Lamp"},
		{"信号", long + "信号 end", "… " + strings.TrimSpace(strings.Repeat("据 数", 13)) + "据 信号 end"},
	} {
		got := access.Search{Text: c.words}.Snippet(&access.Hit{Text: c.text})
		require.NotNil(t, got)
		if strings.HasPrefix(c.want, "… ") {
			require.True(t, strings.HasPrefix(*got, "… ") && strings.HasSuffix(*got, "信号 end"), *got)
			require.LessOrEqual(t, len([]rune(*got)), 60)
			continue
		}
		require.Equal(t, c.want, *got)
	}
	cut := access.Search{Text: "数据"}.Snippet(&access.Hit{Text: long + long})
	require.True(t, strings.HasSuffix(*cut, " …"), *cut)
	require.Nil(t, access.Search{Text: "a"}.Snippet(&access.Hit{}))
}

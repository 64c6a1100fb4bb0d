package webpage

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalNext(t *testing.T) {
	t.Parallel()
	for _, next := range []string{
		"/", "/device", "/device?user_code=WDJB-MJHT", "/jobs/job_1?tab=logs#L10", "/a%20b", "/a?u=https://evil.example", "/a?b=//evil.example", "/é", "/...", "/@evil.example",
		"/api/oauth/authorize?redirect_uri=http%3A%2F%2F127.0.0.1%3A5%2Fcb", "/" + strings.Repeat("x", maxNext-1),
	} {
		require.Equal(t, next, local(next))
	}
	for _, next := range []string{
		"", "//", "//?x", "device", "https://evil.example", "//evil.example", "///evil.example", `/\evil.example`, `\\evil.example`, `/\/evil.example`, "/\t/evil.example", "/\n/evil.example",
		"\t//evil.example", " //evil.example", "/ /evil.example", "http:evil.example", "javascript:alert(1)", "data:text/html,x", "/..//evil.example", "/x/..//evil.example",
		"/x/%2e%2e//evil.example", "/./x", "/a//b", "/%2f/evil.example", "/\x00", "/%zz", "/\xff", "/\x7f", "/" + strings.Repeat("x", maxNext),
		"?next=x", "#x", ".", "..", "@evil.example", ":80",
	} {
		require.Empty(t, local(next), "%q", next)
	}
}

// FuzzNext checks that every accepted value stays on this origin, however a browser parses it.
func FuzzNext(f *testing.F) {
	for _, next := range []string{"/", "//e.x", `/\e.x`, "/a/..//e.x", "/%2e%2e//e.x", "/\t/e.x", "https:/e.x", "/a?b#c"} {
		f.Add(next)
	}
	here, err := url.Parse("https://box.example/login")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, next string) {
		got := local(next)
		if got == "" {
			return
		}
		// Browsers ignore tabs and line breaks and treat a backslash as a slash.
		read := strings.NewReplacer("\t", "", "\n", "", "\r", "", `\`, "/").Replace(strings.TrimSpace(got))
		to, err := here.Parse(read)
		if err != nil || to.Host != here.Host || to.Scheme != "https" || to.User != nil || strings.HasPrefix(to.Path, "//") {
			t.Fatalf("%q leads to %v (%v)", next, to, err)
		}
	})
}

package ingest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/services/ingest"
)

// The node of a line is that of the header of its report. The report is the same with another header, as another version of
// the agent sends it. Nothing of the header is stored for a protected run.
func TestLogs_nodeOfHeader(t *testing.T) {
	t.Parallel()
	r := open(t).replica(ingest.Config{})
	run, sealed := r.train(), r.train()
	sealed.protect()
	report := func(run *training, key, text string, nodes ...string) int {
		req := run.request(http.MethodPost, "logs", key, run.body(`"chunks":["`+text+`\n"]`))
		req.Header["X-Service-Node"] = nodes
		return r.serve(req).status
	}
	require.Equal(t, http.StatusOK, report(run, "w:1", "one", "gpu-1"))
	require.Equal(t, http.StatusOK, report(run, "w:1", "one"), "a repeat without the header is the same report")
	require.Equal(t, http.StatusOK, report(run, "w:2", "two"))
	require.Equal(t, http.StatusOK, report(sealed, "w:1", "planted", "planted"))
	for _, bad := range [][]string{{""}, {"a b"}, {"a", "b"}, {"\xff"}, {"a\tb"}, {strings.Repeat("a", 256)}} {
		require.Equal(t, http.StatusUnprocessableEntity, report(run, "", "no", bad...), "%q", bad)
	}
	nodes := func(run *training, node *string) (out []string) {
		found, err := r.public.SearchLogs(t.Context(), &ingestv1.SearchLogsRequest{Id: run.run, Node: node})
		require.NoError(t, err)
		for _, l := range found.GetLines() {
			out = append(out, l.GetText()+"@"+l.GetNode())
		}
		return out
	}
	require.Equal(t, []string{"one@gpu-1", "two@"}, nodes(run, nil))
	require.Equal(t, []string{"one@gpu-1"}, nodes(run, new("gpu-1")))
	require.Equal(t, []string{"xxxxxxx@"}, nodes(sealed, nil))
	require.Empty(t, nodes(sealed, new("planted")))
}

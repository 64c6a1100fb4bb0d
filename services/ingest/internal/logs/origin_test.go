package logs

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
)

func TestStore_linesOfNodes(t *testing.T) {
	t.Parallel()
	b := open(t)
	first, second := "gpu-1", "gpu-2"
	require.NoError(t, b.group(1,
		Write(groupcommit.Key{Writer: "v", Seq: 1}, Origin{Node: &first}, []string{"a\nb\n"}),
		Write(groupcommit.Key{Writer: "w", Seq: 1}, Origin{Node: &second}, []string{"c\nunfinished"}), writeOf("x", 1, "d\n")))
	s := &Store{Pool: b.pool, Clock: clock.Real()}
	unfinished, _, err := s.Partial(t.Context(), b.run.ID)
	require.NoError(t, err)
	require.Len(t, unfinished, 1)
	require.Equal(t, &second, unfinished[0].Node)
	require.NoError(t, b.group(1, End))
	lines, err := s.Range(t.Context(), b.run.ID, 0, 10)
	require.NoError(t, err)
	got := map[string]*string{}
	for _, l := range lines {
		got[l.Text] = l.Node
	}
	require.Equal(t, map[string]*string{"a": &first, "b": &first, "c": &second, "d": nil, "unfinished": &second}, got)
	for node, want := range map[*string]string{&first: "1 a|2 b", &second: "3 c|5 unfinished", new("gpu"): "", nil: "1 a|2 b|3 c|4 d|5 unfinished"} {
		found, _ := b.search(Query{Node: node, Limit: 10})
		require.Equal(t, want, strings.Join(found, "|"))
	}
	var text strings.Builder
	require.NoError(t, b.download(&text, b.run.LineSeq, &Query{Node: &second}, false))
	require.Equal(t, "c\nunfinished\n", text.String())
}

package httpapi

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/groupcommit"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/ingesttoken"
)

// faultsOf returns the path and type of each fault in err.
func faultsOf(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	f := fault.From(err)
	require.Equal(t, fault.Invalid, f.Kind, err)
	var out []string
	for _, field := range f.Fields {
		out = append(out, fault.Path(field.Loc)+" "+field.Type)
	}
	return out
}

func TestIdempotencyKey_acceptedForms(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("w", maxKey-2)
	cases := []struct {
		given []string
		want  groupcommit.Key
		ok    bool
	}{
		{nil, groupcommit.Key{}, true},
		{[]string{"w:1"}, groupcommit.Key{Writer: "w", Seq: 1}, true},
		{[]string{"host:42:rank0:9223372036854775807"}, groupcommit.Key{Writer: "host:42:rank0", Seq: 1<<63 - 1}, true},
		{[]string{long + ":1"}, groupcommit.Key{Writer: long, Seq: 1}, true},
		{[]string{"w" + long + ":1"}, groupcommit.Key{}, false},
		{[]string{"w:1", "w:1"}, groupcommit.Key{}, false},
		{[]string{""}, groupcommit.Key{}, false},
		{[]string{"w"}, groupcommit.Key{}, false},
		{[]string{":1"}, groupcommit.Key{}, false},
		{[]string{"w:"}, groupcommit.Key{}, false},
		{[]string{"w:0"}, groupcommit.Key{}, false},
		{[]string{"w:-1"}, groupcommit.Key{}, false},
		{[]string{"w:+1"}, groupcommit.Key{}, false},
		{[]string{"w:01"}, groupcommit.Key{}, false},
		{[]string{"w: 1"}, groupcommit.Key{}, false},
		{[]string{"w:9223372036854775808"}, groupcommit.Key{}, false},
		{[]string{"a b:1"}, groupcommit.Key{}, false},
		{[]string{"ü:1"}, groupcommit.Key{}, false},
		{[]string{"w\x00:1"}, groupcommit.Key{}, false},
	}
	for _, c := range cases {
		got, err := idempotencyKey(http.Header{"Idempotency-Key": c.given})
		require.Equal(t, c.want, got, c.given)
		if c.ok {
			require.NoError(t, err, c.given)
			continue
		}
		require.Equal(t, []string{`header["idempotency-key"] string_pattern_mismatch`}, faultsOf(t, err), c.given)
	}
}

func TestReadQuery_requiresExactNames(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		"a=1&b=":        nil,
		"b=2&a=1":       nil,
		"":              {"query.a missing", "query.b missing"},
		"a=1":           {"query.b missing"},
		"a=1&a=1&b=2":   {"query.a value_error"},
		"a=1&b=2&c=3":   {"query.c extra_forbidden"},
		"a=1&b=%zz":     {"query value_error"},
		"a=1&b=2;c=3":   {"query value_error"},
		"A=1&a=1&b=2":   {"query.A extra_forbidden"},
		"a=1&c=1&b=2&":  {"query.c extra_forbidden"},
		"a=%20x&b=%00y": nil,
	}
	for raw, want := range cases {
		got, err := readQuery(&url.URL{RawQuery: raw}, "a", "b")
		require.Equal(t, want, faultsOf(t, err), raw)
		require.Equal(t, want == nil, got != nil, raw)
	}
	many := "a=1&b=2"
	for i := range 200 {
		many += "&x" + strings.Repeat("y", i) + "=1"
	}
	_, err := readQuery(&url.URL{RawQuery: many}, "a", "b")
	require.Len(t, faultsOf(t, err), 50, "a response lists a limited number of faults")
}

// A filter without a value would select everything, and not what the client meant.
func TestDownloads_refuseWrongFilters(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"attempt", "rank", "node", "since", "until", "after", "labels"} {
		_, _, err := logQuery(&url.URL{RawQuery: name + "="})
		require.Equal(t, []string{"query." + name + " string_too_short"}, faultsOf(t, err))
	}
	for _, name := range []string{"format", "attempt", "rank"} {
		_, err := exportQuery(&url.URL{RawQuery: name + "="})
		require.Equal(t, []string{"query." + name + " string_too_short"}, faultsOf(t, err))
	}
	for _, query := range []string{"rank=16777217", "rank=-1", "rank=x", "attempt=0", "attempt=1000000000", "attempt=01", "attempt=%2B1", "attempt=All"} {
		_, err := exportQuery(&url.URL{RawQuery: query})
		name, _, _ := strings.Cut(query, "=")
		require.Equal(t, []string{"query." + name + " value_error"}, faultsOf(t, err), query)
	}
	e, err := exportQuery(&url.URL{RawQuery: "rank=16777216&attempt=999999999"})
	require.NoError(t, err)
	require.Equal(t, []int32{16777216, 999_999_999}, []int32{*e.rank, e.attempt})
	q, _, err := logQuery(&url.URL{RawQuery: "node=gpu-1&rank=2"})
	require.NoError(t, err)
	require.Equal(t, []any{"gpu-1", int32(2)}, []any{*q.Node, *q.Rank})
}

func TestUpload_checksValues(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"run_id": "r", "kind": "checkpoint", "path": "m.gguf", "size_bytes": "4", "sha256": strings.Repeat("0a", 32),
	}
	u, err := upload(good)
	require.NoError(t, err)
	require.Equal(t, int64(4), u.Size)
	require.Equal(t, good["sha256"], u.SHA256)
	long := maps.Clone(good)
	long["path"] = strings.Repeat("\u00e9", maxPath)
	_, err = upload(long)
	require.NoError(t, err, "the length counts characters, as documented and as in the report of the artifact")
	cases := []struct {
		name string
		bad  []string
	}{
		{"kind", []string{"", "model", "Checkpoint"}},
		{"path", []string{"", strings.Repeat("p", maxPath+1), strings.Repeat("\u00e9", maxPath+1)}},
		{"size_bytes", []string{"", "-1", "1.5", "1e3", "99999999999999999999"}},
		{"sha256", []string{"", strings.Repeat("0A", 32), strings.Repeat("0a", 31), strings.Repeat("0a", 33), strings.Repeat("zz", 32)}},
	}
	for _, c := range cases {
		for _, value := range c.bad {
			q := maps.Clone(good)
			q[c.name] = value
			_, err := upload(q)
			got := faultsOf(t, err)
			require.Len(t, got, 1, "%s=%s", c.name, value)
			require.True(t, strings.HasPrefix(got[0], "query."+c.name+" "), got[0])
		}
	}
	_, err = upload(map[string]string{})
	require.Len(t, faultsOf(t, err), 4, "all faults are reported together")
}

// brokenBody is a body that cannot be read.
type brokenBody struct{}

func (brokenBody) Read([]byte) (int, error) { return 0, errors.New("gone") }

func TestHandler_read_boundsBody(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		body     io.Reader
		length   int64
		encoding string
		want     fault.Kind
		inFlight int64 // bytes that are reserved until release is called
	}{
		"small":                 {strings.NewReader("{}"), 2, "", "", 2},
		"identity":              {strings.NewReader("{}"), 2, "Identity", "", 2},
		"chunked":               {strings.NewReader("{}"), -1, "", "", usual},
		"maximum size":          {bytes.NewReader(make([]byte, usual)), usual, "", "", usual},
		"too large by header":   {strings.NewReader("{}"), usual + 1, "", fault.TooLarge, 0},
		"chunked and too large": {bytes.NewReader(make([]byte, usual+1)), -1, "", fault.TooLarge, 0},
		"compressed":            {strings.NewReader("{}"), 2, "gzip", fault.Invalid, 0},
		"incomplete":            {brokenBody{}, 2, "", fault.Refused, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &Handler{}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/ingest/logs", c.body)
			r.ContentLength = c.length
			if c.encoding != "" {
				r.Header.Set("Content-Encoding", c.encoding)
			}
			req := request{grant: &ingesttoken.Grant{}}
			release, err := h.read(httptest.NewRecorder(), r, &req, usual)
			require.Equal(t, c.inFlight, h.bodies.total)
			if c.want != "" {
				require.True(t, fault.Is(err, c.want), "%v", err)
				return
			}
			require.NoError(t, err)
			release()
			require.Zero(t, h.bodies.total, "release frees the reserved memory")
		})
	}
}

func TestHandler_read_boundsAllBodies(t *testing.T) {
	t.Parallel()
	h := &Handler{}
	h.bodies.total = maxInFlight - 1
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/api/ingest/logs", strings.NewReader("{}"))
	_, err := h.read(httptest.NewRecorder(), r, &request{grant: &ingesttoken.Grant{}}, usual)
	require.True(t, fault.HasCode(err, "ingest_busy"), "%v", err)
	require.EqualValues(t, maxInFlight-1, h.bodies.total)
}

func TestHandler_route_methods(t *testing.T) {
	t.Parallel()
	h := &Handler{}
	posts := []string{
		"lifecycle", "metrics", "hparams", "validation", "logs", "artifact", "hardware", "environment", "environment/nodes", "benchmark",
	}
	check := func(method, path string, want fault.Kind) {
		serve, err := h.route(path, method)
		if want == "" {
			require.NoError(t, err, path)
			require.NotNil(t, serve, path)
			return
		}
		require.True(t, fault.Is(err, want), "%s %s: %v", method, path, err)
	}
	for _, path := range posts {
		check(http.MethodPost, path, "")
		check(http.MethodGet, path, fault.MethodNotAllowed)
	}
	for _, path := range []string{"artifact/upload-url", "watermark"} {
		check(http.MethodGet, path, "")
		check(http.MethodPost, path, fault.MethodNotAllowed)
	}
	for _, path := range []string{"", "/", "metric", "metrics/", "Metrics", "environment/", "../ingest/logs"} {
		check(http.MethodPost, path, fault.Absent)
	}
}

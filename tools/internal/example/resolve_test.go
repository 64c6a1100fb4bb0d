package example

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMatcher(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"<<any>>":                      {"any", "", ""},
		"<<id job as mine>>":           {"id", "job", "mine"},
		"<<null or time>>":             {"time", "", ""},
		"<<string as target>>":         {"string", "", "target"},
		"<<like a b(c) as d>>":         {"like", "a b(c)", "d"},
		"<<like a\nb>>":                {"like", "a\nb", ""},
		"<<null or like x as y as z>>": {"like", "x as y", "z"},
		"text":                         nil,
		"<<any":                        nil,
	} {
		require.Equal(t, want, matcher(text), text)
	}
}

func TestResolver_json(t *testing.T) {
	t.Parallel()
	r := &resolver{doc: &document{models: map[string]map[string]any{}}, captured: map[string]string{}}
	for _, c := range []struct{ body, want string }{
		{`"<<like /api/(blobs)/x as part>>"`, `"/api/blobs/x"`},
		{`{"a": "{{part}}", "b": 12345678901234567890, "c": null, "d": [1, 2, 3]}`, `{"a": "blobs", "b": 12345678901234567890, "c": null, "d": [1, 2]}`},
		{`["<<each>>", {"n": "<<number as n>>"}]`, `[{"n": 1}]`},
		{`{"n": {{n}}, "digest": "<<digest>>", "lock": {{recipe_lock}}}`, `{"n": 1, "digest": "sha256:` + digits + `", "lock": ` + variables()["recipe_lock"] + `}`},
		{`"<<bool>>"`, `true`},
		{`"{{run}}"`, `"run_` + ulid + `"`},
	} {
		v, err := r.json(c.body, nil)
		require.NoError(t, err, c.body)
		got, err := json.Marshal(v)
		require.NoError(t, err)
		require.JSONEq(t, c.want, string(got), c.body)
		require.False(t, r.open, c.body)
	}
	for _, body := range []string{`{{nothing}}`, `{"a": NaN}`, `{} {}`, `{`} {
		_, err := r.json(body, nil)
		require.Error(t, err, body)
	}
	_, err := r.json(`{"a": {"<<rest>>": "<<any>>"}}`, nil)
	require.NoError(t, err)
	require.True(t, r.open)
}

func TestConstants_areNoSecrets(t *testing.T) {
	t.Parallel()
	require.Contains(t, secret, "Examp1e")
	require.Contains(t, token(), "Examp1e")
	require.Len(t, ulid, 26)
	require.Regexp(t, `^[0-7][0-9a-hjkmnp-tv-z]{25}$`, ulid)
	require.Len(t, digits, 64)
	for name, v := range variables() {
		require.NotContains(t, v, "{{", name)
	}
}

package exchange

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func cut(line string) (before, after string, found bool) { return strings.Cut(line, " ") }

const aULID = "01jd8f4v3yqk7m2n5p6r8s9t0w"

// TestMatch_reportsEveryDifference compares the first column with the second. The third column lists all
// differences.
func TestMatch_reportsEveryDifference(t *testing.T) {
	t.Parallel()
	for _, c := range [][3]string{
		{`{"a": 1}`, `{"a": 1}`, ``},
		{`{"a": 1}`, `{"a": 2}`, `a: want 1, got 2`},
		{`{"a": 1}`, `{"a": 1.0}`, `a: want 1, got 1.0`},
		{`{"a": 1.0}`, `{"a": 1}`, `a: want 1.0, got 1`},
		{`{"a": 1.5}`, `{"a": 15e-1}`, ``},
		{`{"a": 1}`, `{"a": "1"}`, `a: want 1, got "1"`},
		{`{"a": "1"}`, `{"a": 1}`, `a: want "1", got 1`},
		{`{"a": 9007199254740993}`, `{"a": 9007199254740992}`, `a: want 9007199254740993, got 9007199254740992`},
		{`{"a": null}`, `{}`, `a: want null, got nothing`},
		{`{}`, `{"a": null}`, `a: want nothing, got null`},
		{`{"a": false}`, `{"a": null}`, `a: want false, got null`},
		{`{"a": {"b": [1]}}`, `{"a": {"b": [1, 2]}}`, `a.b[1]: want nothing, got 2`},
		{`[1, 2]`, `[1]`, `[1]: want 2, got nothing`},
		{`[1, 2]`, `[2, 1]`, `[0]: want 1, got 2; [1]: want 2, got 1`},
		{`[]`, `{}`, `body: want an array, got {}`},
		{`{}`, `[]`, `body: want an object, got []`},
		{`{"a": 1, "<<rest>>": "<<any>>"}`, `{"a": 1, "b": 2}`, ``},
		{`{"a": 1, "<<rest>>": "<<any>>"}`, `{"b": 2}`, `a: want 1, got nothing`},
		{`["<<each>>", {"a": "<<int>>"}]`, `[{"a": 1}, {"a": 2}]`, ``},
		{`["<<each>>", {"a": "<<int>>"}]`, `[{"a": 1}, {"a": "x"}]`, `[1].a: want <<int>>, got "x"`},
		{`["<<each>>", 1]`, `[]`, `body: want at least one 1, got []`},
		{`["<<some>>", {"a": 2}]`, `[{"a": 1}, {"a": 2}]`, ``},
		{`["<<some>>", {"a": 3}]`, `[{"a": 1}]`, `body: want one element like {"a":3}, got [{"a":1}]; [0].a: want 3, got 1`},
		{`["<<some>>", 1, "<<each>>", "<<int>>"]`, `[2, 1]`, ``},
		{`["<<some>>"]`, `[2]`, `body: want pairs of <<each>> or <<some>> and an element, got "<<some>>"`},
		{`"<<any>>"`, `{"whatever": []}`, ``},
		{`"<<string>>"`, `1`, `body: want <<string>>, got 1`},
		{`"<<int>>"`, `1.0`, `body: want <<int>>, got 1.0`},
		{`"<<int>>"`, `1e2`, `body: want <<int>>, got 1e2`},
		{`"<<number>>"`, `1.0`, ``},
		{`"<<number>>"`, `"1"`, `body: want <<number>>, got "1"`},
		{`"<<bool>>"`, `true`, ``},
		{`"<<bool>>"`, `0`, `body: want <<bool>>, got 0`},
		{`"<<time>>"`, `"2026-11-21T03:00:00.123456+00:00"`, ``},
		{`"<<time>>"`, `"2026-11-21T03:00:00.123Z"`, `body: want <<time>>, got "2026-11-21T03:00:00.123Z"`},
		{`"<<time>>"`, `null`, `body: want <<time>>, got null`},
		{`"<<null or time>>"`, `null`, ``},
		{`"<<null or time>>"`, `"2026-11-21T03:00:00.123456+00:00"`, ``},
		{`"<<digest>>"`, `"sha256:` + strings.Repeat("a1", 32) + `"`, ``},
		{`"<<digest>>"`, `"sha256:` + strings.Repeat("A1", 32) + `"`, `body: want <<digest>>, got "sha256:` + strings.Repeat("A1", 32) + `"`},
		{`"<<id job>>"`, `"job_` + aULID + `"`, ``},
		{`"<<id job>>"`, `"run_` + aULID + `"`, `body: want <<id job>>, got "run_` + aULID + `"`},
		{`"<<id job>>"`, `"job_` + aULID[1:] + `"`, `body: want <<id job>>, got "job_` + aULID[1:] + `"`},
		{`"<<like [a-c]+>>"`, `"abc"`, ``},
		{`"<<like [a-c]+>>"`, `"abcd"`, `body: want <<like [a-c]+>>, got "abcd"`},
		{`"<<like [>>"`, `"x"`, `body: want <<like [>> (error parsing regexp: missing closing ]: ` + "`[)$`" + `), got "x"`},
		{`"<<wrong>>"`, `"x"`, `body: want <<wrong>> (unknown matcher "wrong"), got "x"`},
		{`"a << b >>"`, `"a << b >>"`, ``},
	} {
		want, err := Decode([]byte(c[0]))
		require.NoError(t, err)
		got, err := Decode([]byte(c[1]))
		require.NoError(t, err)
		var faults []string
		for _, f := range Match(want, got, func(string, string) {}) {
			faults = append(faults, f.String())
		}
		require.Equal(t, c[2], strings.Join(faults, "; "), "%s against %s", c[0], c[1])
	}
}

func TestMatch_keepsCaptures(t *testing.T) {
	t.Parallel()
	want, err := Decode([]byte(`{"list": ["<<some>>", {"name": "mine", "id": "<<id run as run>>"}], "n": "<<int as n>>",
		"c": "<<like x=([0-9]+);.* as cookie>>", "o": "<<any as whole>>"}`))
	require.NoError(t, err)
	got, err := Decode([]byte(`{"list": [{"name": "other", "id": "run_` + aULID + `"}, {"name": "mine", "id": "run_` + aULID[:25] + `x"}],
		"n": 12, "c": "x=7; Path=/", "o": {"b": 1}}`))
	require.NoError(t, err)
	captured := map[string]string{}
	require.Empty(t, Match(want, got, func(name, value string) { captured[name] = value }))
	require.Equal(t, map[string]string{"run": "run_" + aULID[:25] + "x", "n": "12", "cookie": "7", "whole": `{"b":1}`}, captured)
}

func TestDecode(t *testing.T) {
	t.Parallel()
	for text, words := range map[string]string{
		`{"a": 1, "a": 1}`:          `duplicate member a`,
		`{"a": [{"b": 1, "b": 2}]}`: `duplicate member a[0].b`,
		`{"a": 1, "\u0061": 2}`:     `duplicate member a`,
		`{} {}`:                     `data after the JSON value`,
		`{}x`:                       `data after the JSON value`,
		`{"a": }`:                   `invalid JSON`,
		`{"a": 1`:                   `EOF`,
		``:                          `EOF`,
		"\"\xff\"":                  `invalid UTF-8`,
	} {
		_, err := Decode([]byte(text))
		require.ErrorContains(t, err, words, text)
	}
	v, err := Decode([]byte("{\"a\": 1, \"A\": 1}\n"))
	require.NoError(t, err, "member names must be case-sensitive")
	require.Len(t, v, 2)
}

package canon_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/canon"
)

func skip(raw string, rules canon.Rules) error {
	return canon.Read([]byte(raw), rules, (*canon.Reader).Skip)
}

func TestReader_Skip_errors(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		`{"a":[1,-2.5e3,"x",true,null,{}]}`: "",
		`1e999`:                             "",
		`[[]]`:                              "",
		`{"a":1,"A":2}`:                     "",
		`{"a":1,"a":1}`:                     `duplicate member "a"`,
		`[{"b":{"x":1,"\u0078":2}}]`:        `duplicate member "x"`,
		`[[[[]]]]`:                          "nested deeper than 3",
		`{"a":{"b":{"c":{}}}}`:              "nested deeper than 3",
		`{} {}`:                             "data after the JSON value",
		`{}x`:                               "data after the JSON value",
		``:                                  "invalid JSON",
		`{`:                                 "invalid JSON",
		`{"a"`:                              "invalid JSON",
		`{"a":`:                             "invalid JSON",
		`{"a":1,}`:                          "invalid JSON",
		`{"a":1]`:                           "invalid JSON",
		`[1,]`:                              "invalid JSON",
		`[1`:                                "invalid JSON",
		`{1:2}`:                             "invalid JSON",
	} {
		err := skip(raw, canon.Rules{Depth: 3})
		if want == "" {
			require.NoError(t, err, raw)
			continue
		}
		require.ErrorContains(t, err, want, raw)
	}
}

func TestReader_FoldNames(t *testing.T) {
	t.Parallel()
	fold := canon.Rules{Depth: 3, FoldNames: true}
	var twice *canon.DuplicateError
	require.ErrorAs(t, skip(`{"sub":1,"SUB":2}`, fold), &twice)
	require.Equal(t, "SUB", twice.Name)
	require.NoError(t, skip(`[{"sub":1},{"SUB":2}]`, fold))
}

func TestReader_Object(t *testing.T) {
	t.Parallel()
	read := func(raw string) (got []string, err error) {
		err = canon.Read([]byte(raw), canon.Rules{Depth: 1}, func(r *canon.Reader) error {
			return r.Object(func(name string) error {
				value, err := r.Raw()
				got = append(got, name+"="+string(value))
				return err
			})
		})
		return got, err
	}
	got, err := read(`{"a": [{"b": [1.50]}], "c": 1e-99999999}`)
	require.NoError(t, err, "the rules do not apply inside a raw value")
	require.Equal(t, []string{`a=[{"b": [1.50]}]`, "c=1e-99999999"}, got)
	_, err = read(`[1]`)
	require.ErrorContains(t, err, "not a JSON object")
	_, err = read(`{"a": 1, "a": 2}`)
	require.ErrorContains(t, err, "duplicate")
	_, err = read(`{"a": nope}`)
	require.ErrorContains(t, err, "invalid JSON")
	mine := errors.New("mine")
	err = canon.Read([]byte(`{"a":1}`), canon.Rules{Depth: 1}, func(r *canon.Reader) error {
		return r.Object(func(string) error { return mine })
	})
	require.Equal(t, mine, err)
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5e3,"\u20ac"],"b":null}`))
	f.Add([]byte(strings.Repeat("[", 20) + strings.Repeat("]", 20)))
	f.Fuzz(func(t *testing.T, in []byte) {
		if canon.Read(in, canon.Rules{Depth: 100, FoldNames: true}, (*canon.Reader).Skip) == nil {
			require.True(t, json.Valid(in))
		}
	})
}

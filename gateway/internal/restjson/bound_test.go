package restjson_test

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestDecodeIntegerBounds(t *testing.T) {
	t.Parallel()
	for member, bounds := range map[string][2]string{
		"steps":      {"-2147483648", "2147483647"},
		"tokens":     {"-9223372036854775808", "9223372036854775807"},
		"small":      {"0", "4294967295"},
		"bytes_seen": {"0", "18446744073709551615"},
		"seed":       {"-9223372036854775808", "9223372036854775807"},
	} {
		for _, text := range bounds {
			m, f := decoded(t, `{"`+member+`":`+text+`}`)
			require.Nil(t, f, member)
			data, err := restjson.New().Marshal(m)
			require.NoError(t, err)
			require.Contains(t, string(data), `"`+member+`":`+text, "all digits are kept")
		}
		for _, text := range []string{"-9223372036854775809", "18446744073709551616", "1" + strings.Repeat("0", 400)} {
			_, f := decoded(t, `{"`+member+`":`+text+`}`)
			require.NotNil(t, f, "%s: %s", member, text)
			require.Equal(t, "[body "+member+"] int_parsing", at(f.Fields[0]))
		}
		for _, text := range []string{"1.0", "1e0", "1E+2", "-0.0", `"1"`, "true", "[1]", `{"a":1}`} {
			_, f := decoded(t, `{"`+member+`":`+text+`}`)
			require.NotNil(t, f, "%s: %s", member, text)
			require.Equal(t, "[body "+member+"] int_type", at(f.Fields[0]))
		}
	}
}

func TestMapKeysHaveOneSpelling(t *testing.T) {
	t.Parallel()
	for _, good := range []string{"0", "7", "-7", "2147483647", "-2147483648"} {
		_, f := decoded(t, `{"by_step":{"`+good+`":{}}}`)
		require.Nil(t, f, good)
	}
	for _, bad := range []string{"", "-0", "+7", "07", " 7", "7 ", "7.0", "2147483648", "0x7", "1e1", "true"} {
		_, f := decoded(t, `{"by_step":{"`+bad+`":{}}}`)
		require.NotNil(t, f, "%q must not be a valid key", bad)
		require.Equal(t, fault.TypeIntParsing, f.Fields[0].Type)
		require.Equal(t, []any{"body", "by_step", bad}, f.Fields[0].Loc)
	}
	for _, bad := range []string{"", "True", "1", "0", "TRUE", "yes", "null"} {
		_, f := decoded(t, `{"flags":{"`+bad+`":"x"}}`)
		require.NotNil(t, f, bad)
	}
	_, f := decoded(t, `{"counts":{"a\u0000":1}}`)
	require.NotNil(t, f, "a string key must not contain NUL")
}

func TestDecodeTimes(t *testing.T) {
	t.Parallel()
	stamp := func(s string) time.Time {
		at, err := time.Parse(time.RFC3339Nano, s)
		require.NoError(t, err)
		return at.UTC()
	}
	for text, want := range map[string]string{
		"2026-11-21T03:00:00Z":                "2026-11-21T03:00:00Z",
		"2026-11-21T03:00:00.1Z":              "2026-11-21T03:00:00.1Z",
		"2026-11-21T03:00:00.123456789Z":      "2026-11-21T03:00:00.123456789Z",
		"2026-11-21T03:00:00+14:00":           "2026-11-20T13:00:00Z",
		"2026-11-21 03:00:00+00:00":           "2026-11-21T03:00:00Z",
		"2026-11-21T03:00:00-0330":            "2026-11-21T06:30:00Z",
		"2026-11-21T03:00:00-12:00":           "2026-11-21T15:00:00Z",
		"2026-11-21T03:00:00+23:59":           "2026-11-20T03:01:00Z",
		"2026-11-21T03:00:00-00:00":           "2026-11-21T03:00:00Z",
		"2024-02-29T00:00:00Z":                "2024-02-29T00:00:00Z",
		"0001-01-01T00:00:00Z":                "0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59.999999+00:00":    "9999-12-31T23:59:59.999999Z",
		"0001-01-01T01:00:00+01:00":           "0001-01-01T00:00:00Z",
		"1969-12-31T23:59:59.999999999+00:00": "1969-12-31T23:59:59.999999999Z",
	} {
		got, ok := scalar.Time(text)
		require.True(t, ok, text)
		require.Equal(t, stamp(want), got, text)
		_, f := decoded(t, `{"started_at":"`+text+`","times":["`+text+`"]}`)
		require.Nil(t, f, text)
	}
	for _, text := range []string{
		"", "2026-11-21", "2026-11-21T03:00:00", "2026-11-21t03:00:00Z", "2026-11-21T03:00:00z", "2026-11-21T03:00Z",
		"2026-11-21T03:00:00+01", "2026-11-21T03:00:00 +01:00", "2026-11-21T24:00:00Z", "2026-11-21T03:60:00Z",
		"2026-11-21T03:00:60Z", "2025-02-29T00:00:00Z", "2026-13-01T00:00:00Z", "2026-00-10T00:00:00Z", "2026-01-00T00:00:00Z",
		"0000-12-31T23:59:59Z", "0001-01-01T00:00:00+01:00", "9999-12-31T23:59:59-01:00", "10000-01-01T00:00:00Z", "-0001-01-01T00:00:00Z",
		"2026-11-21T03:00:00.Z", "2026-11-21T03:00:00,5Z", "2026-11-21T03:00:00Zx", " 2026-11-21T03:00:00Z", "2026-11-21T03:00:00Z ",
		"２026-11-21T03:00:00Z", "1795230000", "2026-W47-6T03:00:00Z", "2026-11-21T03:00:00+24:00", "2026-11-21T03:00:00-00:60", "2026-11-21T03:00:00.5+23:99", "2026-11-21T3:00:00Z", "2026-1-2T03:00:00Z",
	} {
		_, ok := scalar.Time(text)
		require.False(t, ok, "%q", text)
		_, f := decoded(t, `{"times":["2026-11-21T03:00:00Z","`+text+`"]}`)
		require.NotNil(t, f, text)
		require.Equal(t, "[body times 1] datetime_parsing", at(f.Fields[0]))
	}
}

func TestTruncatedBodiesAreSyntaxErrors(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	for _, mt := range messages(t) {
		m := mt.New()
		messageGenerator{rand.New(rand.NewPCG(3, 3))}.message(m, 2)
		data, err := codec.Marshal(m.Interface())
		require.NoError(t, err)
		for cut := 1; cut < len(data); cut += 1 + len(data)/200 {
			f := fault.From(codec.Unmarshal(data[:cut], mt.New().Interface()))
			require.NotNil(t, f, "%s", data[:cut])
			require.Equal(t, fault.TypeJSON, f.Fields[0].Type, "%s", data[:cut])
			offset, ok := f.Fields[0].Loc[1].(int)
			require.True(t, ok)
			require.LessOrEqual(t, offset, cut)
		}
		for _, more := range []string{"x", "{}", ",", "]", "null", "\x00", "\ufeff", "//", "\v", "\u00a0"} {
			f := fault.From(codec.Unmarshal([]byte(string(data)+more), mt.New().Interface()))
			require.NotNil(t, f, "%q after the end of the body must be refused", more)
			require.Equal(t, []any{"body", len(data)}, f.Fields[0].Loc, "%q", more)
		}
		require.NoError(t, codec.Unmarshal([]byte(string(data)+" \t\r\n"), mt.New().Interface()))
	}
}

func TestCorruptedBodiesAreClientFaults(t *testing.T) {
	t.Parallel()
	codec, d := restjson.New(), messageGenerator{rand.New(rand.NewPCG(11, 5))}
	for _, mt := range messages(t) {
		m := mt.New()
		d.message(m, 2)
		data, err := codec.Marshal(m.Interface())
		require.NoError(t, err)
		for range 40 {
			broken := []byte(string(data))
			broken[d.IntN(len(broken))] = byte(d.IntN(256))
			got := mt.New().Interface()
			err := codec.Unmarshal(broken, got)
			if err == nil {
				_, err = codec.Marshal(got)
				require.NoError(t, err, "a decoded message must encode: %s", broken)
				continue
			}
			f := fault.From(err)
			require.Equal(t, fault.Invalid, f.Kind, "%v: %s", err, broken)
			for _, field := range f.Fields {
				require.Equal(t, "body", field.Loc[0])
			}
		}
	}
}

func TestInvalidUTF8Refused(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"\xff", "\xc0\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "a\x80"} {
		for _, body := range []string{
			`{"job_id":"` + bad + `"}`, `{"` + bad + `":1}`, `{"names":["` + bad + `"]}`, `{"counts":{"` + bad + `":1}}`,
			`{"spec":"` + bad + `"}`, `{"spec":{"` + bad + `":1}}`, `{"nope":"` + bad + `"}`, `{"blob":"` + bad + `"}`, `{"state":"` + bad + `"}`,
		} {
			_, f := decoded(t, body)
			require.NotNil(t, f, "%q", body)
			require.Equal(t, fault.TypeJSON, f.Fields[0].Type, "%q", body)
			require.Equal(t, "Invalid UTF-8", f.Fields[0].Ctx["error"], "%q", body)
		}
	}
	m, f := decoded(t, `{"job_id":"\ufffd\ufeff`+"\u2028"+`"}`)
	require.Nil(t, f, "U+FFFD, U+FEFF and U+2028 are valid characters and are accepted")
	require.NotNil(t, m)
}

package decode_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// read calls the given function on a Reader of the body and returns the faults.
func read(t *testing.T, body string, value func(r *decode.Reader)) []string {
	t.Helper()
	err := decode.Body([]byte(body), value)
	if err == nil {
		return nil
	}
	return faults(t, err)
}

func TestReader_Int_acceptsIntegersOnly(t *testing.T) {
	t.Parallel()
	cases := map[string]string{
		"0": "", "-0": "", "-1": "", "9223372036854775807": "", "-9223372036854775808": "", " \n7\t": "",
		"9223372036854775808": "int_parsing", "-9223372036854775809": "int_parsing", "1.0": "int_parsing", "1e0": "int_parsing", "-0.0": "int_parsing",
		`"1"`: "int_type", "true": "int_type", "null": "int_type", "[1]": "int_type", `{"a":1}`: "int_type",
		"NaN": "int_type", "-Infinity": "int_type", "Infinity": "int_type", `"NaN"`: "int_type",
		"01": "json_invalid", "-": "json_invalid", "+1": "json_invalid", "1.": "json_invalid", ".5": "json_invalid", "1e": "json_invalid", "1e+": "json_invalid",
		"0x10": "json_invalid", "1_000": "json_invalid", "--1": "json_invalid", "-01": "json_invalid", "١": "json_invalid", "1 2": "json_invalid",
	}
	for body, want := range cases {
		got := read(t, body, func(r *decode.Reader) { r.Int() })
		if want == "" {
			require.Empty(t, got, body)
			continue
		}
		require.Len(t, got, 1, body)
		require.True(t, strings.HasSuffix(got[0], " "+want), "%s: %s", body, got[0])
		require.Equal(t, want != "json_invalid", got[0] == "body "+want, "%s: %s", body, got[0])
	}
}

// The error for a number beyond 64 bits names the range.
func TestReader_Int_namesRange(t *testing.T) {
	t.Parallel()
	for _, body := range []string{"9223372036854775808", "-9223372036854775809", "1" + strings.Repeat("0", 400)} {
		err := decode.Body([]byte(body), func(r *decode.Reader) { r.Int() })
		f, ok := errors.AsType[*fault.Error](err)
		require.True(t, ok, body)
		require.Equal(t, "Input should be an integer from -9223372036854775808 to 9223372036854775807", f.Fields[0].Msg)
	}
}

func TestReader_Time_formsOfPython(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]time.Time{
		`"2026-11-26 21:00:00+00:00"`:       time.Date(2026, 11, 26, 21, 0, 0, 0, time.UTC),
		`"2026-11-26 21:00:00.123456-0330"`: time.Date(2026, 11, 27, 0, 30, 0, 123456000, time.UTC),
		`"2026-11-26T21:00:00-0330"`:        time.Date(2026, 11, 27, 0, 30, 0, 0, time.UTC),
	} {
		var got time.Time
		require.Empty(t, read(t, body, func(r *decode.Reader) { got = r.Time() }), body)
		require.Equal(t, want, got, body)
		var c decode.Columns
		require.NoError(t, decode.Metrics([]byte(`{"run_id":"r","points":[{"key":"k","step":1,"value":1,"ts":`+body+`}]}`), &c), body)
		require.Equal(t, 1, c.Len())
	}
}

func TestReader_Float_acceptedForms(t *testing.T) {
	t.Parallel()
	values := map[string]float64{
		"NaN": math.NaN(), `"NaN"`: math.NaN(), "Infinity": math.Inf(1), `"Infinity"`: math.Inf(1), "-Infinity": math.Inf(-1), `"-Infinity"`: math.Inf(-1),
		"0": 0, "-0": math.Copysign(0, -1), "-0.0": math.Copysign(0, -1), "1e-400": 0, "5e-324": math.SmallestNonzeroFloat64, "1.7976931348623157e308": math.MaxFloat64,
		"0.1": 0.1, "123456789012345678901234567890": 123456789012345678901234567890,
	}
	for body, want := range values {
		var got float64
		require.Empty(t, read(t, body, func(r *decode.Reader) { got = r.Float() }), body)
		if math.IsNaN(want) {
			require.True(t, math.IsNaN(got), body)
			continue
		}
		require.Equal(t, math.Float64bits(want), math.Float64bits(got), body)
	}
	wrong := map[string]string{
		"1e309": "body finite_number", "-1e309": "body finite_number", "1" + strings.Repeat("0", 400): "body finite_number",
		`"nan"`: "body float_type", `"NAN"`: "body float_type", `"inf"`: "body float_type", `"+Infinity"`: "body float_type", `"1.5"`: "body float_type",
		`"N\u0061N"`: "body float_type", `" NaN"`: "body float_type", "true": "body float_type", "null": "body float_type", "[]": "body float_type", "{}": "body float_type",
		"nan": "body[0] json_invalid", "NAN": "body[0] json_invalid", "inf": "body[0] json_invalid", "+Infinity": "body[0] json_invalid", "-NaN": "body[0] json_invalid",
		"NaNx": "body[3] json_invalid", "Infinity1": "body[8] json_invalid", "-Inf": "body[0] json_invalid",
	}
	for body, want := range wrong {
		require.Equal(t, []string{want}, read(t, body, func(r *decode.Reader) { r.Float() }), body)
	}
}

func TestReader_Time_requiresOffset(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		"2026-11-21T09:33:00Z":                "2026-11-21T09:33:00Z",
		"2026-11-21T09:33:00+00:00":           "2026-11-21T09:33:00Z",
		"2026-11-21T00:03:00.1234567+05:30":   "2026-11-20T18:33:00.123456Z",
		"2026-11-21T09:33:00.123456789-08:00": "2026-11-21T17:33:00.123456Z",
		"2024-02-29T23:59:59.999999999Z":      "2024-02-29T23:59:59.999999Z",
		"0001-01-01T00:00:00Z":                "0001-01-01T00:00:00Z",
		"9999-12-31T23:59:59Z":                "9999-12-31T23:59:59Z",
	} {
		var got string
		require.Empty(t, read(t, `"`+body+`"`, func(r *decode.Reader) { got = r.Time().Format("2006-01-02T15:04:05.999999999Z07:00") }), body)
		require.Equal(t, want, got, body)
	}
	for _, body := range []string{
		`""`, `"2026-11-21"`, `"2026-11-21T09:33:00"`, `"2026-11-21  09:33:00Z"`, `"2026-02-30T00:00:00Z"`, `"2025-02-29T00:00:00Z"`, `"2026-13-01T00:00:00Z"`,
		`"2026-11-21T24:00:00Z"`, `"2026-11-21T09:60:00Z"`, `"2026-11-21T09:33:60Z"`, `"0000-01-01T00:00:00Z"`, `"0001-01-01T00:00:00+01:00"`,
		`"9999-12-31T23:59:59-01:00"`, `"-2026-11-21T09:33:00Z"`, `"12026-11-21T09:33:00Z"`, `"2026-11-21T09:33:00Z "`, `"now"`, "1764000000", "null", "[]", "{}", "true",
	} {
		require.Equal(t, []string{"body datetime_parsing"}, read(t, body, func(r *decode.Reader) { r.Time() }), body)
	}
}

func TestReader_Text_rejectsUnpairedSurrogates(t *testing.T) {
	t.Parallel()
	text := func(r *decode.Reader) { r.Text(0, 9) }
	names := func(r *decode.Reader) { r.Entries(9, 0, 9, func(string) { r.Skip() }) }
	strict := func(r *decode.Reader) { r.Strict() }
	for _, c := range []struct {
		body string
		read func(r *decode.Reader)
		want []string
	}{
		{`"a\ud800"`, text, []string{"body value_error"}},
		{`"\udc00\ud800"`, text, []string{"body value_error"}},
		{`"\u0000\ud800"`, text, []string{"body value_error"}},
		{`["\ud800"]`, text, []string{"body string_type"}},
		{`"\ud83d\ude00\ufffd"`, text, nil},
		{`{"\ud800":"a","b":"\ud800","c":1}`, names, []string{"body[\"\ufffd\"] value_error"}},
		{`["a","\ud800",["\udfff"],"b"]`, strict, []string{"body[1] value_error", "body[2][0] value_error"}},
		{`["\ud800"]`, (*decode.Reader).Skip, nil},
	} {
		require.Equal(t, c.want, read(t, c.body, c.read), c.body)
	}
}

func TestReader_String_requiresValidUnicode(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		`"a\"\\\/\b\f\n\r\tz"`: "a\"\\/\b\f\n\r\tz", `"\u00e9\u20AC"`: "é€", `"\ud83d\ude00"`: "😀", `"\uD83D\uDE00x"`: "😀x",
		`"\ud83d"`: "\ufffd", `"\ude00\ud83d"`: "\ufffd\ufffd", `"\ud83d\u0041"`: "\ufffdA", `"\ud83d\n"`: "\ufffd\n", `"\u0000"`: "\x00", "\"\u2028\x7f\"": "\u2028\x7f",
	} {
		var got string
		require.Empty(t, read(t, body, func(r *decode.Reader) { got = r.String() }), body)
		require.Equal(t, want, got, body)
	}
	for _, body := range []string{
		`"`, `"a`, `"\`, `"\"`, `"\x41"`, `"\u12"`, `"\u12g4"`, `"\ud83d\u"`, `"\ud83d\u12"`, "\"\x01\"", "\"a\nb\"", "\"\\n\x01\"", "\"\\u0041\n\"", `'a'`, `"\U0001f600"`, `"\u 041"`,
	} {
		require.Contains(t, read(t, body, func(r *decode.Reader) { _ = r.String() })[0], " json_invalid", body)
	}
	for _, bytes := range []string{"\xff", "\xc0\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xe2\x82", "\x80", "\xf8\x88\x80\x80\x80"} {
		for _, body := range []string{`"` + bytes + `"`, `{"` + bytes + `":1}`, bytes, `{} ` + bytes} {
			require.Equal(t, []string{"body[0] json_invalid"}, read(t, body, (*decode.Reader).Skip), "%q", body)
		}
	}
	require.NotEmpty(t, read(t, "\ufeff{}", (*decode.Reader).Skip), "a byte order mark is not white space")
}

func TestReader_boundsAreInclusive(t *testing.T) {
	t.Parallel()
	text := func(low, high int) func(r *decode.Reader) { return func(r *decode.Reader) { r.Text(low, high) } }
	whole := func(low, high int64) func(r *decode.Reader) { return func(r *decode.Reader) { r.IntIn(low, high) } }
	list := func(most int) func(r *decode.Reader) {
		return func(r *decode.Reader) { r.List(most, func(int) { r.Int() }) }
	}
	entries := func(most, low, high int) func(r *decode.Reader) {
		return func(r *decode.Reader) { r.Entries(most, low, high, func(string) { r.Int() }) }
	}
	cases := []struct {
		body string
		read func(r *decode.Reader)
		want []string
	}{
		{`"ab"`, text(2, 4), nil},
		{`"a"`, text(2, 4), []string{"body string_too_short"}},
		{`"éééé"`, text(2, 4), nil},
		{`"\u00e9ééé\u00e9"`, text(2, 4), []string{"body string_too_long"}},
		{`"a\u0000"`, text(2, 4), []string{"body value_error"}},
		{`7`, text(2, 4), []string{"body string_type"}},
		{`-2`, whole(-2, 3), nil},
		{`-3`, whole(-2, 3), []string{"body greater_than_equal"}},
		{`-9223372036854775809`, whole(-2, 3), []string{"body greater_than_equal"}},
		{`9223372036854775808`, whole(-2, 3), []string{"body less_than_equal"}},
		{`3`, whole(-2, 3), nil},
		{`4`, whole(-2, 3), []string{"body less_than_equal"}},
		{`"3"`, whole(-2, 3), []string{"body int_type"}},
		{`[1,2]`, list(2), nil},
		{`[1,2,"x"]`, list(2), []string{"body too_long"}},
		{`["x",2,{"a":[`, list(1), []string{"body[13] json_invalid"}},
		{`[]`, list(0), nil},
		{`{"a":1,"bb":2}`, entries(2, 1, 2), nil},
		{`{"a":1,"bb":2,"c":"x"}`, entries(2, 1, 2), []string{"body too_long"}},
		{`{"":1,"ccc":2}`, entries(2, 1, 2), []string{`body[""] string_too_short`, "body.ccc string_too_long"}},
		{`{"a":1,"a":2}`, entries(2, 1, 2), []string{"body.a duplicate_key"}},
	}
	for _, c := range cases {
		require.Equal(t, c.want, read(t, c.body, c.read), c.body)
	}
}

func TestReader_faultsStateTheirLimits(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]map[string]any{
		`{"n":1,"text":""}`:                              {"min_length": 1},
		`{"n":1,"text":"abcdef"}`:                        {"max_length": 5},
		`{"n":1,"list":[1,2,3,4,5,6,7,8,9,10,11,12]}`:    {"max_length": 11},
		`{"n":1,"entries":{"a":1,"b":1,"c":1,"d":1}}`:    {"max_length": 3},
		`{"n":1,"entries":{"much too long a name":"x"}}`: {"max_length": 5},
	} {
		var f *fault.Error
		require.ErrorAs(t, decode.Body([]byte(body), shape(nil)), &f, body)
		require.Len(t, f.Fields, 1, body)
		require.Equal(t, want, f.Fields[0].Ctx, body)
		for _, limit := range want {
			require.Contains(t, f.Fields[0].Msg, fmt.Sprint(limit), body)
		}
	}
}

func TestReader_Skip_rejectsDuplicateNamesAtAnyDepth(t *testing.T) {
	t.Parallel()
	skip := (*decode.Reader).Skip
	for body, want := range map[string][]string{
		`{"a":{"b":[{"c":1,"c":2}]}}`:       {"body.a.b[0].c duplicate_key"},
		`[{"a":1},{"a":1}]`:                 nil,
		`{"a":{"a":{"a":1}}}`:               nil,
		`{"A":1,"a":2}`:                     nil,
		`{"\u0061":1,"a":2}`:                {"body.a duplicate_key"},
		`{"a":1,"a":{"b":1,"b":2}}`:         {"body.a duplicate_key", "body.a.b duplicate_key"},
		`{"":1,"":2}`:                       {`body[""] duplicate_key`},
		`{"a":1,"a":2,"a":3}`:               {"body.a duplicate_key", "body.a duplicate_key"},
		`{"\ud800":1,"\udc00":2,"x y.z":3}`: {"body[\"\ufffd\"] duplicate_key"},
	} {
		require.Equal(t, want, read(t, body, skip), body)
	}
}

func TestReader_Skip_boundsNesting(t *testing.T) {
	t.Parallel()
	skip := (*decode.Reader).Skip
	for _, kind := range [][2]string{{"[", "]"}, {`{"a":`, "}"}} {
		inner := "1"
		require.Empty(t, read(t, strings.Repeat(kind[0], 64)+inner+strings.Repeat(kind[1], 64), skip))
		require.Contains(t, read(t, strings.Repeat(kind[0], 65)+inner+strings.Repeat(kind[1], 65), skip)[0], "json_invalid")
		require.Contains(t, read(t, strings.Repeat(kind[0], 100_000), skip)[0], "json_invalid", "deep nesting does not overflow the stack")
	}
	beside := "[" + strings.Repeat("[[]],", 1000) + "[]]"
	require.Empty(t, read(t, beside, skip), "closed lists do not count as nesting")
}

func TestReader_Skip_boundsMemoryForNames(t *testing.T) { // not parallel: it measures the memory of the whole process
	var many strings.Builder
	many.WriteByte('{')
	for i := range 200_000 {
		many.WriteString(`"` + strconv.Itoa(i) + `":1,`)
	}
	many.WriteString(`"z":1}`)
	body := []byte(many.String())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	err := decode.Body(body, (*decode.Reader).Skip)
	runtime.ReadMemStats(&after)
	require.Equal(t, []string{"body too_long"}, faults(t, err))
	require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(64<<20), "many names must not cost more than 64 MiB")
	var fits strings.Builder
	for i := range 70_000 {
		fits.WriteString(`"` + strconv.Itoa(i) + `":1,`)
	}
	require.Empty(t, read(t, `{"a":{`+fits.String()+`"z":1},"b":{`+fits.String()+`"z":1}}`, (*decode.Reader).Skip), "names count only while their object is open")
}

func TestBody_truncatedBodyIsFault(t *testing.T) {
	t.Parallel()
	body := `{"n":-3,"list":[1.5,NaN,"-Infinity"],"flag":true,"text":"h\u00e9\ud83d\ude00","at":"2026-11-21T11:33:00Z","raw":{"a":[null,{}]},"word":"a"}`
	require.NoError(t, decode.Body([]byte(body), shape(nil)))
	for n := range body {
		got := read(t, body[:n], shape(nil))
		require.Len(t, got, 1, body[:n])
		require.Regexp(t, `^body\[\d+\] json_invalid$`, got[0], body[:n])
	}
	for n := range body { // a wrong byte anywhere in the body must not cause a panic
		for _, c := range "\x00\"\\{}[],:0-e\xff" {
			_ = decode.Body([]byte(body[:n]+string(c)+body[n+1:]), shape(nil))
		}
	}
}

func TestReader_Raw_returnsStrictJSON(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		` [NaN, -Infinity ,"NaN", {"Infinity": Infinity}] `: `["NaN", "-Infinity" ,"NaN", {"Infinity": "Infinity"}]`,
		`"\"NaN"`: `"\"NaN"`, `"\\"`: `"\\"`, `{"a\\\"NaN":NaN}`: `{"a\\\"NaN":"NaN"}`, `null`: `null`, ` -0.0e+1 `: `-0.0e+1`,
	} {
		var raw, span []byte
		require.Empty(t, read(t, body, func(r *decode.Reader) { raw = r.Raw() }), body)
		require.Equal(t, want, string(raw), body)
		require.Empty(t, read(t, body, func(r *decode.Reader) { span = r.Span(r.Skip) }), body)
		require.Equal(t, want, string(span), body)
	}
	var raw []byte
	require.NotEmpty(t, read(t, `[1,`, func(r *decode.Reader) { raw = r.Raw() }))
	require.Nil(t, raw, "Raw returns nil after a syntax error")
}

func TestReader_readsNothingAfterSyntaxError(t *testing.T) {
	t.Parallel()
	got := read(t, `{"a" 1}`, func(r *decode.Reader) {
		r.Map(func(string) { t.Error("a value without a colon was read") })
		require.Zero(t, r.Int())
		require.Empty(t, r.String())
		require.Zero(t, r.Float())
		require.False(t, r.Bool())
		require.True(t, r.Time().IsZero())
		require.Nil(t, r.Raw())
		require.Empty(t, r.Enum("a", "b"))
		require.Empty(t, r.Text(1, 5))
		require.False(t, r.Array(func(int) { t.Error("an item was read") }))
	})
	require.Equal(t, []string{"body[5] json_invalid"}, got, "a syntax error is the only fault")
}

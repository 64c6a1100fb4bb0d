package decode_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

const at = `"ts":"2026-11-21T09:33:00Z"`

// row is one decoded point.
type row struct {
	key    string
	step   int64
	value  float64
	micros int64
}

func rows(c *decode.Columns) []row {
	var out []row
	for i := range c.Len() {
		out = append(out, row{c.Names[c.Key[i]], c.Step[i], c.Value[i], c.Micros[i]})
	}
	return out
}

// onePoint returns a request with one point. fields contains the fields of the point.
func onePoint(fields string) string { return `{"run_id":"r","points":[{` + fields + `}]}` }

func TestMetrics_formOfPointDoesNotMatter(t *testing.T) {
	t.Parallel()
	micros := int64(1795253580_000000)
	cases := map[string]row{
		`"key":"a","step":1,"value":2.5,` + at:                                                {"a", 1, 2.5, micros},
		at + `,"value":2.5,"step":1,"key":"a"`:                                                {"a", 1, 2.5, micros},
		" \"key\" :\t\"a\" ,\n\"step\":\r1 , \"value\": 2.5 ,\"ts\":\"2026-11-21T09:33:00Z\"": {"a", 1, 2.5, micros},
		`"k\u0065y":"\u0061","step":1,"value":2.5,` + at:                                      {"a", 1, 2.5, micros},
		`"key":"a","step":-1,"value":-0.0,` + at:                                              {"a", -1, math.Copysign(0, -1), micros},
		`"key":"a","step":-9223372036854775808,"value":1,` + at:                               {"a", math.MinInt64, 1, micros},
		`"key":"a","step":9223372036854775807,"value":1,` + at:                                {"a", math.MaxInt64, 1, micros},
		`"key":"a","step":999999999999999999,"value":1,` + at:                                 {"a", 999999999999999999, 1, micros},
		`"key":"a","step":-0,"value":"-Infinity",` + at:                                       {"a", 0, math.Inf(-1), micros},
		`"key":"a","step":1,"value":Infinity,` + at:                                           {"a", 1, math.Inf(1), micros},
		`"key":"a.b/c d","step":1,"value":1e-7,"ts":"2026-11-21T09:33:00.5+00:00"`:            {"a.b/c d", 1, 1e-7, micros + 500_000},
		`"key":"a","step":1,"value":1,"ts":"2026-11-21T11:33:00.1234569+02:00"`:               {"a", 1, 1, micros + 123_456},
		`"key":"a","step":1,"value":1,"ts":"2026-11-21T09:33:00.000001999Z"`:                  {"a", 1, 1, micros + 1},
		`"key":"a","step":1,"value":1,"ts":"1969-12-31T23:59:59.999999Z"`:                     {"a", 1, 1, -1},
		`"key":"\ud83d\ude00","step":1,"value":1,` + at:                                       {"😀", 1, 1, micros},
	}
	for fields, want := range cases {
		var fast, slow decode.Columns
		require.NoError(t, decode.Metrics([]byte(onePoint(fields)), &fast), fields)
		require.NoError(t, decode.Slow([]byte(onePoint(fields)), &slow), fields)
		require.Equal(t, []row{want}, rows(&fast), fields)
		require.Equal(t, []row{want}, rows(&slow), fields)
		require.Equal(t, math.Signbit(want.value), math.Signbit(fast.Value[0]), fields)
	}
}

func TestMetrics_reportsPathsOfFaults(t *testing.T) {
	t.Parallel()
	good := `"key":"a","step":1,"value":1,` + at
	cases := map[string][]string{
		onePoint(strings.Replace(good, `"a"`, `""`, 1)):                              {"body.points[0].key string_too_short"},
		onePoint(strings.Replace(good, `"a"`, `"`+strings.Repeat("k", 257)+`"`, 1)):  {"body.points[0].key string_too_long"},
		onePoint(strings.Replace(good, `"a"`, `"`+strings.Repeat("é", 257)+`"`, 1)):  {"body.points[0].key string_too_long"},
		onePoint(strings.Replace(good, `"a"`, `["a"]`, 1)):                           {"body.points[0].key string_type"},
		onePoint(strings.Replace(good, `:1,"v`, `:1.0,"v`, 1)):                       {"body.points[0].step int_parsing"},
		onePoint(strings.Replace(good, `:1,"v`, `:true,"v`, 1)):                      {"body.points[0].step int_type"},
		onePoint(strings.Replace(good, `"value":1`, `"value":"1"`, 1)):               {"body.points[0].value float_type"},
		onePoint(strings.Replace(good, `"value":1`, `"value":[1,2]`, 1)):             {"body.points[0].value float_type"},
		onePoint(strings.Replace(good, `"value":1`, `"value":1e999`, 1)):             {"body.points[0].value finite_number"},
		onePoint(strings.Replace(good, "Z", "", 1)):                                  {"body.points[0].ts datetime_parsing"},
		onePoint(strings.Replace(good, "11-21", "02-29", 1)):                         {"body.points[0].ts datetime_parsing"},
		onePoint(good + `,"key":"b"`):                                                {"body.points[0].key duplicate_key"},
		onePoint(good + `,"Step":2`):                                                 {"body.points[0].Step extra_forbidden"},
		onePoint(``):                                                                 {"body.points[0].key missing", "body.points[0].step missing", "body.points[0].value missing", "body.points[0].ts missing"},
		`{"run_id":"r","points":[null,7,"x",[]]}`:                                    {"body.points[0] dict_type", "body.points[1] dict_type", "body.points[2] dict_type", "body.points[3] dict_type"},
		`{"run_id":"r","points":null}`:                                               {"body.points list_type"},
		`{"run_id":"r"}`:                                                             {"body.points missing"},
		`{"points":[]}`:                                                              {"body.run_id missing"},
		`{"run_id":null,"points":[]}`:                                                {"body.run_id string_type"},
		`{"run_id":"` + strings.Repeat("r", 65) + `","points":[]}`:                   {"body.run_id string_too_long"},
		`{"run_id":"r\u0000","points":[]}`:                                           {"body.run_id value_error"},
		`{"run_id":"r","points":[{"key":"a\u0000b","step":1,"value":1,` + at + `}]}`: {"body.points[0].key value_error"},
		`{"run_id":"r","points":[],"rank":16777217}`:                                 {"body.rank less_than_equal"},
		`{"run_id":"r","points":[],"rank":1.5}`:                                      {"body.rank int_parsing"},
		`{"run_id":"r","points":[],"rank":0,"rank":0}`:                               {"body.rank duplicate_key"},
		`{"run_id":"r","points":[` + "{" + good + "}" + `,{` + good + `}}`:           {fmt.Sprintf("body[%d] json_invalid", 2*len(good)+29)},
		`{"run_id":"r","points":[]} {}`:                                              {"body[27] json_invalid"},
	}
	for body, want := range cases {
		var c decode.Columns
		require.Equal(t, want, faults(t, decode.Metrics([]byte(body), &c)), body)
	}
}

func TestMetrics_clearsColumnsOfLastRequest(t *testing.T) {
	t.Parallel()
	var c decode.Columns
	requests := []struct {
		body  string
		names []string
		rank  bool
		fails bool
	}{
		{`{"run_id":"one","rank":3,"points":[{"key":"a","step":1,"value":1,` + at + `},{"key":"b","step":1,"value":1,` + at + `}]}`, []string{"a", "b"}, true, false},
		{`{"run_id":"two","points":[{"key":"b","step":2,"value":2,` + at + `}]}`, []string{"b"}, false, false},
		{`{"run_id":"bad","rank":1,"points":[{"key":"x","step":2,"value":2,` + at + `},{}]}`, nil, false, true},
		{`{"run_id":"six","points":[{"key":"c","step":2,"value":2,` + at + `},{"key":"c","step":3,"value":2,` + at + `}]}`, []string{"c"}, false, false},
		{`{"run_id":"end","points":[]}`, []string{}, false, false},
	}
	for _, r := range requests {
		err := decode.Metrics([]byte(r.body), &c)
		if r.fails {
			require.Error(t, err)
			continue
		}
		require.NoError(t, err)
		require.Contains(t, r.body, `"`+c.RunID+`"`)
		require.Equal(t, r.names, c.Names, r.body)
		require.Equal(t, r.rank, c.Rank != nil, r.body)
		for i := range c.Len() {
			require.Contains(t, r.body, fmt.Sprintf(`"key":%q,"step":%d`, c.Names[c.Key[i]], c.Step[i]))
		}
	}
}

func TestMetrics_boundsKeysAndPoints(t *testing.T) {
	t.Parallel()
	var c decode.Columns
	for _, letter := range []string{"k", "é", "😀"} {
		key := strings.Repeat(letter, decode.MaxKey)
		require.NoError(t, decode.Metrics([]byte(onePoint(`"key":"`+key+`","step":1,"value":1,`+at)), &c))
		require.Equal(t, []string{key}, c.Names)
	}
	for n, ok := range map[int]bool{decode.MaxPoints: true, decode.MaxPoints + 1: false} {
		for _, extra := range []string{"", `"rank":0,`} { // the scanner cannot read a body with rank, so the Reader does
			body := strings.Replace(string(request(n)), `"points"`, extra+`"points"`, 1)
			err := decode.Metrics([]byte(body), &c)
			require.Equal(t, ok, err == nil, "%d points: %v", n, err)
			if ok {
				require.Equal(t, n, c.Len())
			}
		}
	}
}

func TestMetrics_reportsAtMostFiftyFaults(t *testing.T) {
	t.Parallel()
	var c decode.Columns
	body := `{"run_id":"r","points":[` + strings.Repeat(`{},`, 9_999) + `{}]}`
	got := faults(t, decode.Metrics([]byte(body), &c))
	require.Len(t, got, 50)
	require.Equal(t, "body.points[0].key missing", got[0])
	require.Equal(t, "body.points[12].step missing", got[49])
}

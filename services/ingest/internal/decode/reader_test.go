package decode_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/decode"
)

// faults returns the path and type of each fault in err.
func faults(t *testing.T, err error) []string {
	t.Helper()
	var f *fault.Error
	require.ErrorAs(t, err, &f)
	require.Equal(t, fault.Invalid, f.Kind)
	var out []string
	for _, field := range f.Fields {
		out = append(out, fault.Path(field.Loc)+" "+field.Type)
	}
	return out
}

func TestReader_reportsPathOfEachFault(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		`{}`:                                 {"body.n missing"},
		`{"n":1,"N":2}`:                      {"body.N extra_forbidden"},
		`{"n":1,"n":2}`:                      {"body.n duplicate_key"},
		`{"n":1,"\u006e":2}`:                 {"body.n duplicate_key"},
		`{"n":"1"}`:                          {"body.n int_type"},
		`{"n":1.0}`:                          {"body.n int_parsing"},
		`{"n":1e2}`:                          {"body.n int_parsing"},
		`{"n":99999999999999999999}`:         {"body.n int_parsing"},
		`{"n":1,"list":[1,"x",null]}`:        {"body.list[1] float_type", "body.list[2] float_type"},
		`{"n":1,"list":[1e999]}`:             {"body.list[0] finite_number"},
		`{"n":1,"list":{}}`:                  {"body.list list_type"},
		`{"n":null,"x":{"y":[{}]}}`:          {"body.n int_type", "body.x extra_forbidden"},
		`{"n":1,"at":"2026-11-21"}`:          {"body.at datetime_parsing"},
		`{"n":1,"at":1}`:                     {"body.at datetime_parsing"},
		`{"n":1,"text":"` + "\\u0000" + `"}`: {"body.text value_error"},
		`{"n":1,"text":""}`:                  {"body.text string_too_short"},
		`{"n":1,"text":"abcdef"}`:            {"body.text string_too_long"},
		`{"n":1,"word":"c"}`:                 {"body.word enum"},
		`{"n":1,"flag":1}`:                   {"body.flag bool_type"},
		`[]`:                                 {"body dict_type"},
		`{"n":1}x`:                           {"body[7] json_invalid"},
		`{"n":1,}`:                           {"body[7] json_invalid"},
		`{"n":01}`:                           {"body[5] json_invalid"},
		`{"n":1`:                             {"body[6] json_invalid"},
		`{"n":1,"raw":[1,2}`:                 {"body[17] json_invalid"},
		`{"n":1,"raw":"` + "\n" + `"}`:       {"body[14] json_invalid"},
		``:                                   {"body[0] json_invalid"},
		"{\"n\":1,\"text\":\"\xff\"}":        {"body[0] json_invalid"},
		`{"n":1,"raw":` + strings.Repeat("[", 70) + `}`:    {"body[76] json_invalid"},
		`{"n":1,"` + strings.Repeat("k", 1000) + `":1}`:    {"body." + `["` + strings.Repeat("k", 128) + `..."]` + " extra_forbidden"},
		`{"n":1,"list":[1,2,3,4,5,6,7,8,9,10,11,12]}`:      {"body.list too_long"},
		`{"n":1,"entries":{"":1,"abcdefg":2,"a":3,"b":4}}`: {`body.entries[""] string_too_short`, "body.entries.abcdefg string_too_long", "body.entries too_long"},
	}
	for body, want := range cases {
		err := decode.Body([]byte(body), shape(nil))
		got := faults(t, err)
		for i := range got {
			got[i] = strings.Replace(got[i], `body["`+strings.Repeat("k", 128), `body.["`+strings.Repeat("k", 128), 1)
		}
		require.Equal(t, want, got, body)
	}
}

type values struct {
	n    int64
	list []float64
	at   time.Time
	raw  []byte
	text string
	flag bool
}

// shape returns a function that reads an object with one field of each kind. It stores the values in v, unless v is
// nil.
func shape(v *values) func(r *decode.Reader) {
	if v == nil {
		v = &values{}
	}
	return func(r *decode.Reader) {
		r.Object(decode.Fields{
			"n":       func() { v.n = r.Int() },
			"list":    func() { r.List(11, func(int) { v.list = append(v.list, r.Float()) }) },
			"at":      func() { v.at = r.Time() },
			"raw":     func() { v.raw = r.Raw() },
			"text":    func() { v.text = r.Text(1, 5) },
			"word":    func() { r.Enum("a", "b") },
			"flag":    func() { v.flag = r.Bool() },
			"entries": func() { r.Entries(3, 1, 5, func(string) { r.Skip() }) },
		}, "n")
	}
}

func TestReader_readsEachKindOfField(t *testing.T) {
	t.Parallel()
	var v values
	err := decode.Body([]byte(` {"n": -3, "list": [1.5, NaN, "-Infinity", Infinity, 0], "flag": true, "text": "h\u00e9\ud83d\ude00",
		"at": "2026-11-21T11:33:00.1234567+02:00", "raw": {"a": [NaN, "NaN", "x\"-Infinity", -Infinity]} } `), shape(&v))
	require.NoError(t, err)
	require.EqualValues(t, -3, v.n)
	require.True(t, v.flag)
	require.Equal(t, "hé😀", v.text)
	require.Equal(t, time.Date(2026, 11, 21, 9, 33, 0, 123456000, time.UTC), v.at)
	require.Len(t, v.list, 5)
	require.True(t, math.IsNaN(v.list[1]))
	require.Equal(t, []float64{math.Inf(-1), math.Inf(1), 0}, v.list[2:])
	require.JSONEq(t, `{"a": ["NaN", "NaN", "x\"-Infinity", "-Infinity"]}`, string(v.raw))
}

func TestReader_Wrong_boundsFaults(t *testing.T) {
	t.Parallel()
	body := `{"n":1,"list":[` + strings.Repeat(`"x",`, 10) + `"x"]` + strings.Repeat(`,"x":1`, 1000) + `}`
	require.LessOrEqual(t, len(faults(t, decode.Body([]byte(body), shape(nil)))), 50)
}

// FuzzReader compares the Reader with encoding/json. Both accept the same bodies, with two exceptions: only the Reader
// rejects duplicate names, deep nesting and invalid UTF-8, and only the Reader accepts NaN and infinities without
// quotes.
func FuzzReader(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,2.5e-3,"x\u00e9\n",null,true]}`, `[[[]]]`, `"\ud83d"`, `-0`, `1.`, `{"a":1,"a":2}`, `NaN`, `{"a":-Infinity}`, "\"\x7f\"", `[1 2]`, `tru`, `{,}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var raw []byte
		err := decode.Body(data, func(r *decode.Reader) { raw = r.Raw() })
		if err == nil {
			require.True(t, json.Valid(raw), "%q kept as %q", data, raw)
			if !bytes.Contains(data, []byte("NaN")) && !bytes.Contains(data, []byte("Infinity")) {
				require.True(t, json.Valid(data))
			}
			return
		}
		var invalid *fault.Error
		require.ErrorAs(t, err, &invalid)
		if json.Valid(data) {
			for _, field := range invalid.Fields {
				deep := field.Msg == "JSON decode error: nested too deeply"
				require.True(t, field.Type == decode.TypeDuplicate || deep || field.Loc[1] == 0, "%q: %v", data, field)
			}
		}
	})
}

// FuzzMetrics checks that the scanner and the Reader read the same points from a body.
func FuzzMetrics(f *testing.F) {
	for _, seed := range []string{
		`{"run_id":"r","points":[{"key":"a","step":1,"value":2.5,"ts":"2026-11-21T09:33:00Z"}]}`,
		`{"points":[{"ts":"2026-02-30T09:33:00.1+00:00","key":"a","step":-1,"value":-0}],"run_id":"r"}`,
		`{"run_id":"r","points":[{"key":"a","step":1,"value":"NaN","ts":"2024-02-29T23:59:59.123456789+00:00"},{"key":"b","step":0,"value":1e5,"ts":"2026-11-21T09:33:00-01:00"}]}`,
		`{"run_id":"r","points":[{"key":"a","key":"b","step":1,"value":2.5,"ts":"2026-11-21T09:33:00Z"}],"rank":3}`,
		`{"run_id":"r","points":[],}`, `{"run_id":"","points":[]}`, `{"run_id":"r","points":[{}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var fast, slow decode.Columns
		errFast := decode.Metrics(data, &fast)
		errSlow := decode.Slow(data, &slow)
		require.Equal(t, errSlow == nil, errFast == nil, "%q: %v, %v", data, errFast, errSlow)
		if errSlow != nil {
			require.Equal(t, errSlow.Error(), errFast.Error())
			return
		}
		require.Equal(t, slow.RunID, fast.RunID)
		require.Equal(t, slow.Len(), fast.Len())
		for i := range slow.Len() {
			require.Equal(t, slow.Names[slow.Key[i]], fast.Names[fast.Key[i]])
			require.Equal(t, slow.Step[i], fast.Step[i])
			require.Equal(t, math.Float64bits(slow.Value[i]), math.Float64bits(fast.Value[i]))
			require.Equal(t, slow.Micros[i], fast.Micros[i])
		}
	})
}

func request(points int) []byte {
	var b strings.Builder
	b.WriteString(`{"run_id":"run_1","points":[`)
	for i := range points {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"key":"train.loss","step":12345,"value":0.123456789,"ts":"2026-11-21T09:33:00.123456+00:00"}`)
	}
	b.WriteString(`]}`)
	return []byte(b.String())
}

func TestMetrics_pointWithoutAllocation(t *testing.T) {
	var c decode.Columns
	body := request(10_000)
	require.NoError(t, decode.Metrics(body, &c)) // allocates the columns
	require.Equal(t, 10_000, c.Len())
	perRun := testing.AllocsPerRun(5, func() { _ = decode.Metrics(body, &c) })
	require.Less(t, perRun, 20.0)
}

func TestMetrics_rejectsPointsBeyondBounds(t *testing.T) {
	t.Parallel()
	var c decode.Columns
	require.Equal(t, []string{"body.points too_long"}, faults(t, decode.Metrics(request(10_001), &c)))
	long := bytes.Replace(request(1), []byte("train.loss"), bytes.Repeat([]byte("k"), 257), 1)
	require.Equal(t, []string{"body.points[0].key string_too_long"}, faults(t, decode.Metrics(long, &c)))
	wide := bytes.Replace(request(1), []byte("train.loss"), bytes.Repeat([]byte("é"), 256), 1)
	require.NoError(t, decode.Metrics(wide, &c))
	nul := bytes.Replace(request(1), []byte("train.loss"), []byte(`a\u0000`), 1)
	require.Equal(t, []string{"body.points[0].key value_error"}, faults(t, decode.Metrics(nul, &c)))
	require.Error(t, errors.Join(decode.Metrics(bytes.Replace(request(1), []byte("12345"), []byte("1.5"), 1), &c)))
}

func BenchmarkMetrics(b *testing.B) {
	var c decode.Columns
	body := request(1000)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		_ = decode.Metrics(body, &c)
	}
}

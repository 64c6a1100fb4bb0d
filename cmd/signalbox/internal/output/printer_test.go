package output

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/itchyny/gojq"
	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"
)

func printer(out *strings.Builder, format Format) *Printer {
	return &Printer{Out: out, Format: format, Headings: true, Now: func() time.Time { return time.Unix(1e9, 0).UTC() }}
}

func raws(rows ...string) []json.RawMessage {
	out := make([]json.RawMessage, len(rows))
	for i, r := range rows {
		out[i] = json.RawMessage(r)
	}
	return out
}

// exact has its members in an unusual order, and numbers that no float64 has.
const exact = `{"z":1,"a":{"y":12345678901234567890123,"b":[0.10000000000000000001,1e-7,-0,1E5,"NaN"]},"id":"x","empty":{},"none":[],"null":null}`

func TestPrinter_Rows_formats(t *testing.T) {
	t.Parallel()
	columns := []Column{{Name: "id"}, {Name: "z", Right: true}, {Name: "more", Path: "a.y", Wide: true}}
	for format, want := range map[Format][2]string{
		Table: {"ID  Z\n", "ID  Z\nx   1\n"},
		Wide:  {"ID  Z  MORE\n", "ID  Z  MORE\nx   1  12345678901234567890123\n"},
		JSON: {"[]\n", `[
  {
    "z": 1,
    "a": {
      "y": 12345678901234567890123,
      "b": [
        0.10000000000000000001,
        1e-7,
        -0,
        1E5,
        "NaN"
      ]
    },
    "id": "x",
    "empty": {},
    "none": [],
    "null": null
  }
]
`},
		YAML: {"[]\n", `- z: 1
  a:
    "y": 12345678901234567890123
    b:
      - 0.10000000000000000001
      - 1.0e-7
      - -0
      - 1.0e+5
      - NaN
  id: x
  empty: {}
  none: []
  "null": null
`},
		Lines: {"", exact + "\n"},
		Name:  {"", "x\n"},
	} {
		for i, rows := range [][]json.RawMessage{nil, raws(exact)} {
			var out strings.Builder
			require.NoError(t, printer(&out, format).Rows(columns, rows))
			require.Equal(t, want[i], out.String(), "%s", format)
		}
	}
}

func TestPrinter_Object(t *testing.T) {
	t.Parallel()
	columns := []Column{{Name: "id"}, {Name: "missing"}, {Name: "text", Wide: true}}
	object := json.RawMessage(`{"id":"x","text":"` + strings.Repeat("long ", 40) + `"}`)
	for format, want := range map[Format]string{
		Table: "id    x\ntext  " + strings.TrimSpace(strings.Repeat("long ", 40)) + "\n", Name: "x\n", Lines: string(object) + "\n",
	} {
		var out strings.Builder
		p := printer(&out, format)
		p.Width = 20
		require.NoError(t, p.Object(columns, object))
		require.Equal(t, want, strings.ReplaceAll(out.String(), " \n", "\n"))
	}
}

func TestPrinter_Row(t *testing.T) {
	t.Parallel()
	columns := []Column{{Name: "step"}, {Name: "value", As: Number}}
	for format, want := range map[Format]string{
		Table: "1  0.33333\n2  NaN\n", JSON: "{\"step\":1,\"value\":0.33333333}\n{\"step\":2,\"value\":\"NaN\"}\n",
		YAML: "---\nstep: 1\nvalue: 0.33333333\n---\nstep: 2\nvalue: NaN\n",
	} {
		var out strings.Builder
		p := printer(&out, format)
		require.NoError(t, p.Row(columns, json.RawMessage(`{"step": 1, "value": 0.33333333}`)))
		require.NoError(t, p.Row(columns, json.RawMessage(`{"step": 2, "value": "NaN"}`)))
		require.Equal(t, want, out.String())
	}
	var out strings.Builder
	p := printer(&out, Table)
	p.Columns = []string{"rank"}
	require.ErrorIs(t, p.Row(columns, json.RawMessage(`{"step":1}`)), ErrNoColumn)
	require.NoError(t, p.Row(columns, json.RawMessage(`{"rank":1}`)))
	require.NoError(t, p.Row(columns, json.RawMessage(`{"step":1}`)), "a later row may lack the member")
	require.Equal(t, "1\n\n", out.String())
}

func TestPrinter_columns(t *testing.T) {
	t.Parallel()
	rows := raws(`{"id":"a","spec":{"train.batch":{"x":1},"pools":[{"gpus":8}]},"tags":["b","c"],"o":{"k":1,"j":true}}`, `{"id":"b","late":1}`)
	columns := []Column{{Name: "id"}, {Name: "age", Path: "created_at"}}
	var out strings.Builder
	p := printer(&out, Table)
	p.Columns = []string{"id", " spec.train.batch.x", "spec.pools.0.gpus", "tags", "tags.1", "o", "late", "age"}
	require.NoError(t, p.Rows(columns, rows))
	require.Equal(t, "ID  SPEC.TRAIN.BATCH.X  SPEC.POOLS.0.GPUS  TAGS  TAGS.1  O           LATE  AGE\n"+
		"a   1                   8                  b,c   c       j=true,k=1\n"+
		"b                                                                    1\n", out.String())
	for _, name := range []string{"idd", "", " ", "spec.pools.1", "tags.x", "id.x", "."} {
		p.Columns = []string{name}
		err := p.Rows(columns, rows)
		require.ErrorIs(t, err, ErrNoColumn, name)
		require.ErrorContains(t, err, "use id, age")
	}
}

func TestPrinter_terminal(t *testing.T) {
	t.Parallel()
	hostile := json.RawMessage(`{"id":"a\u001b]52;c;aGk=\u0007\u009b31m\n\u202eb\u2028\u007f","n":1}`)
	raw := json.RawMessage("{\"id\":\"a\u009b31m\u202eb\u2028\x7f\",\"n\":1}")
	for _, format := range Formats() {
		for _, filter := range []string{"", ".id", "."} {
			for _, object := range []json.RawMessage{hostile, raw} {
				var out strings.Builder
				p := printer(&out, Format(format))
				p.Terminal, p.Width = true, 40
				if filter != "" {
					p.Filter = compiled(t, filter)
				}
				require.NoError(t, p.Object([]Column{{Name: "id"}, {Name: "n"}}, object))
				for _, r := range out.String() {
					require.False(t, controls(r) && r != '\n', "%s %q: %q", format, filter, out.String())
				}
				if format == string(JSON) && filter != ".id" {
					var want, got any
					require.NoError(t, json.Unmarshal(object, &want))
					require.NoError(t, json.Unmarshal([]byte(out.String()), &got))
					require.Equal(t, want, got, "the escaped JSON has the same value")
				}
			}
		}
	}
	var out strings.Builder
	p := printer(&out, Lines)
	p.Filter = compiled(t, ".id")
	require.NoError(t, p.Object(nil, hostile))
	require.Equal(t, "a\x1b]52;c;aGk=\a\u009b31m\n\u202eb\u2028\x7f\n", out.String(), "a file has the text as it is")
}

func compiled(t *testing.T, program string) *gojq.Code {
	t.Helper()
	code, err := ParseFilter(program)
	require.NoError(t, err)
	return code
}

func TestPrinter_filter(t *testing.T) {
	t.Parallel()
	const value = `[{"id":9007199254740993,"big":12345678901234567890123,"f":0.1,"s":"yes","n":null}]`
	for program, want := range map[string]string{
		".[].id":            "9007199254740993\n",
		".[].id + 1":        "9007199254740994\n",
		".[].big":           "12345678901234567890123\n",
		".[0].f":            "0.1\n",
		".[].s":             "yes\n",
		".[].n":             "null\n",
		".[] | {s, id}":     `{"id":9007199254740993,"s":"yes"}` + "\n",
		"1, 2, halt, 3":     "1\n2\n",
		"empty":             "",
		"env | length":      "0\n",
		"$ENV.HOME":         "null\n",
		`"\(.[0].id)"`:      "9007199254740993\n",
		".[0] | keys | .[]": "big\nf\nid\nn\ns\n",
	} {
		var out strings.Builder
		p := printer(&out, Lines)
		p.Filter = compiled(t, program)
		require.NoError(t, p.Rows(nil, raws(value[1:len(value)-1])), program)
		require.Equal(t, want, out.String(), program)
	}
	for program, want := range map[string]string{
		".[].id.x":                     "apply the jq expression",
		`error("x")`:                   "apply the jq expression: error: x",
		`"bad\n" | halt_error`:         "the jq expression ended: bad",
		`{"a":1} | halt_error`:         "the jq expression ended",
		`null | halt_error`:            "the jq expression ended",
		"[limit(1; .[].s)] | .[0] / 2": "apply the jq expression",
	} {
		var out strings.Builder
		p := printer(&out, Lines)
		p.Filter = compiled(t, program)
		require.ErrorContains(t, p.Rows(nil, raws(value[1:len(value)-1])), want, program)
	}
	for _, program := range []string{".[", "nosuch", "input", `import "x" as x; .`, `include "/etc/passwd"; .`} {
		_, err := ParseFilter(program)
		require.Error(t, err, program)
	}
	for format, want := range map[Format]string{JSON: "yes\n{\n  \"s\": 1\n}\n", YAML: "\"yes\"\ns: 1\n", Name: "yes\n{\"s\":1}\n"} {
		var out strings.Builder
		p := printer(&out, format)
		p.Filter = compiled(t, ".[0].s, {s: 1}")
		require.NoError(t, p.Rows(nil, raws(value[1:len(value)-1])))
		require.Equal(t, want, out.String())
	}
}

func TestWriteYAML_strangeTexts(t *testing.T) {
	t.Parallel()
	texts := []string{
		"", " ", "yes", "No", "on", "y", "null", "~", "1e3", "1_000", "0x1f", "0o17", "017", "1:30", "12:30:45", ".nan", ".inf", "-", "- a", "a: b", "a #b", "#", "{}",
		"[", "!x", "&a", "*a", "|", ">", "%", "@", "`", "'", "\"", "=", "<<", "2001-01-01", "a\nb", "a\n", "\na", "\n", "\n\n", " a\n b\n", "a\n\n", "\ta", "a\tb\n",
		"a\r\nb", "\x00", "\x1b[31m", "\u0085", "\u00a0", "\u2028", "\ufeff", "\U0001f600", "é", "a\\nb", "---", "...", "--- a\n...\n", strings.Repeat("long ", 300),
		"  lead", "trail  ", "a\n  b\n c", "a: |\n  b", "true", "True", "12345678901234567890123", "+1", "-.5", "1.", "NaN", "Infinity", "? a", ", a",
	}
	for _, want := range texts {
		value, err := json.Marshal(map[string]any{want: want, "list": []string{want}})
		require.NoError(t, err)
		var out strings.Builder
		require.NoError(t, writeYAML(&out, value))
		var got map[string]any
		require.NoError(t, yaml.Unmarshal([]byte(out.String()), &got), "%q: %s", want, out.String())
		require.Equal(t, map[string]any{want: want, "list": []any{want}}, got, "%q: %s", want, out.String())
	}
}

func TestNameOf(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		`{"name":"n","id":"i"}`: "i", `{"id":null,"name":"n"}`: "n", `{"version":12345678901234567890}`: "12345678901234567890", `"a\u001b[0m"`: `a\x1b[0m`,
	} {
		got, err := NameOf(json.RawMessage(value))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := NameOf(json.RawMessage(`{"x":1}`))
	require.ErrorContains(t, err, "use another format")
}

// With -o jsonl, a filter is applied to each row; otherwise to the array.
func TestPrinter_Rows_filterRows(t *testing.T) {
	t.Parallel()
	rows := raws(`{"name":"a"}`, `{"name":"b"}`)
	for program, c := range map[string]struct {
		each bool
		want string
	}{".name": {true, "a\nb\n"}, ".[1].name": {false, "b\n"}} {
		var out strings.Builder
		p := printer(&out, Lines)
		filter, err := ParseFilter(program)
		require.NoError(t, err)
		p.Filter, p.FilterRows = filter, c.each
		require.NoError(t, p.Rows(nil, rows))
		require.Equal(t, c.want, out.String())
	}
}

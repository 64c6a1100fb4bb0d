package canon_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/canon"
)

// Samples from RFC 8785, 3.2.2 to 3.2.4.
func TestJSON_rfc8785Samples(t *testing.T) {
	t.Parallel()
	for name, c := range map[string][2]string{
		"3.2.2 and 3.2.3": {
			`{
			  "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
			  "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
			  "literals": [null, true, false]
			}`,
			`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],` +
				`"string":"€$\u000f\nA'B\"\\\\\"/"}`,
		},
		"3.2.3 sorting": {
			`{"\u20ac": "Euro Sign", "\r": "Carriage Return", "\ufb33": "Hebrew Letter Dalet With Dagesh",
			  "1": "One", "\ud83d\ude00": "Emoji: Grinning Face", "\u0080": "Control", "\u00f6": "Latin Small Letter O With Diaeresis"}`,
			`{"\r":"Carriage Return","1":"One","` + "\u0080" + `":"Control","ö":"Latin Small Letter O With Diaeresis",` +
				`"€":"Euro Sign","😀":"Emoji: Grinning Face","` + "\ufb33" + `":"Hebrew Letter Dalet With Dagesh"}`,
		},
	} {
		got, err := canon.JSON([]byte(c[0]))
		require.NoError(t, err, name)
		require.Equal(t, c[1], string(got), name)
	}
}

// The table of RFC 8785, appendix B: IEEE 754 bits and their text.
func TestJSON_rfc8785Numbers(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint64]string{
		0x0000000000000000: "0",
		0x8000000000000000: "0",
		0x0000000000000001: "5e-324",
		0x8000000000000001: "-5e-324",
		0x7fefffffffffffff: "1.7976931348623157e+308",
		0xffefffffffffffff: "-1.7976931348623157e+308",
		0x4340000000000000: "9007199254740992",
		0xc340000000000000: "-9007199254740992",
		0x4430000000000000: "295147905179352830000",
		0x44b52d02c7e14af5: "9.999999999999997e+22",
		0x44b52d02c7e14af6: "1e+23",
		0x44b52d02c7e14af7: "1.0000000000000001e+23",
		0x444b1ae4d6e2ef4e: "999999999999999700000",
		0x444b1ae4d6e2ef4f: "999999999999999900000",
		0x444b1ae4d6e2ef50: "1e+21",
		0x3eb0c6f7a0b5ed8c: "9.999999999999997e-7",
		0x3eb0c6f7a0b5ed8d: "0.000001",
		0x41b3de4355555553: "333333333.3333332",
		0x41b3de4355555554: "333333333.33333325",
		0x41b3de4355555555: "333333333.3333333",
		0x41b3de4355555556: "333333333.3333334",
		0x41b3de4355555557: "333333333.33333343",
		0xbecbf647612f3696: "-0.0000033333333333333333",
		0x43143ff3c1cb0959: "1424953923781206.2",
	} {
		literal := strconv.FormatFloat(math.Float64frombits(bits), 'e', -1, 64)
		got, err := canon.JSON([]byte(literal))
		require.NoError(t, err, literal)
		require.Equal(t, want, string(got), "%x", bits)
	}
}

func TestJSON_canonicalForms(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		` null `:                    `null`,
		`[]`:                        `[]`,
		`{ }`:                       `{}`,
		`[1,[2,{}],{"a":[]}]`:       `[1,[2,{}],{"a":[]}]`,
		`{"b":1,"a":{"d":2,"c":3}}`: `{"a":{"c":3,"d":2},"b":1}`,
		`"\u0000\b\t\n\f\r\u001f"`:  `"\u0000\b\t\n\f\r\u001f"`,
		`"<&>\u2028\u007f"`:         "\"<&>\u2028\u007f\"",
		`"\ud83d\ude00\\ud800"`:     `"😀\\ud800"`,
		`-0`:                        `0`,
		`-0.0e9`:                    `0`,
		`1e-400`:                    `0`,
		`9007199254740994`:          `9007199254740994`,
		`1000000000000000000000`:    `1e+21`,
		`295147905179352825856`:     `295147905179352830000`,
		`295147905179352830000`:     `295147905179352830000`,
		`{"":0,"a":1,"A":2}`:        `{"":0,"A":2,"a":1}`,
	} {
		got, err := canon.JSON([]byte(in))
		require.NoError(t, err, in)
		require.Equal(t, want, string(got), in)
	}
}

func TestJSON_errors(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``: "not JSON", `{`: "not JSON", `{} {}`: "not JSON", `01`: "not JSON", `NaN`: "not JSON", `"a`: "not JSON",
		"\"\xff\"": "not UTF-8", "\"\xed\xa0\x80\"": "not UTF-8",
		`"\ud800"`: "surrogate", `"\udc00"`: "surrogate", `"\ud800\u0041"`: "surrogate", `["\ud800x\udc00"]`: "surrogate",
		`{"\ude00":1}`:                "surrogate",
		`{"a":1,"a":1}`:               `duplicate member "a"`,
		`{"a":1,"\u0061":2}`:          `duplicate member "a"`,
		`[{"b":{"x":1,"y":2,"x":3}}]`: `duplicate member "x"`,
		`1e400`:                       "out of range", `-1e309`: "out of range",
		`9007199254740993`: "cannot be represented as a double", `-18446744073709551615`: "cannot be represented as a double",
		strings.Repeat("[", 1002) + strings.Repeat("]", 1002): "deeper than 1000",
	} {
		_, err := canon.JSON([]byte(in))
		require.ErrorIs(t, err, canon.ErrNoForm, in)
		require.ErrorContains(t, err, want, in)
	}
}

func TestDigest(t *testing.T) {
	t.Parallel()
	a, err := canon.Digest([]byte(`{"b": 1.0, "a": "\u0041"}`))
	require.NoError(t, err)
	b, err := canon.Digest([]byte(`{"a":"A","b":1}`))
	require.NoError(t, err)
	require.Equal(t, a, b)
	empty, err := canon.Digest([]byte(`{}`))
	require.NoError(t, err)
	require.Equal(t, "sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", empty)
	_, err = canon.Digest([]byte(`{`))
	require.ErrorIs(t, err, canon.ErrNoForm)
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":[1,2.5e3,"\u20ac"],"b":null}`))
	f.Add([]byte(`295147905179352830000`))
	f.Fuzz(func(t *testing.T, in []byte) {
		form, err := canon.JSON(in)
		if err != nil {
			return
		}
		again, err := canon.JSON(form)
		require.NoError(t, err, "%s", form)
		require.Equal(t, string(form), string(again))
		var a, b any
		require.NoError(t, json.Unmarshal(in, &a))
		require.NoError(t, json.Unmarshal(form, &b))
		require.Equal(t, a, b)
	})
}

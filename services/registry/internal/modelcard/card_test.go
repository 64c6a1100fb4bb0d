package modelcard_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/modelcard"
)

func TestRead(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, front, body string }{
		"no front matter":     {"# a\n", "", "# a\n"},
		"front matter":        {"---\nlicense: mit\n---\n# a\n", `{"license":"mit"}`, "# a\n"},
		"no body":             {"---\nlicense: mit\n---", `{"license":"mit"}`, ""},
		"CRLF line ends":      {"---\r\na: 1\r\n---\r\nb\r\n", `{"a":1}`, "b\r\n"},
		"all value types":     {"---\na: 1\nb: 1.5\nc: true\nd: null\ne: [x, {f: g}]\nh: 2024-01-02\ni: '7'\n---\n", `{"a":1,"b":1.5,"c":true,"d":null,"e":["x",{"f":"g"}],"h":"2024-01-02","i":"7"}`, ""},
		"large integer":       {"---\na: 9007199254740993\n---\n", `{"a":9007199254740993}`, ""},
		"anchor":              {"---\na: &x [1]\nb: *x\n---\n", `{"a":[1],"b":[1]}`, ""},
		"not a fence line":    {"--- x\na: 1\n---\n", "", "--- x\na: 1\n---\n"},
		"no closing fence":    {"---\na: 1\n", "", "---\na: 1\n"},
		"rule further down":   {"a\n---\nb\n", "", "a\n---\nb\n"},
		"fence inside a text": {"---\na: |\n  ---x\n---\nb\n---\n", `{"a":"---x\n"}`, "b\n---\n"},
		"empty front matter":  {"---\n---\n# b\n", `{}`, "# b\n"},
		"unusual characters":  {"---\na: \"ü\\u0000\"\n---\n", `{"a":"ü\u0000"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := modelcard.Read(c.content)
			require.NoError(t, err)
			require.Equal(t, c.content, got.Content, "the content is kept verbatim")
			require.Equal(t, c.body, got.Body())
			if c.front == "" {
				require.Nil(t, got.Front)
			} else {
				require.JSONEq(t, c.front, string(got.Front))
			}
			require.Regexp(t, "^sha256:[0-9a-f]{64}$", got.Digest)
		})
	}
}

func TestRead_rejectsUnsafeFrontMatter(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	for name, front := range map[string]string{
		"invalid YAML":     "a: [\n",
		"list":             "- a\n",
		"scalar":           "a\n",
		"integer key":      "1: a\n",
		"list as key":      "? [a]\n: b\n",
		"duplicate key":    "a: 1\na: 2\n",
		"NaN":              "a: .nan\n",
		"infinity":         "a: .inf\n",
		"anchor bomb":      bomb,
		"merge key":        "a: &x {b: 1}\nc:\n  <<: *x\n",
		"too deep":         "a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n",
		"too many values":  "a: [" + strings.Repeat("1,", 10001) + "1]\n",
		"too long":         "a: " + strings.Repeat("x", 65<<10) + "\n",
		"recursive anchor": "a: &x [*x]\n",
		"invalid UTF-8":    "a: \xff\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := modelcard.Read("---\n" + front + "---\n# b\n")
			require.True(t, fault.Is(err, fault.Invalid), "%v", err)
			require.Equal(t, []any{"content"}, fault.From(err).Fields[0].Loc)
		})
	}
	_, err := modelcard.Read("a\x00b")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

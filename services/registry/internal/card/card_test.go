package card_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/card"
)

func TestWhatACardSays(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ content, front, body string }{
		"markdown alone":      {"# a\n", "", "# a\n"},
		"front matter":        {"---\nlicense: mit\n---\n# a\n", `{"license":"mit"}`, "# a\n"},
		"nothing behind it":   {"---\nlicense: mit\n---", `{"license":"mit"}`, ""},
		"other line ends":     {"---\r\na: 1\r\n---\r\nb\r\n", `{"a":1}`, "b\r\n"},
		"every kind":          {"---\na: 1\nb: 1.5\nc: true\nd: null\ne: [x, {f: g}]\nh: 2024-01-02\ni: '7'\n---\n", `{"a":1,"b":1.5,"c":true,"d":null,"e":["x",{"f":"g"}],"h":"2024-01-02","i":"7"}`, ""},
		"numbers stay whole":  {"---\na: 9007199254740993\n---\n", `{"a":9007199254740993}`, ""},
		"an anchor":           {"---\na: &x [1]\nb: *x\n---\n", `{"a":[1],"b":[1]}`, ""},
		"a line that is none": {"--- x\na: 1\n---\n", "", "--- x\na: 1\n---\n"},
		"an end that is none": {"---\na: 1\n", "", "---\na: 1\n"},
		"a rule further down": {"a\n---\nb\n", "", "a\n---\nb\n"},
		"a fence in the text": {"---\na: |\n  ---x\n---\nb\n---\n", `{"a":"---x\n"}`, "b\n---\n"},
		"nothing in it":       {"---\n---\n# b\n", `{}`, "# b\n"},
		"text of all kinds":   {"---\na: \"ü\\u0000\"\n---\n", `{"a":"ü\u0000"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := card.Read(c.content)
			require.NoError(t, err)
			require.Equal(t, c.content, got.Content, "it is kept as it was written")
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

func TestFrontMatterThatIsNoPlainData(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 9; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i, i, strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 9), i-1)
	}
	for name, front := range map[string]string{
		"no YAML":                "a: [\n",
		"a list":                 "- a\n",
		"a word":                 "a\n",
		"a name that is none":    "1: a\n",
		"a list as a name":       "? [a]\n: b\n",
		"a name twice":           "a: 1\na: 2\n",
		"no number":              "a: .nan\n",
		"no end":                 "a: .inf\n",
		"a bomb":                 bomb,
		"a merge":                "a: &x {b: 1}\nc:\n  <<: *x\n",
		"too deep":               "a: " + strings.Repeat("[", 40) + strings.Repeat("]", 40) + "\n",
		"too many":               "a: [" + strings.Repeat("1,", 10001) + "1]\n",
		"too long":               "a: " + strings.Repeat("x", 65<<10) + "\n",
		"an anchor of itself":    "a: &x [*x]\n",
		"bytes that are no text": "a: \xff\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := card.Read("---\n" + front + "---\n# b\n")
			require.True(t, fault.Is(err, fault.Invalid), "%v", err)
			require.Equal(t, []any{"content"}, fault.From(err).Fields[0].Loc)
		})
	}
	_, err := card.Read("a\x00b")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
}

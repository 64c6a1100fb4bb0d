package envfile

import (
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		want map[string]string
	}{
		"empty":           {"", map[string]string{}},
		"comments":        {"# a\n\n  # b=c\n \t\n", map[string]string{}},
		"plain":           {"A=1\nB_2=x y\n", map[string]string{"A": "1", "B_2": "x y"}},
		"no line break":   {"A=1", map[string]string{"A": "1"}},
		"export":          {"export A=1\n export\tB=2\nexported=3", map[string]string{"A": "1", "B": "2", "exported": "3"}},
		"empty values":    {"A=\nB=''\nC=\"\"\nD= # x", map[string]string{"A": "", "B": "", "C": "", "D": ""}},
		"comment after":   {"A=1 # one\nB=1#one\nC=\"1\" # one\nD=' # '", map[string]string{"A": "1", "B": "1#one", "C": "1", "D": " # "}},
		"color":           {"A=#fff\nB= 'x'", map[string]string{"A": "#fff", "B": "x"}},
		"equals":          {"A=b=c==", map[string]string{"A": "b=c=="}},
		"spaces":          {"A=  x  ", map[string]string{"A": "x"}},
		"single quotes":   {`A='\n$B"'`, map[string]string{"A": `\n$B"`}},
		"double quotes":   {`A="\n\t\r\"\\\$\d'"`, map[string]string{"A": "\n\t\r\"\\$\\d'"}},
		"nothing expands": {"A=1\nB=$A\nC=\"${A}\"\nD=`id`", map[string]string{"A": "1", "B": "$A", "C": "${A}", "D": "`id`"}},
		"many lines":      {"A='x\n\ny'\nB=\"p\nq\"\nC=1", map[string]string{"A": "x\n\ny", "B": "p\nq", "C": "1"}},
		"windows":         {"A=1\r\nB='x\r\ny'\r\n", map[string]string{"A": "1", "B": "x\ny"}},
		"byte order mark": {"\ufeffA=1", map[string]string{"A": "1"}},
		"last counts":     {"A=1\nA=2", map[string]string{"A": "2"}},
		"inner quotes":    {`A=it's "x"`, map[string]string{"A": `it's "x"`}},
		"other letters":   {"A=Modèle\nB=\"\\é\"", map[string]string{"A": "Modèle", "B": `\é`}},
	} {
		got, err := Parse(c.text)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

func TestParse_refusals(t *testing.T) {
	t.Parallel()
	const secret = "hunter2"
	many := strings.Builder{}
	for i := range maxVariables + 1 {
		many.WriteString("V" + strconv.Itoa(i) + "=1\n")
	}
	for name, c := range map[string]struct {
		text string
		line int
		part string
	}{
		"no equals":       {"A=1\n" + secret, 2, "no ="},
		"no name":         {"# x\n\n=" + secret, 3, "name before = is missing"},
		"space":           {"A =" + secret, 1, "without spaces"},
		"digit":           {"A=1\n2A=" + secret, 2, "not a valid environment"},
		"dash":            {"MY-VAR=" + secret, 1, "not a valid environment"},
		"lines of a key":  {"A=begin\n" + secret + "+/==\n", 2, "put a value with several lines into quotes"},
		"two words":       {"set A=" + secret, 1, "not a valid environment"},
		"long name":       {strings.Repeat("A", 129) + "=1", 1, "not a valid"},
		"NUL":             {"A=1\nB=" + secret + "\x00", 2, "B contains NUL"},
		"NUL in quotes":   {"B='x\n" + secret + "\x00'", 1, "B contains NUL"},
		"not UTF-8":       {"A=" + secret + "\xff", 1, "not UTF-8"},
		"open quote":      {"A=1\nB=\"" + secret + "\nC=2\n", 2, "quote of B is not closed"},
		"open backslash":  {`B="` + secret + `\`, 1, "quote of B is not closed"},
		"text after":      {"B='a\nb'" + secret, 2, "closing quote of B"},
		"comment at once": {"B='a'#b", 1, "closing quote of B"},
		"long value":      {"A=1\nB=" + strings.Repeat("x", maxValue+1), 2, "longer than 32768 bytes"},
		"quotes in a key": {"A=begin\n" + secret + `+="zz"q`, 2, "not a valid environment"},
		"open in a key":   {"A=begin\n" + secret + `+='zz`, 2, "not a valid environment"},
		"dash and quotes": {"my-" + secret + `="a"b`, 1, "not a valid environment"},
		"long and quotes": {strings.Repeat(secret, 20) + `="a`, 1, "not a valid environment"},
		"many":            {many.String(), maxVariables + 1, "more than 64 variables"},
		"after values":    {"A='x\n\ny'\nB=1\n\nC\n", 6, "no ="},
	} {
		got, err := Parse(c.text)
		require.Nil(t, got, name)
		var refused *Error
		require.ErrorAs(t, err, &refused, name)
		require.Equal(t, c.line, refused.Line, name)
		require.Contains(t, refused.Error(), c.part, name)
		require.NotContains(t, refused.Error(), secret, name)
	}
}

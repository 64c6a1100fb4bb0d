package logs

import (
	"regexp/syntax"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCompilePattern(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		`loss=\d+`: "", `\bNaN\b`: "", `(\pL{1,30}){1,30}`: "",
		`(`:                                     "missing closing )",
		`a{1001}`:                               "invalid repeat count",
		`(?=x)`:                                 "not a regular expression in RE2 syntax",
		strings.Repeat(`(\pL{1,30}){1,30}`, 20): "too complex",
		"a{1000}":                               "",
		"a{1000}b{2,1000}":                      "too complex",
		"a{500,}b{500,}c{999}":                  "too complex",
	} {
		_, err := CompilePattern(pattern, false)
		if want == "" {
			require.NoError(t, err, pattern)
		} else {
			require.ErrorContains(t, err, want)
		}
	}
	re, err := CompilePattern("ERROR", true)
	require.NoError(t, err)
	require.True(t, re.MatchString("an Error"))
}

// The bound of a pattern is never smaller than its program, so no large program is compiled.
func TestInstructions_boundsProgram(t *testing.T) {
	t.Parallel()
	for _, pattern := range []string{
		"", "abc", "a|b|cd|ef", "(a)(b)*c+d?", "[a-z]{3}", "x{2,4}", "x{2,}", "x{0,}", "x{0}", "((ab){2,5}c){3,}", `^\bx$`, "(?i)straße|x{7}",
	} {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		require.NoError(t, err, pattern)
		program, err := syntax.Compile(parsed.Simplify())
		require.NoError(t, err, pattern)
		const ends = 2 // each program begins with a failure and ends with a match
		require.GreaterOrEqual(t, instructions(parsed)+ends, len(program.Inst), pattern)
	}
}

// The compiled form of this pattern would need some hundred megabytes.
func TestCompilePattern_nestedRepetitionAllocatesLittle(t *testing.T) {
	t.Parallel()
	pattern := "(?:" + strings.Repeat("a", 980) + "){1000}"
	result := testing.Benchmark(func(b *testing.B) {
		b.Helper()
		for b.Loop() {
			_, err := CompilePattern(pattern, true)
			require.ErrorContains(b, err, "too complex")
		}
	})
	require.Less(t, result.AllocedBytesPerOp(), int64(1<<20))
}

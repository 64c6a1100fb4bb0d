package logs

import (
	"fmt"
	"regexp"
	"regexp/syntax"
)

// maxInstructions is the maximum size of a compiled pattern. The time to search a line grows with this size: with the
// largest patterns, a line of MaxLine bytes takes some seconds.
const maxInstructions = 2000

// CompilePattern returns the regular expression of a query. It returns an error, which a user can understand, if the
// pattern is not valid or too complex. It compiles only patterns that are not too complex, because a short pattern with
// nested repetitions can need a hundred megabytes.
func CompilePattern(pattern string, ignoreCase bool) (*regexp.Regexp, error) {
	if ignoreCase {
		pattern = "(?i)" + pattern
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression in RE2 syntax: %w", err)
	}
	if n := instructions(parsed); n > maxInstructions {
		return nil, fmt.Errorf("the pattern is too complex: it needs up to %d instructions, but at most %d are allowed; use smaller repetitions", n, maxInstructions)
	}
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("the pattern is not a regular expression in RE2 syntax: %w", err)
	}
	return re, nil
}

// instructions returns an upper bound of the number of instructions of a parsed pattern. Parse limits the product of
// nested repetitions to 1,000, so the number cannot overflow.
func instructions(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n += instructions(sub)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n = len(re.Rune)
	case syntax.OpRepeat:
		if re.Max < 0 { // x{2,} is compiled as xx+
			n = max(1, re.Min)*n + 2
		} else { // x{2,4} is compiled as xx(x(x)?)?
			n = re.Max*n + re.Max - re.Min
		}
	case syntax.OpAlternate:
		n += len(re.Sub)
	case syntax.OpCapture, syntax.OpStar, syntax.OpPlus, syntax.OpQuest:
		n += 2
	default: // a class, an assertion, or a concatenation, which needs none itself
	}
	return max(1, n)
}

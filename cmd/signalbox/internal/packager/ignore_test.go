package packager

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The cases follow the documentation of gitignore.
func TestRules(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		pattern string
		yes, no []string // a path that ends in a slash is a folder
	}{
		{"*.log", []string{"a.log", "x/y/a.log", ".log"}, []string{"a.logs", "log"}},
		{"foo", []string{"foo", "foo/", "a/foo", "a/b/foo/"}, []string{"food", "a/food"}},
		{"/foo", []string{"foo", "foo/"}, []string{"a/foo"}},
		{"foo/", []string{"foo/", "a/foo/"}, []string{"foo", "a/foo"}},
		{"/foo/", []string{"foo/"}, []string{"foo", "a/foo/"}},
		{"doc/frotz", []string{"doc/frotz", "doc/frotz/"}, []string{"a/doc/frotz", "frotz"}},
		{"doc/frotz/", []string{"doc/frotz/"}, []string{"doc/frotz", "a/doc/frotz/"}},
		{"foo/*", []string{"foo/a", "foo/b/"}, []string{"foo/a/b", "foo", "x/foo/a"}},
		{"**/foo", []string{"foo", "a/foo", "a/b/foo"}, []string{"afoo"}},
		{"**/foo/bar", []string{"foo/bar", "a/foo/bar"}, []string{"foo/a/bar"}},
		{"abc/**", []string{"abc/a", "abc/a/b"}, []string{"abc", "abc/", "x/abc/a"}},
		{"a/**/b", []string{"a/b", "a/x/b", "a/x/y/b"}, []string{"a/xb", "ab", "c/a/b"}},
		{"a/**/b/**/c", []string{"a/b/c", "a/x/b/y/z/c", "a/b/b/c"}, []string{"a/c", "a/b"}},
		{"foo**bar", []string{"foobar", "fooxbar", "a/foobar"}, []string{"foo/bar"}},
		{"x/foo**bar", []string{"x/foobar", "x/foo1bar"}, []string{"x/foo/bar"}},
		{"**", []string{"a", "a/b", "a/"}, nil},
		{"**/", []string{"a/", "a/b/"}, []string{"a"}},
		{"/*", []string{"a", "b/"}, []string{"a/b"}},
		{"a?c", []string{"abc", "aüc", "x/abc"}, []string{"ac", "a/c", "abbc"}},
		{"*.[oa]", []string{"x.o", "x.a"}, []string{"x.b", "x.oa"}},
		{"[a-c]x", []string{"ax", "cx"}, []string{"dx", "x"}},
		{"[!a-c]x", []string{"dx"}, []string{"ax"}},
		{"[^a]x", []string{"bx"}, []string{"ax"}},
		{"[]-]x", []string{"]x", "-x"}, []string{"ax"}},
		{"[[:digit:]_]x", []string{"1x", "_x"}, []string{"ax"}},
		{"[[:alpha]", []string{"a", "[", ":", "x/p"}, []string{"b", "]", "a]"}},
		{"[[:alpha]]", []string{"a]"}, []string{"a", ":]x"}},
		{"[[:]x", []string{"[x", ":x"}, []string{"ax"}},
		{"[a/b]", []string{"a", "b/"}, []string{"x/a", "a/b", "c"}},
		{"x/[a/b]", []string{"x/a"}, []string{"a", "y/x/a"}},
		{`[\]]x`, []string{"]x"}, []string{`\x`}},
		{`\#a`, []string{"#a"}, []string{`\#a`}},
		{`\!a`, []string{"!a"}, []string{"a"}},
		{`a\*`, []string{"a*"}, []string{"ab"}},
		{"a  ", []string{"a"}, []string{"a  "}},
		{`a\ `, []string{"a "}, []string{"a"}},
		{`a\  `, []string{"a "}, []string{"a", "a  "}},
		{"a b", []string{"a b"}, []string{"a"}},
		{"Foo", []string{"Foo"}, []string{"foo"}},
		{"*a*b*c*d*e*f*g*h*", []string{"abcdefgh"}, []string{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"}},
	} {
		rules := parseRules(".gitignore", []byte(c.pattern+"\n"))
		require.Len(t, rules, 1, c.pattern)
		for want, paths := range map[bool][]string{true: c.yes, false: c.no} {
			for _, path := range paths {
				name, folder := folderName(path)
				require.Equal(t, want, rules[0].matches(name, folder), "%q and %q", c.pattern, path)
			}
		}
	}
}

func folderName(path string) (string, bool) {
	if last := len(path) - 1; path[last] == '/' {
		return path[:last], true
	}
	return path, false
}

func TestRules_linesWithoutPattern(t *testing.T) {
	t.Parallel()
	require.Empty(t, parseRules(".gitignore", []byte("\n# comment\n   \n/\n[a\n[[:no:]]\na\\\n!\n\r\n")))
	rules := parseRules("sub/.gitignore", []byte("\ufeff*.a\r\n\n!b.a"))
	require.Len(t, rules, 2)
	require.Equal(t, "sub/.gitignore:1: *.a", rules[0].source)
	require.False(t, rules[0].negated)
	require.Equal(t, "sub/.gitignore:3: !b.a", rules[1].source)
	require.True(t, rules[1].negated)
	require.True(t, rules[0].matches("x.a", false), "neither the mark of the encoding nor the carriage return is part of the pattern")
}

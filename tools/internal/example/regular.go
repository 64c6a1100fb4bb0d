package example

import (
	"net/url"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// sample returns a short text that matches a regular expression without assertions, or "" if the expression is invalid.
func sample(expression string) string {
	parsed, err := syntax.Parse(readable().Replace(expression), syntax.Perl)
	if err != nil {
		return ""
	}
	return matching(parsed)
}

// readable replaces parts of expressions by values that look like those of the product.
func readable() *strings.Replacer {
	jwt, host := regexp.QuoteMeta(token()), regexp.QuoteMeta(server)
	return strings.NewReplacer(
		`"ts":"[^"]+"`, `"ts":"`+regexp.QuoteMeta(moment(""))+`"`, `_[0-9a-z]{26}`, "_"+ulid, `_[0-9A-Za-z]{49}`, "_"+secret,
		`_[0-9A-Za-z]{4}`, "_"+secret[:4], `dtk_.{4}`, "dtk_"+secret[:4], `[0-9a-f]{64}`, digits, `given-[0-9a-f]{16}`, "given-"+digits[:16],
		`https?://[^/]+`, host, `https?://.*/`, host+"/", `.*/inference`, host+"/inference", `http.* `, host+" ", `.* a node of`, "the engine waits for a node of",
		`eyJ[A-Za-z0-9_.-]+`, jwt, `[B-DF-HJ-NP-TV-Z]{4}-[B-DF-HJ-NP-TV-Z]{4}`, "WDJB-MJHT", `[A-Z]{4}-[A-Z]{4}`, "WDJB-MJHT", `code=([0-9A-Za-z_]+)`, `code=(`+secret+`)`, `iss=http%3A%2F%2F[^&]+`, "iss="+url.QueryEscape(server), `user_code=[A-Z-]+`, "user_code=WDJB-MJHT", `[A-Za-z0-9_-]{24}`, secret[:24],
		`(/api/blobs/[^\"]+)`, "(/api/blobs/example)", `(/api/blobs/[^"]+)`, "(/api/blobs/example)", `3[.]1[.].*`, `3\.1\.1`,
		`[0-9]+[.][0-9]+[.][0-9]+`, `1\.0\.0`, `-----BEGIN CERTIFICATE-----.*`, "-----BEGIN CERTIFICATE-----\nMIIBexample\n-----END CERTIFICATE-----\n",
	)
}

func matching(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		return string(re.Rune)
	case syntax.OpCharClass:
		return string(member(re.Rune))
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return "a"
	case syntax.OpCapture, syntax.OpPlus:
		return matching(re.Sub[0])
	case syntax.OpRepeat:
		return strings.Repeat(matching(re.Sub[0]), re.Min)
	case syntax.OpAlternate:
		return matching(re.Sub[0])
	case syntax.OpConcat:
		var out strings.Builder
		for _, part := range re.Sub {
			out.WriteString(matching(part))
		}
		return out.String()
	default:
		return "" // an assertion, or a part that may be missing
	}
}

// member returns a character of a class, which has pairs of first and last characters: if possible a readable one.
func member(class []rune) rune {
	for _, wanted := range "a1A" {
		for pair := range slices.Chunk(class, 2) {
			if pair[0] <= wanted && wanted <= pair[1] {
				return wanted
			}
		}
	}
	return class[0]
}

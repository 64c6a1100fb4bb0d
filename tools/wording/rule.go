package main

import (
	"regexp"
	"strings"
)

// rule is a group of words that make a sentence hard to read, and what to write instead.
type rule struct {
	words  *regexp.Regexp
	better string
}

// rules returns the word list. It contains only rules that can be checked without understanding the sentence; all
// other rules are in docs/contributing/go-style.md.
func rules() []rule {
	list := []struct{ words, better string }{
		{`answers|answered|answering|answer`, "return, respond; response, result"},
		{`he|him|his|himself|whoever|whom`, "the caller, the user"},
		{`everybody|somebody|nobody`, "anyone, no one, all callers"},
		{`told|tells|telling`, "receives, reports, is notified"},
		{`says|said`, "states, reports, shows"},
		{`asks|asked|asking`, "requests, calls, checks"},
		{`has yet to|have yet to|had yet to`, "not yet"},
		{`who (?:is|are) no`, "without, that is not a"},
		{`(?:is|are) not there`, "is missing, does not exist"},
		{`of which`, "split the sentence"},
		{`anew`, "again"},
		{`(?:go|goes|went) on`, "continue"},
		{`has a say|have a say`, "matters, takes precedence"},
		{`of the house|house's`, "internal, this installation's"},
		{`deeds?`, "action, operation"},
	}
	out := make([]rule, len(list))
	for i, l := range list {
		out[i] = rule{words: regexp.MustCompile(`(?i)\b(?:` + l.words + `)\b`), better: l.better}
	}
	return out
}

// isNo matches "X is no Y" and "X is none", which stand for "X is not a valid Y" or "there is no Y".
var isNo = regexp.MustCompile(`(?i)\b(\w+) (?:is|are|was|were) no(?:ne\b| (\w+))`)

// offence is one word of a text that breaks a rule, and the words to use instead.
type offence struct {
	at           int
	word, better string
}

// offences returns the words of text that break a rule.
func offences(list []rule, text string) []offence {
	var out []offence
	for _, r := range list {
		for _, m := range r.words.FindAllStringIndex(text, -1) {
			if quoted(text, m[0], m[1]) {
				continue
			}
			out = append(out, offence{at: m[0], word: strings.ToLower(text[m[0]:m[1]]), better: r.better})
		}
	}
	for _, m := range isNo.FindAllStringSubmatchIndex(text, -1) {
		before, after := strings.ToLower(text[m[2]:m[3]]), ""
		if m[4] >= 0 {
			after = strings.ToLower(text[m[4]:m[5]])
		}
		if before == "there" || comparative(after) || strings.HasSuffix(text[m[0]:m[1]], " None") { // None of Python
			continue
		}
		out = append(out, offence{at: m[0], word: "is no", better: "is not a valid …, does not exist"})
	}
	return out
}

// comparative reports whether "is no W" reads plainly: "is no longer", "is no more than".
func comparative(w string) bool {
	return w == "longer" || w == "more" || w == "less" || w == "fewer" || strings.HasSuffix(w, "er")
}

// quoted reports whether the word is a name in code or in quotes rather than a word of the sentence.
func quoted(text string, from, to int) bool {
	before, after := byte(' '), byte(' ')
	if from > 0 {
		before = text[from-1]
	}
	if to < len(text) {
		after = text[to]
	}
	if strings.ContainsRune("`\"_./{<$-", rune(before)) && before != '-' || strings.ContainsRune("`\"_(={>/", rune(after)) {
		return true
	}
	// A dot after the word ends a sentence, unless a name follows at once: answer.go.
	return after == '.' && to+1 < len(text) && text[to+1] != ' ' && text[to+1] != '\n'
}

var (
	testFirst = regexp.MustCompile(`^(?:Test|Fuzz|Benchmark)(?:A|An|The|What|Who|Whoever|Where|Nobody|Nothing|Without)[A-Z]`)
	testWord  = regexp.MustCompile(`Told|Tells|Says|Said|Asked|Asks|Answers|Answered|Whoever|Nobody|Everybody|Somebody|Anew|IsNone|AreNone|IsNo[A-Z]`)
)

// testNameMax is the maximum length of a test's name, in characters.
const testNameMax = 70

// nameOffence returns what is wrong with the name of a test, or "" if nothing is.
func nameOffence(name string) string {
	switch {
	case testFirst.MatchString(name):
		return "begin with the subject: Test<Type>_<Method>_<condition> or a plain phrase"
	case testWord.MatchString(name):
		return "name the subject and the result in plain words"
	case len(name) > testNameMax:
		return "at most 70 characters"
	}
	return ""
}

package main

import (
	"strings"

	"github.com/oasdiff/oasdiff/checker"
)

// levels returns the severities that differ from the defaults of oasdiff.
func levels() map[string]checker.Level {
	out := map[string]checker.Level{
		// A shape is a contract, optional parts included; both are notes by default.
		"response-optional-property-removed": checker.ERR,
		"optional-response-header-removed":   checker.ERR,
	}
	for id := range checker.GetCheckLevels() {
		if strings.HasPrefix(id, "response-") && widens(id) {
			out[id] = checker.INFO
		}
	}
	return out
}

// widens reports whether the check is about the values of one type. In responses those may widen: enumerations gain
// values, and a limit that is relaxed for requests is relaxed for the responses that repeat the value. The unevaluated
// properties are the additional ones, see rewriter.
func widens(id string) bool {
	for _, part := range []string{"-enum-value-added", "-became-not-enum", "-pattern-changed", "-pattern-removed", "-multiple-of-", "-unique-items-", "-unevaluated-properties-"} {
		if strings.Contains(id, part) {
			return true
		}
	}
	return strings.Contains(id, "-min-") || strings.Contains(id, "-max-")
}

package main

import (
	"strings"

	"github.com/oasdiff/oasdiff/checker"
)

// levels returns the severities that differ from the defaults of oasdiff.
func levels() map[string]checker.Level {
	out := map[string]checker.Level{
		// Clients may rely on optional parts too. By default, oasdiff only notes their removal.
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

// widens reports whether the check concerns the allowed values of a type, for example an enum or a limit. In responses,
// these values may change: an enum gains values, and a limit that is relaxed for requests is also relaxed for the
// responses that repeat the value. Unevaluated properties stand for additional properties; see rewriter.
func widens(id string) bool {
	for _, part := range []string{"-enum-value-added", "-became-not-enum", "-pattern-changed", "-pattern-removed", "-multiple-of-", "-unique-items-", "-unevaluated-properties-"} {
		if strings.Contains(id, part) {
			return true
		}
	}
	return strings.Contains(id, "-min-") || strings.Contains(id, "-max-")
}

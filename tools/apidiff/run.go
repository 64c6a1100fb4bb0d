package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/oasdiff/oasdiff/checker"
	"github.com/oasdiff/oasdiff/diff"
	"github.com/oasdiff/oasdiff/load"
)

var errBroken = errors.New("clients of the baseline would break; run make accept-api if that is intended")

func run(base, head string, out io.Writer) error {
	var docs [2]*openapi3.T
	for i, path := range []string{base, head} {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read document: %w", err)
		}
		if docs[i], err = parse(text); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	found, err := compare(docs[0], docs[1])
	if err != nil {
		return err
	}
	for _, f := range found {
		if _, err := fmt.Fprintln(out, f); err != nil {
			return fmt.Errorf("write findings: %w", err)
		}
	}
	if len(found) > 0 {
		return errBroken
	}
	return nil
}

func parse(text []byte) (*openapi3.T, error) {
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	rewriter{doc}.rewrite(doc)
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	return openapi3.NewLoader().LoadFromData(text)
}

// compare returns the changes that break clients of base, one line each.
func compare(base, head *openapi3.T) ([]string, error) {
	report, sources, err := diff.GetWithOperationsSourcesMap(diff.NewConfig(), &load.SpecInfo{Spec: base}, &load.SpecInfo{Spec: head})
	if err != nil {
		return nil, fmt.Errorf("compare documents: %w", err)
	}
	config := checker.NewConfig(checker.GetAllChecks(), checker.WithSeverityLevels(levels()))
	text := checker.NewDefaultLocalizer()
	found := raisedRoles(base, head)
	// Include warnings. For oasdiff, the removal of a request's parameter or property is only a warning, although
	// requests that still contain it are refused. Every error inside allOf is only a warning, too.
	for _, change := range checker.CheckBackwardCompatibilityUntilLevel(config, report, sources, checker.WARN) {
		at := strings.TrimSpace(change.GetOperation() + " " + change.GetPath())
		found = append(found, fmt.Sprintf("%s: %s [%s]", at, change.GetUncolorizedText(text), change.GetId()))
	}
	return found, nil
}

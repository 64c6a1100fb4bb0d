package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

var errBroken = errors.New("clients of the baseline would break; run make accept-api if that is intended")

func run(base, head string, out io.Writer) error {
	var docs [2]map[string]any
	for i, path := range []string{base, head} {
		text, err := os.ReadFile(path)
		if err != nil {
			return fmt.Errorf("read document: %w", err)
		}
		if err := json.Unmarshal(text, &docs[i]); err != nil {
			return fmt.Errorf("read %s: %w", path, err)
		}
	}
	found := compare(docs[0], docs[1])
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

package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// printStatements writes the statements below the folder root.
func printStatements(w io.Writer, root string) error {
	src, err := readSource(root)
	if err != nil {
		return err
	}
	out := json.NewEncoder(w)
	for _, s := range src.statements() {
		line := struct {
			Path   string   `json:"path"`
			Line   int      `json:"line"`
			Pieces []string `json:"pieces"`
		}{s.path, s.line, s.pieces}
		if err := out.Encode(line); err != nil {
			return fmt.Errorf("write the statements: %w", err)
		}
	}
	return nil
}

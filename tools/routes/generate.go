package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/tools/internal/surface"
)

func run(image, extra, out string) error {
	if image == "" || extra == "" || out == "" {
		return errors.New("-image, -http and -out are required")
	}
	data, err := os.ReadFile(image)
	if err != nil {
		return fmt.Errorf("read image: %w", err)
	}
	list, err := os.ReadFile(extra)
	if err != nil {
		return fmt.Errorf("read HTTP routes: %w", err)
	}
	files, err := generate(data, list)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // source code, for all to read
		return fmt.Errorf("create the output folder: %w", err)
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(out, name), content, 0o644); err != nil { //nolint:gosec // source code, for all to read
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return nil
}

// generate returns the files of gen/route by name.
func generate(image, list []byte) (map[string][]byte, error) {
	s, err := surface.Read(image, list)
	if err != nil {
		return nil, err
	}
	table, err := renderTable(s.Routes)
	if err != nil {
		return nil, err
	}
	register, err := renderRegister(s.Services)
	if err != nil {
		return nil, err
	}
	return map[string][]byte{"table.go": table, "register.go": register}, nil
}

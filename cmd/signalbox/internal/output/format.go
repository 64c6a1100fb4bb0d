// Package output owns what commands print to standard output: tables, JSON, YAML, lines of JSON, and names. The values
// are the JSON of the API. As JSON, YAML and lines they are printed as the server has sent them, with all members in
// their order; a table has the columns that a command declares, or those that the user selects. Control characters in
// a table are escaped, so that a name cannot control the terminal.
package output

import (
	"fmt"
	"slices"
	"strings"
)

// Format is a form of the output.
type Format string

// The formats. Wide is a table with more columns. Lines is one JSON value per line. Name is one id per line.
const (
	Table Format = "table"
	Wide  Format = "wide"
	JSON  Format = "json"
	YAML  Format = "yaml"
	Lines Format = "jsonl"
	Name  Format = "name"
)

// Formats returns all formats.
func Formats() []string {
	return []string{string(Table), string(Wide), string(JSON), string(YAML), string(Lines), string(Name)}
}

// ParseFormat returns the format with the given name.
func ParseFormat(name string) (Format, error) {
	if !slices.Contains(Formats(), name) {
		return "", fmt.Errorf("%q is not a format; use one of %s", name, strings.Join(Formats(), ", "))
	}
	return Format(name), nil
}

// IsTable reports whether the format is for people and not for programs.
func (f Format) IsTable() bool { return f == Table || f == Wide }

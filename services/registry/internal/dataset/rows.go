package dataset

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/textfile"
)

const (
	// maxRead is the maximum number of bytes that are read to find the first rows of a file.
	maxRead = 4 << 20
	// maxRow is the size of the largest row shown, in bytes.
	maxRow = 64 << 10
	// maxShown bounds the total size of the rows in one response, so that they fit into a message.
	maxShown = 2 << 20
)

// row is a line of a jsonl file: its value, or a description of its error.
type row struct {
	value json.RawMessage
	wrong string
}

// rows returns the first rows of a file. The result more reports whether the file may have further rows.
func (s *Server) rows(ctx context.Context, d *Dataset, v *Version, f File, limit int) (rows []row, more bool, err error) {
	body, _, err := s.Blobs.Get(ctx, v.key(d, f.SHA256))
	if fault.Is(err, fault.Absent) {
		return nil, false, fault.New(fault.Dependency, "object_missing", "file %s is missing from the object store", f.Path)
	}
	if err != nil {
		return nil, false, fmt.Errorf("open a dataset file: %w", err)
	}
	defer func() { _ = body.Close() }()
	return firstRows(&io.LimitedReader{R: body, N: maxRead}, limit)
}

// firstRows reads at most limit lines. Their values have at most maxShown bytes in total. A byte order mark, with which
// some editors begin a file, is not a part of the first line.
func firstRows(r *io.LimitedReader, limit int) (rows []row, more bool, err error) {
	lines := bufio.NewReaderSize(r, 64<<10)
	textfile.SkipByteOrderMark(lines)
	total := 0
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return nil, false, fmt.Errorf("read a dataset file: %w", err)
		}
		ended := errors.Is(err, io.EOF)
		if ended && r.N <= 0 {
			return rows, true, nil // the line is cut off at maxRead, and more lines may follow
		}
		if line = bytes.TrimSpace(line); len(line) == 0 && ended {
			return rows, false, nil
		}
		one := read(line)
		total += len(one.value)
		if len(rows) == limit || total > maxShown {
			return rows, true, nil
		}
		rows = append(rows, one)
		if ended {
			return rows, false, nil
		}
	}
}

func read(line []byte) row {
	switch {
	case len(line) > maxRow:
		return row{wrong: fmt.Sprintf("the row is longer than %d KiB", maxRow>>10)}
	case !json.Valid(line):
		return row{wrong: "the row is not JSON"}
	default:
		return row{value: line}
	}
}

const (
	// sampleRows is the number of rows from which a schema is inferred.
	sampleRows = 200
	// maxFields is the maximum number of members in an inferred schema. Rows with more members are probably maps, whose
	// keys are data.
	maxFields = 200
)

// declared checks the schema that was uploaded with a version.
func declared(raw []byte) (schema json.RawMessage, source string, err error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, SchemaNone, nil
	}
	if _, err := canon.JSON(raw); raw[0] != '{' || err != nil {
		return nil, "", fault.InvalidFields(fault.At(fault.TypeDictType, "Input should be a valid dictionary", "schema"))
	}
	return raw, SchemaDeclared, nil
}

// learn infers the schema of a jsonl version from its first rows, unless a schema was declared. If the rows do not form
// a table, the version has no schema; that is not an error.
func (s *Server) learn(ctx context.Context, d *Dataset, v *Version) error {
	if v.SchemaSource == SchemaDeclared || d.Format != DefaultFormat {
		return nil
	}
	rows, _, err := s.rows(ctx, d, v, v.Manifest[0], sampleRows)
	if err != nil {
		return err
	}
	schema, ok := infer(rows)
	if !ok {
		return nil
	}
	if v.Schema, err = json.Marshal(schema); err != nil {
		return fmt.Errorf("encode the schema of a dataset: %w", err)
	}
	v.SchemaSource, v.SampledRows = SchemaInferred, len(rows)
	return nil
}

// rowSchema is the JSON Schema of a row: names and types, never a value.
type rowSchema struct {
	Type       string              `json:"type"`
	Properties map[string]property `json:"properties"`
	Required   []string            `json:"required"`
}

type property struct {
	Type []string `json:"type"`
}

// infer returns false unless all rows are objects with at most maxFields different members in total.
func infer(rows []row) (*rowSchema, bool) {
	seen, times := map[string]map[string]bool{}, map[string]int{}
	for _, r := range rows {
		var members map[string]json.RawMessage
		if r.wrong != "" || json.Unmarshal(r.value, &members) != nil || members == nil {
			return nil, false
		}
		for name, raw := range members {
			if seen[name] == nil {
				seen[name] = map[string]bool{}
			}
			seen[name][typeOf(raw)] = true
			times[name]++
		}
		if len(seen) > maxFields {
			return nil, false
		}
	}
	out := &rowSchema{Type: "object", Properties: map[string]property{}, Required: []string{}}
	for name, types := range seen {
		if types["integer"] && types["number"] {
			delete(types, "integer")
		}
		out.Properties[name] = property{Type: slices.Sorted(maps.Keys(types))}
		if times[name] == len(rows) {
			out.Required = append(out.Required, name)
		}
	}
	slices.Sort(out.Required)
	return out, len(rows) > 0
}

func typeOf(raw json.RawMessage) string {
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	default:
		if slices.ContainsFunc(raw, func(b byte) bool { return b == '.' || b == 'e' || b == 'E' }) {
			return "number"
		}
		return "integer"
	}
}

package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
)

// decode parses JSON. Numbers keep their digits.
func decode(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("decode a response of the server: %w", err)
	}
	return value, nil
}

// lookup returns the member of a value at a path of names with dots between them. The number of an element selects it in
// an array. Names of members may contain dots themselves.
func lookup(value any, path string) (any, bool) {
	switch v := value.(type) {
	case map[string]any:
		if member, ok := v[path]; ok {
			return member, true
		}
		for i := strings.LastIndexByte(path, '.'); i > 0; i = strings.LastIndexByte(path[:i], '.') {
			member, ok := v[path[:i]]
			if !ok {
				continue
			}
			if found, ok := lookup(member, path[i+1:]); ok {
				return found, true
			}
		}
	case []any:
		head, rest, deeper := strings.Cut(path, ".")
		i, err := strconv.Atoi(head)
		switch {
		case err != nil || i < 0 || i >= len(v):
		case deeper:
			return lookup(v[i], rest)
		default:
			return v[i], true
		}
	}
	return nil, false
}

// plain converts the numbers of a decoded value to those that jq computes with: int, float64, and *big.Int for integers
// that exceed an int.
func plain(value any) any {
	switch v := value.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for key, member := range v {
			out[key] = plain(member)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, element := range v {
			out[i] = plain(element)
		}
		return out
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		if n, ok := new(big.Int).SetString(v.String(), 10); ok {
			return n
		}
		f, _ := v.Float64()
		return f
	}
	return value
}

// array returns a JSON array of the rows.
func array(rows []json.RawMessage) json.RawMessage {
	if len(rows) == 0 {
		return json.RawMessage("[]")
	}
	return append(append(json.RawMessage("["), bytes.Join(asBytes(rows), []byte(","))...), ']')
}

func asBytes(rows []json.RawMessage) [][]byte {
	out := make([][]byte, len(rows))
	for i, row := range rows {
		out[i] = row
	}
	return out
}

// writeIndented prints JSON with two spaces for each level.
func writeIndented(w io.Writer, raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return fmt.Errorf("decode a response of the server: %w", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

// writeCompact prints JSON on one line.
func writeCompact(w io.Writer, raw json.RawMessage) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return fmt.Errorf("decode a response of the server: %w", err)
	}
	b.WriteByte('\n')
	_, err := w.Write(b.Bytes())
	return err
}

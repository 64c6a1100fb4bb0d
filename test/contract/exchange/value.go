package exchange

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Decode parses one JSON value: nil, bool, string, json.Number, []any or map[string]any. A duplicate member, data after
// the value, and invalid UTF-8 are errors.
func Decode(raw []byte) (any, error) {
	if !utf8.Valid(raw) {
		return nil, errors.New("invalid UTF-8")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, err := decode(d, "")
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("data after the JSON value")
	}
	return v, nil
}

func decode(d *json.Decoder, path string) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	switch token {
	case json.Delim('{'):
		return decodeObject(d, path)
	case json.Delim('['):
		list := []any{}
		for d.More() {
			v, err := decode(d, path+"["+strconv.Itoa(len(list))+"]")
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err := d.Token()
		return list, err
	default:
		return token, nil
	}
}

func decodeObject(d *json.Decoder, path string) (any, error) {
	object := map[string]any{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("invalid JSON: %w", err)
		}
		name, _ := key.(string)
		at := member(path, name)
		if _, there := object[name]; there {
			return nil, fmt.Errorf("duplicate member %s", at)
		}
		if object[name], err = decode(d, at); err != nil {
			return nil, err
		}
	}
	_, err := d.Token()
	return object, err
}

// member returns the path of an object's member.
func member(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// kind returns the type of a value. 1 is an int; 1.0 and 1e0 are floats.
func kind(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return "bool"
	case string:
		return "string"
	case json.Number:
		if strings.ContainsAny(v.String(), ".eE") {
			return "float"
		}
		return "int"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// equal compares values that are neither arrays nor objects, by value and type.
func equal(a, b any) bool {
	if kind(a) != kind(b) {
		return false
	}
	x, number := a.(json.Number)
	if !number {
		return a == b
	}
	p, ok := new(big.Rat).SetString(x.String())
	q, ok2 := new(big.Rat).SetString(b.(json.Number).String())
	return ok && ok2 && p.Cmp(q) == 0
}

// show formats a value for a message.
func show(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	text := strings.TrimSuffix(b.String(), "\n")
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return text
}

const maxShown = 600

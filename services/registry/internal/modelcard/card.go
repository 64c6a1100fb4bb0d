// Package modelcard parses and stores the cards of model versions: Markdown preceded by YAML front matter, as on
// model hubs. It stores every revision of a card verbatim, and the front matter also as JSON. It rejects front matter
// that is not plain data: exponentially expanding anchors, keys that are not strings, numbers that JSON cannot
// represent. Only store.go contains SQL.
package modelcard

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Kind is the name of cards in errors.
const Kind = "model card"

const (
	fence = "---"
	// maxFront is the maximum size of the front matter in bytes. maxNodes is the maximum number of its values, and
	// maxDepth the maximum depth of their nesting.
	maxFront = 64 << 10
	maxNodes = 10000
	maxDepth = 32
)

// Card is one revision of the card of a version.
type Card struct {
	ModelID   string
	Version   int32
	Revision  int32
	Content   string
	Front     json.RawMessage `db:"front_matter"` // nil if there is no front matter
	BodyAt    int
	Digest    string
	Author    string
	CreatedAt time.Time
}

// Body returns the Markdown after the front matter.
func (c *Card) Body() string { return c.Content[c.BodyAt:] }

// Read parses a card.
func Read(content string) (*Card, error) {
	if strings.ContainsRune(content, 0) {
		return nil, bad("Value error, content should not contain NUL characters")
	}
	sum := sha256.Sum256([]byte(content))
	c := &Card{Content: content, Digest: "sha256:" + hex.EncodeToString(sum[:])}
	front, at, ok := split(content)
	if !ok {
		return c, nil
	}
	if len(front) > maxFront {
		return nil, bad("Value error, front matter should have at most %d bytes", maxFront)
	}
	var node yaml.Node
	if err := yaml.Unmarshal([]byte(front), &node); err != nil {
		return nil, bad("Value error, front matter should be YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	left := maxNodes
	value, err := plain(&node, maxDepth, &left)
	if err != nil {
		return nil, err
	}
	if _, isMap := value.(map[string]any); !isMap {
		return nil, bad("Value error, front matter should be a mapping")
	}
	if c.Front, err = json.Marshal(value); err != nil {
		return nil, fmt.Errorf("encode the front matter: %w", err)
	}
	c.BodyAt = at
	return c, nil
}

// split returns the front matter of a card and the offset of the text that follows it.
func split(content string) (front string, at int, ok bool) {
	first, rest, ok := strings.Cut(content, "\n")
	if !ok || strings.TrimRight(first, " \t\r") != fence {
		return "", 0, false
	}
	begin := len(content) - len(rest)
	for at = begin; at < len(content); {
		line, after, _ := strings.Cut(content[at:], "\n")
		next := len(content) - len(after)
		if strings.TrimRight(line, " \t\r") == fence {
			return content[begin:at], next, true
		}
		at = next
	}
	return "", 0, false
}

// plain converts a node into data that encoding/json can marshal. The argument left is the number of values that are
// still allowed.
func plain(n *yaml.Node, depth int, left *int) (any, error) {
	if *left--; *left < 0 || depth == 0 {
		return nil, bad("Value error, front matter should have at most %d values, nested at most %d deep", maxNodes, maxDepth)
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return plain(n.Content[0], depth, left)
	case yaml.AliasNode:
		return plain(n.Alias, depth-1, left)
	case yaml.SequenceNode:
		out := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			v, err := plain(item, depth-1, left)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	case yaml.MappingNode:
		return mapping(n, depth, left)
	case yaml.ScalarNode:
		return scalar(n)
	default:
		return map[string]any{}, nil // an empty document
	}
}

func mapping(n *yaml.Node, depth int, left *int) (any, error) {
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.Tag != "!!str" {
			return nil, bad("Value error, front matter line %d: a key should be a string", key.Line)
		}
		if _, twice := out[key.Value]; twice {
			return nil, bad("Value error, front matter line %d: duplicate key %.64q", key.Line, key.Value)
		}
		v, err := plain(n.Content[i+1], depth-1, left)
		if err != nil {
			return nil, err
		}
		out[key.Value] = v
	}
	return out, nil
}

// scalar converts a scalar into a string, a number, a boolean or nil. Timestamps and binary values remain text.
func scalar(n *yaml.Node) (any, error) {
	var v any
	if n.Tag == "!!timestamp" || n.Tag == "!!binary" {
		return n.Value, nil
	}
	if err := n.Decode(&v); err != nil {
		return nil, bad("Value error, front matter line %d: %s", n.Line, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if f, ok := v.(float64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
		return nil, bad("Value error, front matter line %d: numbers should be finite", n.Line)
	}
	return v, nil
}

func bad(format string, args ...any) error {
	return fault.InvalidFields(fault.At(fault.TypeValue, fmt.Sprintf(format, args...), "content"))
}

package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// writeYAML prints JSON as YAML, with the members of objects in the same order.
func writeYAML(w io.Writer, raw json.RawMessage) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	node, err := yamlNode(d)
	if err != nil {
		return fmt.Errorf("decode a response of the server: %w", err)
	}
	e := yaml.NewEncoder(w)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return fmt.Errorf("print YAML: %w", err)
	}
	return e.Close()
}

// yamlNode reads the next JSON value.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch v := token.(type) {
	case json.Delim:
		return yamlCollection(d, v)
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: yamlNumber(v.String())}, nil
	case string:
		if v == "<<" { // the encoder would print it as a merge of mappings
			return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: v}, nil
		}
	}
	node := &yaml.Node{}
	return node, node.Encode(token)
}

// yamlNumber returns a number of JSON with all its digits. YAML 1.1, which many programs read, has an exponent only after
// a point and with a sign; 1e3 would be a text there.
func yamlNumber(number string) string {
	mantissa, exponent, ok := strings.Cut(strings.ToLower(number), "e")
	if !ok {
		return number
	}
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	if exponent[0] != '-' && exponent[0] != '+' {
		exponent = "+" + exponent
	}
	return mantissa + "e" + exponent
}

func yamlCollection(d *json.Decoder, start json.Delim) (*yaml.Node, error) {
	node := &yaml.Node{Kind: yaml.SequenceNode}
	if start == '{' {
		node.Kind = yaml.MappingNode
	}
	for d.More() {
		child, err := yamlNode(d)
		if err != nil {
			return nil, err
		}
		node.Content = append(node.Content, child)
	}
	if len(node.Content) == 0 {
		node.Style = yaml.FlowStyle
	}
	_, err := d.Token()
	return node, err
}

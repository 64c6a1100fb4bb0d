package jobfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// SetRecipe returns a file in YAML whose recipe is replaced by the given one, and whose other lines are kept as they are. It
// refuses a file in which that is not possible, such as one in JSON.
func SetRecipe(raw []byte, recipe map[string]any) ([]byte, error) {
	spec, err := specOf(raw)
	if err != nil {
		return nil, err
	}
	found := member(spec, "recipe", nil)
	if found == nil {
		return nil, errors.New("the job has no recipe; add recipe: NAME")
	}
	value, err := inOrder(recipe)
	if err != nil {
		return nil, err
	}
	indent := strings.Repeat(" ", found.at.Column-1)
	head := indent + "recipe:"
	if comment := found.value.LineComment + found.at.LineComment; comment != "" {
		head += "   " + comment
	}
	replaced := []string{head}
	for line := range strings.Lines(value) {
		replaced = append(replaced, indent+"  "+strings.TrimRight(line, "\n"))
	}
	lines := strings.Split(string(raw), "\n")
	if strings.HasSuffix(lines[0], "\r") {
		for i := range replaced {
			replaced[i] += "\r"
		}
	}
	out := []byte(strings.Join(slices.Concat(lines[:found.at.Line-1], replaced, lines[lastLine(found.value):]), "\n"))
	if err := onlyRecipeDiffers(raw, out); err != nil {
		return nil, err
	}
	return out, nil
}

// inOrder prints a recipe in YAML: its name, its version, and the rest.
func inOrder(recipe map[string]any) (string, error) {
	var out bytes.Buffer
	names := slices.SortedFunc(maps.Keys(recipe), func(a, b string) int {
		first := []string{"version", "name"}
		return cmp.Or(slices.Index(first, b)-slices.Index(first, a), cmp.Compare(a, b))
	})
	for _, name := range names {
		enc := yaml.NewEncoder(&out)
		enc.SetIndent(2)
		if err := errors.Join(enc.Encode(map[string]any{name: recipe[name]}), enc.Close()); err != nil {
			return "", fmt.Errorf("print the recipe: %w", err)
		}
	}
	return out.String(), nil
}

// specOf returns the object with the members of the spec.
func specOf(raw []byte) (*yaml.Node, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(raw, &document); err != nil {
		return nil, fmt.Errorf("read the job: %w", err)
	}
	if document.Kind != yaml.DocumentNode || len(document.Content) == 0 {
		return nil, errors.New("the file is empty")
	}
	node := resolved(document.Content[0])
	if whole := member(node, "spec", nil); whole != nil && resolved(whole.value).Kind == yaml.MappingNode {
		node = resolved(whole.value)
	}
	return node, nil
}

// lastLine returns the last line of a node, as far as the parser knows it.
func lastLine(node *yaml.Node) int {
	last := node.Line
	for _, inner := range node.Content {
		last = max(last, lastLine(inner))
	}
	return last
}

// onlyRecipeDiffers returns an error unless two files describe the same job but for its recipe.
func onlyRecipeDiffers(before, after []byte) error {
	var jobs [2]map[string]any
	for i, raw := range [][]byte{before, after} {
		err := yaml.Unmarshal(raw, &jobs[i])
		spec := jobs[i]
		if inner, ok := spec["spec"].(map[string]any); ok {
			spec = inner
		}
		if err != nil || spec["recipe"] == nil {
			return errNotReplaced
		}
		delete(spec, "recipe")
	}
	if !reflect.DeepEqual(jobs[0], jobs[1]) {
		return errNotReplaced
	}
	return nil
}

var errNotReplaced = errors.New("its recipe cannot be replaced alone; write it in YAML, on lines of its own: recipe: NAME")

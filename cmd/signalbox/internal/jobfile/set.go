package jobfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Set sets a member of a spec, as the file describes it, to a value. The path has names of members and indexes of lists
// with dots between them. A name of a hyperparameter, a variable or a label is the rest of its path, because it can contain
// dots. Objects that are missing are added; items of lists are not. A json.RawMessage is decoded, so that another call can
// set a member of it.
func Set(spec map[string]any, path string, value any) error {
	steps := strings.Split(path, ".")
	if keyed := []string{"hparams", "env", "labels"}; len(steps) > 2 && slices.Contains(keyed, steps[0]) {
		steps = []string{steps[0], strings.Join(steps[1:], ".")}
	}
	var err error
	if raw, ok := value.(json.RawMessage); ok && len(steps) > 1 && (steps[0] == "env" || steps[0] == "labels") {
		value = string(raw) // these values are texts, even if they look like numbers
	} else if value, err = decoded(value); err != nil {
		return err
	}
	var at any = spec
	for i, step := range steps {
		if step == "" {
			return fmt.Errorf("%q has an empty name", path)
		}
		last := i == len(steps)-1
		switch parent := at.(type) {
		case map[string]any:
			if last {
				parent[step] = value
				return nil
			}
			if parent[step] == nil {
				parent[step] = map[string]any{}
			}
			at = parent[step]
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(parent) {
				return fmt.Errorf("%s is a list of %d, and %q must be the index of an item, from 0", strings.Join(steps[:i], "."), len(parent), step)
			}
			if last {
				parent[n] = value
				return nil
			}
			at = parent[n]
		default:
			return fmt.Errorf("%s is a single value, which has no members", strings.Join(steps[:i], "."))
		}
	}
	return nil
}

func decoded(value any) (any, error) {
	raw, ok := value.(json.RawMessage)
	if !ok {
		return value, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // a number keeps its digits
	var out any
	err := dec.Decode(&out)
	return out, err
}

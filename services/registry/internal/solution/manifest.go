package solution

import (
	"encoding/json"
	"errors"
	"regexp"

	"github.com/signalbox-dev/signalbox/platform/canon"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Manifest holds the members of a solution's manifest that the registry reads. Other members are opaque to it.
type Manifest struct {
	// Raw is the verbatim document.
	Raw    json.RawMessage
	Digest string

	Name            string
	Version         string
	Recipe          string
	Requirements    []json.RawMessage
	EvaluationTasks *int32
	Toolchain       json.RawMessage
}

var (
	namePattern    = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,127}$`)
	versionPattern = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
	recipePattern  = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}/[A-Za-z0-9._-]{1,64}@[A-Za-z0-9._+-]{1,64}$`)
)

const (
	maxRequirements = 1000
	maxTasks        = 100_000_000
)

// Read parses a manifest. The parameter field is the name of the request field that contains the manifest, for error
// messages. Member names are case-sensitive.
func Read(raw json.RawMessage, field string) (*Manifest, error) {
	digest, err := canon.Digest(raw)
	if err != nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "the manifest has no canonical form: "+reason(err), field))
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil || members == nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeDictType, "Input should be a valid dictionary", field))
	}
	r := &reading{field: field, members: members}
	m := &Manifest{Raw: raw, Digest: digest, Requirements: []json.RawMessage{}}
	m.Name = r.text("name", namePattern)
	m.Version = r.text("version", versionPattern)
	m.Recipe = r.text("recipe", recipePattern)
	m.Requirements = r.objects("requirements")
	m.EvaluationTasks = r.count("evaluation_tasks")
	m.Toolchain = r.object("toolchain")
	if len(r.faults) > 0 {
		return nil, fault.InvalidFields(r.faults...)
	}
	return m, nil
}

func reason(err error) string {
	if errors.Is(err, canon.ErrNoForm) {
		return err.Error()
	}
	return "it cannot be encoded"
}

// reading collects the errors in the members of a manifest.
type reading struct {
	field   string
	members map[string]json.RawMessage
	faults  []fault.Field
}

func (r *reading) fault(typ, msg string, at ...any) {
	r.faults = append(r.faults, fault.At(typ, msg, append([]any{r.field}, at...)...))
}

// given returns the member with the given name. The result ok is false if the member is missing or null.
func (r *reading) given(name string) (json.RawMessage, bool) {
	raw, ok := r.members[name]
	return raw, ok && string(raw) != "null"
}

func (r *reading) text(name string, pattern *regexp.Regexp) string {
	raw, ok := r.given(name)
	if !ok {
		r.fault(fault.TypeMissing, "Field required", name)
		return ""
	}
	var text string
	switch {
	case json.Unmarshal(raw, &text) != nil:
		r.fault(fault.TypeStringType, "Input should be a valid string", name)
	case !pattern.MatchString(text):
		r.fault(fault.TypeStringPattern, "String should match pattern '"+pattern.String()+"'", name)
	}
	return text
}

func (r *reading) objects(name string) []json.RawMessage {
	raw, ok := r.given(name)
	if !ok {
		return []json.RawMessage{}
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		r.fault(fault.TypeListType, "Input should be a valid list", name)
		return nil
	}
	if len(list) > maxRequirements {
		r.fault(fault.TypeLong, "List should have at most 1000 items", name)
		return nil
	}
	for i, one := range list {
		if !isObject(one) {
			r.fault(fault.TypeDictType, "Input should be a valid dictionary", name, i)
		}
	}
	return list
}

func (r *reading) object(name string) json.RawMessage {
	raw, ok := r.given(name)
	if !ok {
		return nil
	}
	if !isObject(raw) {
		r.fault(fault.TypeDictType, "Input should be a valid dictionary", name)
	}
	return raw
}

func (r *reading) count(name string) *int32 {
	raw, ok := r.given(name)
	if !ok {
		return nil
	}
	var n int32
	switch {
	case json.Unmarshal(raw, &n) != nil:
		r.fault(fault.TypeIntType, "Input should be a valid integer", name)
	case n < 1:
		r.fault(fault.TypeGreaterThanEqual, "Input should be greater than or equal to 1", name)
	case n > maxTasks:
		r.fault(fault.TypeLessThanEqual, "Input should be less than or equal to 100000000", name)
	}
	return &n
}

func isObject(raw json.RawMessage) bool { return len(raw) > 0 && raw[0] == '{' }

package scalar

import (
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Enum converts the values of one proto enum to the words of the API contract and back: JOB_STATE_QUEUED is "queued".
// The zero value (…_UNSPECIFIED) has no word.
type Enum struct {
	words   []string
	byWord  map[string]protoreflect.EnumNumber
	byValue map[protoreflect.EnumNumber]string
}

// NewEnum returns the API names of the values of ed.
func NewEnum(ed protoreflect.EnumDescriptor) *Enum {
	values := ed.Values()
	e := &Enum{
		byWord:  make(map[string]protoreflect.EnumNumber, values.Len()),
		byValue: make(map[protoreflect.EnumNumber]string, values.Len()),
	}
	prefix := strings.TrimSuffix(string(values.Get(0).Name()), "UNSPECIFIED")
	for i := range values.Len() {
		v := values.Get(i)
		if v.Number() == 0 {
			continue
		}
		word := strings.ToLower(strings.TrimPrefix(string(v.Name()), prefix))
		e.words = append(e.words, word)
		e.byWord[word] = v.Number()
		if _, alias := e.byValue[v.Number()]; !alias {
			e.byValue[v.Number()] = word
		}
	}
	return e
}

// Word returns the word of the value n. It returns false for the zero value and for values that this build does not
// know.
func (e *Enum) Word(n protoreflect.EnumNumber) (string, bool) {
	w, ok := e.byValue[n]
	return w, ok
}

// Number returns the value with the given word, or false if the enum has no such word.
func (e *Enum) Number(word string) (protoreflect.EnumNumber, bool) {
	n, ok := e.byWord[word]
	return n, ok
}

// Expected returns the error message that lists all words: Input should be 'queued', 'running' or 'done'.
func (e *Enum) Expected() string { return fault.OneOf(e.words) }

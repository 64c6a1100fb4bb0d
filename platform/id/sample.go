package id

import (
	"cmp"
	"fmt"
)

// Sample is the id of a validation sample among those of its rank and run. It has no prefix and contains no ULID, but
// the place of the sample in lists.
type Sample struct {
	Step                  int64
	Attempt, Chunk, Index int32 // Index is the number of the sample in its chunk, from 0
}

// String returns the id as text, such as 100.1.0.3.
func (s Sample) String() string {
	return fmt.Sprintf("%d.%d.%d.%d", s.Step, s.Attempt, s.Chunk, s.Index)
}

// Compare returns -1, 0 or 1 if s comes before other in lists, is other, or comes after it.
func (s Sample) Compare(other Sample) int {
	return cmp.Or(cmp.Compare(s.Step, other.Step), cmp.Compare(s.Attempt, other.Attempt), cmp.Compare(s.Chunk, other.Chunk), cmp.Compare(s.Index, other.Index))
}

// ParseSample is the opposite of String. ok is false for every other text, also for one with the same numbers.
func ParseSample(text string) (s Sample, ok bool) {
	n, err := fmt.Sscanf(text, "%d.%d.%d.%d", &s.Step, &s.Attempt, &s.Chunk, &s.Index)
	if n != 4 || err != nil || s.String() != text {
		return Sample{}, false
	}
	return s, true
}

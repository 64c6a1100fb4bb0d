// Package run owns runs, the permanent records of jobs. A run copies what it needs from its job, so it outlives
// the job.
package run

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Run is the record of all attempts of a job.
type Run struct {
	ID                             string
	JobID                          *string
	Name, OwnerID, OwnerName       string
	ProjectID, Project, Visibility string
	VisibilityVersion              int64 // the version of Visibility
	State                          string
	Attempts                       int
	RecipeLock, Bindings           []byte
	RecipeDigest, SpecDigest       string
	EndReason                      string
	CreatedAt                      time.Time
	StartedAt, EndedAt             *time.Time
	Parents                        []job.Parent
	// Protected means that the run read ProtectedDatasets, directly or through its model.
	Protected         bool
	ProtectedDatasets []string
	Tags              []string // sorted
	Labels            map[string]string
	Notes             *string // nil in lists
	NotesVersion      int32   // 0 if the run never had notes
	Archived          bool
	Version           int64 // increases with each change by UpdateRun
	// SilenceS is after how many seconds without a report a run without a job fails. It is nil for the run of a job.
	SilenceS *int32
}

// SubjectKind is the subject kind of runs in the event and audit tables.
const SubjectKind = "run"

const (
	// maxTags is the maximum number of tags of a run.
	maxTags = 32
	// maxTagLength is the maximum number of characters of a tag.
	maxTagLength = 64
	// maxNotes is the number of versions of its notes that a run keeps.
	maxNotes = 50
)

// NormalTag returns a tag as it is stored: in lower case and with single spaces. ok is false for an invalid tag.
func NormalTag(tag string) (normal string, ok bool) {
	normal = strings.Join(strings.Fields(strings.ToLower(tag)), " ")
	bad := func(r rune) bool { return r == ',' || r == utf8.RuneError || !unicode.IsPrint(r) }
	return normal, normal != "" && utf8.RuneCountInString(normal) <= maxTagLength && !strings.ContainsFunc(normal, bad)
}

// NormalTags returns the tags as they are stored: each once, sorted. It returns a 422 error for invalid tags.
func NormalTags(given []string) ([]string, error) {
	tags := make([]string, 0, len(given))
	var faults []fault.Field
	for i, tag := range given {
		normal, ok := NormalTag(tag)
		if !ok {
			faults = append(faults, fault.At(fault.TypeValue,
				fmt.Sprintf("Input should be a tag: 1 to %d printable characters without a comma", maxTagLength), "tags", i))
		}
		tags = append(tags, normal)
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	if len(tags) > maxTags {
		faults = append(faults, fault.At(fault.TypeLong, fmt.Sprintf("a run can have at most %d tags", maxTags), "tags"))
	}
	if len(faults) > 0 {
		return nil, fault.InvalidFields(faults...)
	}
	return tags, nil
}

// Changes are the new values that a request gives to a run. Nil fields stay.
type Changes struct {
	Name, Notes *string
	Tags        []string // normal
	Archived    *bool
}

// Apply changes a run and returns the names of the changed fields. It does not change the version of the notes.
func (c *Changes) Apply(r *Run) (changed []string) {
	set := func(field string, differs bool, assign func()) {
		if differs {
			assign()
			changed = append(changed, field)
		}
	}
	set("name", c.Name != nil && *c.Name != r.Name, func() { r.Name = *c.Name })
	set("tags", c.Tags != nil && !slices.Equal(c.Tags, r.Tags), func() { r.Tags = c.Tags })
	set("notes", c.Notes != nil && *c.Notes != *r.Notes, func() { r.Notes = c.Notes })
	set("archived", c.Archived != nil && *c.Archived != r.Archived, func() { r.Archived = *c.Archived })
	return changed
}

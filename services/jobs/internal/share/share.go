// Package share owns public links: read-only, revocable, to one run or a comparison of several.
//
// It promises: what a link shows is a projection of its own, made of named fields; no id in it opens another
// route, and there is no address, variable, log line or record of a dataset in it; samples of a run that is
// bound to a protected dataset are never shared; every link that shows nothing, for whatever reason, is the
// same absence; a link is over with the next request after its revocation or end, and as soon as its owner may
// not change what it shows any more; the token is stored as its hash alone.
//
// share.go is pure; store.go alone speaks SQL. What the public sees is the contract's own messages from the
// start: live.go makes them of a run as it is now, pin.go keeps them, server_public.go answers with them.
package share

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Kind is what a link is to.
type Kind string

// The kinds.
const (
	Job        Kind = "job"
	Comparison Kind = "comparison"
)

// What a link can open.
const (
	Metrics = "metrics"
	Config  = "config"
	Samples = "samples"
)

const (
	// MaxLive is how many links of one person may be open at once.
	MaxLive = 1000
	// prefixLength is how much of a token its owner is shown later.
	prefixLength = 8
)

// Share is one link.
type Share struct {
	ID, Title          string
	Kind               Kind
	OwnerID, OwnerName string
	Prefix             string
	Targets, Runs      []string
	Fields             []string
	Pinned             bool
	CreatedAt          time.Time
	ExpiresAt          *time.Time
	RevokedAt          *time.Time
	Views              int64
	LastViewedAt       *time.Time
}

// Opens says whether a link opens a field.
func (s *Share) Opens(field string) bool { return slices.Contains(s.Fields, field) }

// Check finds what is wrong with the targets, fields and end that are asked for.
func (s *Share) Check(now time.Time) []fault.Field {
	faults := s.checkTargets()
	for i, field := range s.Fields {
		if slices.Index(s.Fields, field) < i {
			faults = append(faults, fault.At(fault.TypeValue, field+" is there already", "fields", i))
		}
	}
	if s.ExpiresAt != nil && !s.ExpiresAt.After(now) {
		faults = append(faults, fault.At(fault.TypeValue, "Input should be in the future", "expires_at"))
	}
	return faults
}

func (s *Share) checkTargets() []fault.Field {
	var faults []fault.Field
	least := 1
	if s.Kind == Comparison {
		least = 2
	}
	if n := len(s.Targets); n < least {
		short := fault.At(fault.TypeShort, fmt.Sprintf("List should have at least %d items", least), "target_ids")
		short.Ctx = map[string]any{"min_length": least}
		faults = append(faults, short)
	} else if s.Kind == Job && n > 1 {
		long := fault.At(fault.TypeLong, "List should have at most 1 items", "target_ids")
		long.Ctx = map[string]any{"max_length": 1}
		faults = append(faults, long)
	}
	for i, target := range s.Targets {
		prefix := id.Run
		if strings.HasPrefix(target, string(id.Job)+"_") {
			prefix = id.Job
		}
		switch {
		case id.Check(prefix, target) != nil:
			faults = append(faults, fault.At(fault.TypeStringPattern, "Input should be the id of a job or a run", "target_ids", i))
		case slices.Index(s.Targets, target) < i:
			faults = append(faults, fault.At(fault.TypeValue, target+" is there already", "target_ids", i))
		}
	}
	return faults
}

// errGone is the one answer to every link that shows nothing. It is what an unknown path is answered.
func errGone() error { return fault.New(fault.Absent, "", "Not Found") }

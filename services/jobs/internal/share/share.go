// Package share owns public links: read-only, revocable links to one run or a comparison of several.
//
// It promises:
//   - A link shows only copies of selected fields. They contain no id that opens another route, and no address,
//     environment variable, log line or dataset record.
//   - Hyperparameters and parts of conversations that look like credentials are shown as ***. Pinned content is masked
//     again whenever it is read.
//   - Nothing of a run that reads a protected dataset is shared.
//   - All links that show nothing give the same 404, whatever the reason.
//   - A link ends with the first request after its revocation or expiry, or after its owner loses the right to
//     change its targets.
//   - Only the hash of the token is stored.
//
// share.go is pure; only store.go and store_run.go use SQL. The public content uses the API's messages throughout: live.go builds
// them from a run's current state, pin.go stores them, server_public.go returns them.
package share

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Kind is the kind of a link's target.
type Kind string

// The kinds of targets.
const (
	Job        Kind = "job"
	Comparison Kind = "comparison"
)

// The fields that a link can open to everyone who has its token.
const (
	Metrics = "metrics"
	Config  = "config"
	Samples = "samples"
)

const (
	// MaxLive is the maximum number of links per user that are neither revoked nor expired.
	MaxLive = 1000
	// prefixLength is the length of the token prefix that the link's owner can see later.
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

// Opens reports whether a link opens a field.
func (s *Share) Opens(field string) bool { return slices.Contains(s.Fields, field) }

// Check returns the faults in the requested targets, fields and expiry.
func (s *Share) Check(now time.Time) []fault.Field {
	faults := s.checkTargets()
	for i, field := range s.Fields {
		if slices.Index(s.Fields, field) < i {
			faults = append(faults, fault.At(fault.TypeValue, field+" is already in the list", "fields", i))
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
			faults = append(faults, fault.At(fault.TypeValue, target+" is already in the list", "target_ids", i))
		}
	}
	return faults
}

// Package id owns the identifiers of all resources. An id consists of a prefix for the kind of resource, an
// underscore and a ULID of 26 lower-case characters. The ULIDs of one Source always increase, so its ids with the same
// prefix sort by creation time. Ids are public, so no secret may be derived from an id.
package id

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Prefix stands for a kind of resource.
type Prefix string

// The prefixes of all kinds of resources.
const (
	User           Prefix = "usr"
	Session        Prefix = "ses"
	Project        Prefix = "prj"
	Team           Prefix = "team"
	Job            Prefix = "job"
	Attempt        Prefix = "att"
	Run            Prefix = "run"
	Dataset        Prefix = "ds"
	DatasetVersion Prefix = "dsv"
	Artifact       Prefix = "art"
	Model          Prefix = "mdl"
	ModelVersion   Prefix = "mv"
	Deployment     Prefix = "dep"
	Revision       Prefix = "rev"
	Replica        Prefix = "rep"
	TokenRow       Prefix = "tok"
	Fleet          Prefix = "flt"
	Node           Prefix = "nod"
	JoinToken      Prefix = "jtk"
	Work           Prefix = "wrk"
	Upload         Prefix = "upl"
	Event          Prefix = "evt"
	Audit          Prefix = "aud"
	Request        Prefix = "req"
	Call           Prefix = "call"
	Package        Prefix = "pkg"
	Share          Prefix = "shr"
	Playground     Prefix = "pg"
	Rubric         Prefix = "rub"
	Task           Prefix = "tsk"
	Volume         Prefix = "vol"
	Environment    Prefix = "env"
	DeviceRequest  Prefix = "dvr"
	Grant          Prefix = "grt"

	EnvironmentVersion  Prefix = "envv"
	RubricVersion       Prefix = "rubv"
	Solution            Prefix = "sol"
	SolutionApplication Prefix = "sap"
	Signal              Prefix = "sig"
	Score               Prefix = "scr"
)

// Prefixes returns all prefixes.
func Prefixes() []Prefix {
	return []Prefix{
		User, Session, Project, Team, Job, Attempt, Run, Dataset, DatasetVersion, Artifact, Model,
		ModelVersion, Deployment, Revision, Replica, TokenRow, Fleet, Node, JoinToken, Work, Upload, Event,
		Audit, Request, Call, Package, Share, Playground, Rubric, Task, Volume, Environment,
		DeviceRequest, Grant, EnvironmentVersion, RubricVersion, Solution, SolutionApplication, Signal, Score,
	}
}

// ErrMalformed is the error of Check for a string that no Source can produce.
var ErrMalformed = errors.New("malformed id")

const (
	length   = ulid.EncodedSize
	alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
)

// Check returns an error that wraps ErrMalformed unless s is an id with prefix p.
func Check(p Prefix, s string) error {
	rest, ok := strings.CutPrefix(s, string(p)+"_")
	// 26 characters encode 130 bits, but a ULID has 128, so the first character is at most 7.
	if !ok || len(rest) != length || rest[0] > '7' || strings.Trim(rest, alphabet) != "" {
		return fmt.Errorf("%w: must be %s_ and a lower-case ULID of %d characters", ErrMalformed, p, length)
	}
	return nil
}

// Time returns the time at which an id was made, as its first characters state it in milliseconds. The result is the zero
// time for a string that is not an id.
func Time(s string) time.Time {
	at := strings.LastIndexByte(s, '_')
	if at < 0 || Check(Prefix(s[:at]), s) != nil {
		return time.Time{}
	}
	u, err := ulid.ParseStrict(strings.ToUpper(s[at+1:]))
	if err != nil {
		return time.Time{}
	}
	return ulid.Time(u.Time()).UTC()
}

// Source generates ids. It is safe for concurrent use.
type Source struct {
	clock clock.Clock

	mu      sync.Mutex
	entropy *ulid.MonotonicEntropy
	last    uint64 // time of the newest id, in milliseconds
}

// NewSource returns a Source that uses the clock and reads random bytes from entropy.
func NewSource(c clock.Clock, entropy io.Reader) *Source {
	return &Source{clock: c, entropy: ulid.Monotonic(entropy, 0)}
}

// New returns an id whose ULID is greater than all earlier ULIDs of this source, even if the clock steps back. It
// panics if reading random bytes fails, because the process must not continue with ids that may not be unique.
func (s *Source) New(p Prefix) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = max(s.last, ulid.Timestamp(s.clock.Now()))
	u, err := ulid.New(s.last, s.entropy)
	if errors.Is(err, ulid.ErrMonotonicOverflow) {
		s.last++
		u, err = ulid.New(s.last, s.entropy)
	}
	if err != nil {
		panic(fmt.Sprintf("id: read random bytes: %v", err))
	}
	text := make([]byte, 0, len(p)+1+ulid.EncodedSize)
	text = append(append(text, p...), '_')
	text = text[:cap(text)]
	if err := u.MarshalTextTo(text[len(p)+1:]); err != nil {
		panic(fmt.Sprintf("id: encode a ULID: %v", err)) // the length is right
	}
	for i := len(p) + 1; i < len(text); i++ {
		if c := text[i]; 'A' <= c && c <= 'Z' {
			text[i] = c + ('a' - 'A')
		}
	}
	return string(text)
}

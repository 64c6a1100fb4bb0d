package bearer

import (
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

// maxKept is the maximum number of identities that are kept. A full map is emptied, which costs little, because no
// identity lives longer than authn.AnonymousLife.
const maxKept = 1024

// identity is what auth signed for an anonymous caller.
type identity struct {
	token string
	// sent is when auth was called, which is before auth read the mode of the installation.
	sent time.Time
}

// identities keeps the signed identities of anonymous callers by their claims.
type identities struct {
	mu   sync.Mutex
	kept map[Claim]identity
}

// find returns the identity for a claim. It returns false if the claim has none, or if the identity is as old as
// authn.AnonymousLife, or if its age is unknown because the system's clock was set back.
func (s *identities) find(c Claim, now time.Time) (identity, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, ok := s.kept[c]
	age := now.Sub(i.sent)
	return i, ok && age >= 0 && age < authn.AnonymousLife
}

func (s *identities) keep(c Claim, i identity) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) >= maxKept {
		clear(s.kept)
	}
	s.kept[c] = i
}

package bearer

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/signalbox-dev/signalbox/platform/authn"
)

const (
	// keepFor is how long an identity is used. Auth signs an identity for a minute, so it is valid for at least 40 s
	// after the last request that uses it has begun.
	keepFor = 20 * time.Second
	// maxKept and maxBytes bound the cache. An identity has up to 64 KiB, but usually less than 1 KiB.
	maxKept  = 4096
	maxBytes = 16 << 20
)

// claimKey identifies a claim. It contains the hash of the credential; the hash of an anonymous claim is zero.
type claimKey struct {
	credential    [sha256.Size]byte
	client        string
	inMaintenance bool
}

func keyOf(c Claim) claimKey {
	k := claimKey{client: c.Client, inMaintenance: c.InMaintenance}
	if c.Credential != "" {
		k.credential = sha256.Sum256([]byte(c.Credential))
	}
	return k
}

func (k claimKey) anonymous() bool { return k.credential == [sha256.Size]byte{} }

// identity is a caller identity that auth signed.
type identity struct {
	token string
	// sent is when auth was called, which is before auth read the caller's access.
	sent time.Time
	// until is when the credential expires; zero if it does not.
	until time.Time
}

// cache keeps the signed identities of callers by their claims. It returns them only under the lease that auth grants.
// Auth acknowledges a change of a caller only after each gateway with a lease has dropped its cache.
type cache struct {
	mono func() time.Duration

	mu         sync.Mutex
	kept       map[claimKey]identity
	bytes      int
	generation uint64        // increases with each drop
	lease      time.Duration // the time of the monotonic clock at which the lease expires
}

// find returns the identity for a claim, and the generation to pass to keep. An identity is valid for keepFor, but not
// longer than its credential, and only while the lease is valid. Without a lease, the identity of an anonymous caller
// is valid for authn.AnonymousLife. After the system's clock was set back, an identity of unknown age is not valid.
func (c *cache) find(k claimKey, now time.Time) (i identity, generation uint64, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok = c.kept[k]
	life := keepFor
	if c.mono() >= c.lease {
		life = 0
		if k.anonymous() {
			life = authn.AnonymousLife
		}
	}
	age := now.Sub(i.sent)
	return i, c.generation, ok && age >= 0 && age < life && (i.until.IsZero() || now.Before(i.until))
}

// keep stores the identity that auth returned to a call that began in the given generation. If the cache has been
// dropped since, auth may have read the caller's access before the change, so keep stores nothing.
func (c *cache) keep(k claimKey, generation uint64, i identity) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation != c.generation || len(i.token) > maxBytes {
		return
	}
	c.remove(k)
	for other := range c.kept { // the order is random
		if len(c.kept) < maxKept && c.bytes+len(i.token) <= maxBytes {
			break
		}
		c.remove(other)
	}
	c.kept[k] = i
	c.bytes += len(i.token)
}

func (c *cache) remove(k claimKey) {
	c.bytes -= len(c.kept[k].token)
	delete(c.kept, k)
}

// drop removes all identities.
func (c *cache) drop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.kept)
	c.bytes = 0
	c.generation++
}

// extend makes the lease valid until the given time of the monotonic clock.
func (c *cache) extend(until time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lease = until
}

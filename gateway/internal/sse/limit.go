package sse

import (
	"crypto/sha256"
	"sync"
)

// MaxPerCredential is the maximum number of streams that one credential may have open on one gateway.
const MaxPerCredential = 64

// Limit counts the open streams of each credential. The zero value is ready to use.
type Limit struct {
	mu   sync.Mutex
	open map[[sha256.Size]byte]int
}

// Take counts one more stream of a credential. It returns false if the credential has MaxPerCredential open streams.
// Otherwise the caller must call release when the stream ends.
func (l *Limit) Take(credential string) (release func(), ok bool) {
	key := sha256.Sum256([]byte(credential))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = make(map[[sha256.Size]byte]int)
	}
	if l.open[key] >= MaxPerCredential {
		return nil, false
	}
	l.open[key]++
	return sync.OnceFunc(func() { l.give(key) }), true
}

func (l *Limit) give(key [sha256.Size]byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open[key]--; l.open[key] == 0 {
		delete(l.open, key)
	}
}

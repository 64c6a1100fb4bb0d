// Package password hashes and checks passwords with argon2id. Hashing needs much memory by design, so the package
// limits how many hashes are computed at the same time. If too many callers wait, further callers get ErrBusy, so that
// the process does not run out of memory. A check for an unknown account does the same work as a check for a known one.
package password

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/sync/semaphore"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// MaxBytes is the maximum length of a password, in bytes.
const MaxBytes = 1024

const (
	saltBytes = 16
	keyBytes  = 32
	// waiting limits the queue: for each hash that may be computed at the same time, at most this many callers wait
	// or compute. Of 100 concurrent logins, 24 finish within a few seconds, and the others are refused at once.
	waiting = 24
)

var (
	// ErrBusy means that too many callers already hash a password or wait to do so.
	ErrBusy = errors.New("too many passwords are being hashed")
	// ErrTooLong means that a password is longer than MaxBytes.
	ErrTooLong = fmt.Errorf("the password is longer than %d bytes", MaxBytes)
)

// Params are the costs of argon2id. Each hash contains the costs that it was made with, so that raising them needs no
// migration.
type Params struct {
	MemoryKiB uint32
	Time      uint32
	Threads   uint8
}

// Hasher hashes at most a fixed number of passwords at once.
type Hasher struct {
	params Params
	rand   io.Reader
	run    *semaphore.Weighted
	queue  *semaphore.Weighted
	dummy  string
}

// Workers returns how many hashes may be computed at once: the configured number, or, if that is 0, half of the
// processors, but at least one. Each hash keeps one processor busy; the other processors must serve all other calls.
func Workers(configured, processors int) int64 {
	if configured > 0 {
		return int64(configured)
	}
	return int64(max(1, processors/2))
}

// New returns a hasher that computes at most the given number of hashes at once.
func New(params Params, parallel int64, rand io.Reader) (*Hasher, error) {
	if params.Time < 1 || params.Threads < 1 || params.MemoryKiB < 1 || parallel < 1 {
		return nil, fmt.Errorf("argon2id with %+v and %d hashes in parallel: each value must be at least 1", params, parallel)
	}
	h := &Hasher{
		params: params, rand: rand,
		run: semaphore.NewWeighted(parallel), queue: semaphore.NewWeighted(parallel * waiting),
	}
	dummy, err := h.encode("")
	if err != nil {
		return nil, fmt.Errorf("create the dummy hash: %w", err)
	}
	h.dummy = dummy
	return h, nil
}

// Hash returns the hash of a password in the PHC string format. It returns ErrTooLong or ErrBusy.
func (h *Hasher) Hash(ctx context.Context, password secret.String) (string, error) {
	if len(password.Reveal()) > MaxBytes {
		return "", ErrTooLong
	}
	release, err := h.enter(ctx)
	if err != nil {
		return "", err
	}
	defer release()
	return h.encode(password.Reveal())
}

// Check reports whether the password matches the stored hash. An empty stored hash stands for an unknown account: the
// check costs the same and the result is always false. A password longer than MaxBytes matches no hash. Check returns
// ErrBusy if too many callers wait.
func (h *Hasher) Check(ctx context.Context, stored string, password secret.String) (bool, error) {
	if len(password.Reveal()) > MaxBytes {
		return false, nil
	}
	release, err := h.enter(ctx)
	if err != nil {
		return false, err
	}
	defer release()
	known := stored != ""
	if !known {
		stored = h.dummy
	}
	params, salt, want, err := decode(stored)
	if err != nil {
		return false, err
	}
	got := argon2.IDKey([]byte(password.Reveal()), salt, params.Time, params.MemoryKiB, params.Threads, keyBytes)
	return subtle.ConstantTimeCompare(got, want) == 1 && known, nil
}

// Outdated reports whether a stored hash has other costs than new hashes and must be replaced at the next login.
func (h *Hasher) Outdated(stored string) bool {
	params, _, _, err := decode(stored)
	return err == nil && params != h.params
}

// enter waits for permission to hash. It returns ErrBusy at once if the queue is full.
func (h *Hasher) enter(ctx context.Context) (func(), error) {
	if !h.queue.TryAcquire(1) {
		return nil, ErrBusy
	}
	if err := h.run.Acquire(ctx, 1); err != nil {
		h.queue.Release(1)
		return nil, fmt.Errorf("wait to hash a password: %w", err)
	}
	return func() { h.run.Release(1); h.queue.Release(1) }, nil
}

func (h *Hasher) encode(password string) (string, error) {
	salt := make([]byte, saltBytes)
	if _, err := io.ReadFull(h.rand, salt); err != nil {
		return "", fmt.Errorf("generate a salt: %w", err)
	}
	key := argon2.IDKey([]byte(password), salt, h.params.Time, h.params.MemoryKiB, h.params.Threads, keyBytes)
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, h.params.MemoryKiB, h.params.Time,
		h.params.Threads, base64.RawStdEncoding.EncodeToString(salt), base64.RawStdEncoding.EncodeToString(key)), nil
}

// errStored is the error for a stored hash that this package did not create.
var errStored = errors.New("the stored password hash is not a valid argon2id hash")

func decode(stored string) (p Params, salt, key []byte, err error) {
	parts := strings.Split(stored, "$")
	if len(parts) != 6 || parts[0] != "" || parts[1] != "argon2id" || parts[2] != fmt.Sprintf("v=%d", argon2.Version) {
		return p, nil, nil, errStored
	}
	if _, err = fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &p.MemoryKiB, &p.Time, &p.Threads); err != nil {
		return p, nil, nil, errStored
	}
	if salt, err = base64.RawStdEncoding.DecodeString(parts[4]); err != nil {
		return p, nil, nil, errStored
	}
	if key, err = base64.RawStdEncoding.DecodeString(parts[5]); err != nil {
		return p, nil, nil, errStored
	}
	// Package argon2 does not check the costs. It panics if they are zero.
	if p.Time < 1 || p.Threads < 1 || p.MemoryKiB < 1 || len(key) != keyBytes {
		return p, nil, nil, errStored
	}
	return p, salt, key, nil
}

package setting

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Settings reads and changes the settings of the installation.
type Settings struct {
	Pool    *pgxpool.Pool
	Keyring *secret.Keyring
	Audit   *audit.Log
	Clock   clock.Clock
	// Known lists the settings that exist.
	Known []Definition

	store Store

	mu       sync.Mutex
	revision int64
	newest   map[string]Version // the newest versions as of the field revision; nil before the first read
}

// CodeVersion is the error code of Put if the setting no longer has the version that the caller named.
const CodeVersion = "version_changed"

// Put stores a value if the parameter seen is the newest version's number, and returns a conflict otherwise. If the
// value is empty or null, Put resets the setting to its default.
func (s *Settings) Put(ctx context.Context, key string, raw []byte, seen int) (Current, error) {
	d, err := s.definition(key)
	if err != nil {
		return Current{}, err
	}
	in, err := d.parse(raw)
	if err != nil {
		return Current{}, err
	}
	next := Current{Definition: d}
	err = pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
		if err := s.store.Lock(ctx, tx); err != nil {
			return err
		}
		now, err := s.store.Newest(ctx, tx, key)
		if err != nil {
			return err
		}
		if now.Number != seen {
			return fault.New(fault.Conflict, CodeVersion, "setting %s has changed and is now at version %d; read it again", key, now.Number)
		}
		if next.Version, err = s.version(ctx, key, now.Number+1, in); err != nil {
			return err
		}
		if err := s.store.Add(ctx, tx, key, next.Version); err != nil {
			return err
		}
		return s.Audit.Record(ctx, tx, audit.Entry{
			Action: "setting.put", TargetKind: "setting", TargetID: key, Before: Current{d, now}.shown(), After: next.shown(),
		})
	})
	return next, err
}

// version returns a new version of a setting, with the value of the input.
func (s *Settings) version(ctx context.Context, key string, number int, in input) (Version, error) {
	c := authn.CallerOf(ctx)
	v := Version{
		Number: number, Set: in.set(), Value: in.value, ChangedAt: s.Clock.Now(), ChangedBy: c.Subject, ChangedByName: c.Username,
	}
	if in.secret.IsZero() {
		return v, nil
	}
	sealed, err := s.Keyring.Seal([]byte(in.secret.Reveal()), place(key, number))
	if err != nil {
		return v, fmt.Errorf("encrypt the setting %s: %w", key, err)
	}
	v.sealed = sealed
	return v, nil
}

// definition returns the definition of the setting with this key.
func (s *Settings) definition(key string) (Definition, error) {
	at := slices.IndexFunc(s.Known, func(d Definition) bool { return d.Key == key })
	if at < 0 {
		return Definition{}, fault.Absentf("setting", key)
	}
	return s.Known[at], nil
}

// Current returns the current state of all settings.
func (s *Settings) Current(ctx context.Context) ([]Current, error) {
	newest, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	all := make([]Current, len(s.Known))
	for i, d := range s.Known {
		all[i] = Current{Definition: d, Version: newest[d.Key]}
	}
	return all, nil
}

// One returns the current state of a setting.
func (s *Settings) One(ctx context.Context, key string) (Current, error) {
	d, err := s.definition(key)
	if err != nil {
		return Current{}, err
	}
	newest, err := s.read(ctx)
	return Current{Definition: d, Version: newest[key]}, err
}

// read returns the newest version of each setting, by key. It caches them, and reads them again if any setting has
// changed.
func (s *Settings) read(ctx context.Context) (map[string]Version, error) {
	revision, err := s.store.Revision(ctx, s.Pool)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	newest, fresh := s.newest, s.newest != nil && s.revision == revision
	s.mu.Unlock()
	if fresh {
		return newest, nil
	}
	if revision, newest, err = s.store.All(ctx, s.Pool); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.newest == nil || revision > s.revision {
		s.revision, s.newest = revision, newest
	}
	return newest, nil
}

// Get returns the current value of a setting. The setting must not be a secret.
func Get[T any](ctx context.Context, s *Settings, key string) (value T, err error) {
	c, err := s.One(ctx, key)
	if err != nil {
		return value, err
	}
	if err := json.Unmarshal(c.InForce(), &value); err != nil {
		return value, fmt.Errorf("read the setting %s: %w", key, err)
	}
	return value, nil
}

// Reveal returns the current value of a secret; it is empty if none is set.
func (s *Settings) Reveal(ctx context.Context, key string) (secret.String, error) {
	c, err := s.One(ctx, key)
	if err != nil || !c.Set {
		return secret.String{}, err
	}
	plain, err := s.Keyring.Open(c.sealed, place(key, c.Number))
	if err != nil {
		return secret.String{}, fmt.Errorf("decrypt the setting %s: %w", key, err)
	}
	return secret.New(string(plain)), nil
}

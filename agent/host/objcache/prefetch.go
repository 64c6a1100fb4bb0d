package objcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"

	"github.com/signalbox-dev/signalbox/agent/executor"
)

// Prefetch sends one request for all objects that are not cached yet, and caches them. A later call of Copy or Link
// downloads what Prefetch did not. Prefetch returns executor.ErrApart if objects can only be downloaded one by one.
func (s *Store) Prefetch(ctx context.Context, key executor.Key, refs []executor.ObjectRef) error {
	missing, _ := s.missing(refs)
	if len(missing) < 2 {
		return nil
	}
	digests := sha256.New()
	for _, ref := range missing {
		_, _ = io.WriteString(digests, ref.SHA256)
	}
	// Works that need the same objects at the same time share one download.
	_, err, _ := s.fetching.Do("together "+hex.EncodeToString(digests.Sum(nil)), func() (any, error) {
		return nil, s.downloadTogether(ctx, key, missing)
	})
	return err
}

// missing returns the objects that are not cached, each once, and their total size. It leaves out invalid references,
// for which Fetch returns an error.
func (s *Store) missing(refs []executor.ObjectRef) (missing []executor.ObjectRef, size int64) {
	seen := make(map[string]bool, len(refs))
	for _, ref := range refs {
		if check(ref) != nil || seen[ref.SHA256] {
			continue
		}
		seen[ref.SHA256] = true
		if !s.cached(ref) {
			missing, size = append(missing, ref), size+ref.SizeBytes
		}
	}
	return missing, size
}

func (s *Store) downloadTogether(ctx context.Context, key executor.Key, refs []executor.ObjectRef) error {
	refs, size := s.missing(refs) // Another call's download may have ended since the check in Prefetch.
	if len(refs) < 2 {
		return nil
	}
	if err := s.prepare(ctx, size); err != nil {
		return err
	}
	err := s.source.DownloadTogether(ctx, key, refs, s.store)
	if errors.Is(err, executor.ErrPermanent) {
		// Ignore the error. Copy or Link returns it again for the object that caused it.
		return nil
	}
	return err
}

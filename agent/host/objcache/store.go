package objcache

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/platform/clock"
)

// Store is the node's cache of objects.
type Store struct {
	dir      string
	max      int64
	source   executor.Downloader
	clock    clock.Clock
	freed    func(ctx context.Context, bytes int64)
	fetching singleflight.Group

	mu sync.Mutex
	// total is the size that the cached objects had at the last scan, plus the size of all later downloads. It may
	// still include files that were removed since. The field scanned is the time of the last scan.
	total   int64
	scanned time.Time
}

// NewStore returns a store that caches objects in dir. Before each download, it removes the least recently used objects
// so that the cache does not grow much beyond maxBytes; 0 means no limit.
func NewStore(dir string, maxBytes int64, source executor.Downloader, clk clock.Clock) *Store {
	return &Store{dir: dir, max: maxBytes, source: source, clock: clk}
}

// OnFreed makes the store call the function freed with the number of freed bytes when it has removed objects. OnFreed
// must be called before the store is used.
func (s *Store) OnFreed(freed func(ctx context.Context, bytes int64)) { s.freed = freed }

// ErrMismatch reports that an object does not match its reference.
var ErrMismatch = errors.New("the object does not match its reference")

// Fetch returns the path of the object's file and downloads the object if it is not cached.
func (s *Store) Fetch(ctx context.Context, key executor.Key, ref executor.ObjectRef) (string, error) {
	if err := check(ref); err != nil {
		return "", err
	}
	path := s.path(ref)
	if s.cached(ref) {
		now := s.clock.Now()
		_ = os.Chtimes(path, now, now) // Only trim uses the time, so ignore the error.
		return path, nil
	}
	// Concurrent calls share one download. The download fails if the context of the call that started it ends. A call
	// whose own context has not ended then downloads the object itself.
	_, err, shared := s.fetching.Do(ref.SHA256, func() (any, error) {
		if s.cached(ref) {
			return nil, nil // Another call's download has ended since the check above.
		}
		return nil, s.download(ctx, key, ref)
	})
	if err != nil && shared && ctx.Err() == nil && !errors.Is(err, executor.ErrPermanent) {
		err = s.download(ctx, key, ref)
	}
	return path, err
}

func (s *Store) path(ref executor.ObjectRef) string { return filepath.Join(s.dir, ref.SHA256) }

// cached reports whether the object has a file of the right size. Uses of the file verify its bytes.
func (s *Store) cached(ref executor.ObjectRef) bool {
	info, err := os.Stat(s.path(ref))
	return err == nil && info.Size() == ref.SizeBytes
}

func (s *Store) download(ctx context.Context, key executor.Key, ref executor.ObjectRef) error {
	if err := s.prepare(ctx, ref.SizeBytes); err != nil {
		return err
	}
	body, err := s.source.Download(ctx, key, ref)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	return s.store(ref, body)
}

// prepare creates the folder and makes room for new objects.
func (s *Store) prepare(ctx context.Context, size int64) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of objects: %w", err)
	}
	if freed := s.trim(size); freed > 0 && s.freed != nil {
		s.freed(ctx, freed)
	}
	return nil
}

// store verifies the bytes of an object while it writes them, and adds the object to the cache.
func (s *Store) store(ref executor.ObjectRef, body io.Reader) error {
	temp, err := os.CreateTemp(s.dir, ref.SHA256+".part-")
	if err != nil {
		return fmt.Errorf("create the file of an object: %w", err)
	}
	defer func() {
		if err != nil {
			_ = os.Remove(temp.Name())
		}
	}()
	// The file is not synced, because that would take most of the time for a small file. A sync is not necessary: every
	// use verifies the bytes, so a file that a crash of the machine has damaged is downloaded again.
	err = copyVerified(temp, body, ref)
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), s.path(ref))
	}
	return err
}

// copyVerified copies the object and returns an error if its size or digest does not match the reference.
func copyVerified(to io.Writer, from io.Reader, ref executor.ObjectRef) error {
	sum := sha256.New()
	n, err := io.Copy(io.MultiWriter(to, sum), io.LimitReader(from, ref.SizeBytes+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", ref.URI, err)
	}
	if n < ref.SizeBytes {
		return fmt.Errorf("read %s: got only %d of %d bytes", ref.URI, n, ref.SizeBytes)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); n > ref.SizeBytes || got != ref.SHA256 {
		return errors.Join(executor.ErrPermanent, ErrMismatch,
			fmt.Errorf("%s: the SHA-256 is %s, want %s with %d bytes", ref.URI, got, ref.SHA256, ref.SizeBytes))
	}
	return nil
}

func check(ref executor.ObjectRef) error {
	if len(ref.SHA256) != hex.EncodedLen(sha256.Size) || strings.Trim(ref.SHA256, "0123456789abcdef") != "" || ref.SizeBytes < 0 {
		return errors.Join(executor.ErrPermanent, fmt.Errorf("object %s has no valid digest or size", ref.URI))
	}
	if ref.Path != "" && !filepath.IsLocal(ref.Path) {
		return errors.Join(executor.ErrPermanent, fmt.Errorf("object %s: path %q is outside the work's folder", ref.URI, ref.Path))
	}
	return nil
}

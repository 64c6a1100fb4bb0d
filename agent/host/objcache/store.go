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
	fetching singleflight.Group
}

// NewStore returns a store that caches objects in dir. Before each download, it removes the least recently used objects
// so that the cache does not grow much beyond maxBytes; 0 means no limit.
func NewStore(dir string, maxBytes int64, source executor.Downloader, clk clock.Clock) *Store {
	return &Store{dir: dir, max: maxBytes, source: source, clock: clk}
}

// ErrMismatch reports that an object does not match its reference.
var ErrMismatch = errors.New("the object does not match its reference")

// Fetch returns the path of the object's file and downloads the object if it is not cached.
func (s *Store) Fetch(ctx context.Context, key executor.Key, ref executor.ObjectRef) (string, error) {
	if err := check(ref); err != nil {
		return "", err
	}
	path := s.path(ref)
	if info, err := os.Stat(path); err == nil && info.Size() == ref.SizeBytes {
		now := s.clock.Now()
		_ = os.Chtimes(path, now, now) // Only trim uses the time, so ignore the error.
		return path, nil
	}
	// Concurrent calls share one download. It fails if the context of the call that started it ends. A call
	// whose own context has not ended then downloads the object itself.
	_, err, shared := s.fetching.Do(ref.SHA256, func() (any, error) { return nil, s.download(ctx, key, ref) })
	if err != nil && shared && ctx.Err() == nil && !errors.Is(err, executor.ErrPermanent) {
		err = s.download(ctx, key, ref)
	}
	return path, err
}

func (s *Store) path(ref executor.ObjectRef) string { return filepath.Join(s.dir, ref.SHA256) }

func (s *Store) download(ctx context.Context, key executor.Key, ref executor.ObjectRef) error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of objects: %w", err)
	}
	s.trim(ref.SizeBytes)
	body, err := s.source.Download(ctx, key, ref)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	temp, err := os.CreateTemp(s.dir, ref.SHA256+".part-")
	if err != nil {
		return fmt.Errorf("create the file of an object: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	err = copyVerified(temp, body, ref)
	if err == nil {
		err = temp.Sync()
	}
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

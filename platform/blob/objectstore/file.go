package objectstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path"
	"time"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/secret"
)

const (
	mark     = "@"            // suffix of the name of an object's folder; not allowed in keys
	aside    = ".aside"       // staging folder for uploads and deletions
	staleFor = 24 * time.Hour // age after which a staged upload must be left over from a crash
	tries    = 20             // maximum number of attempts while a concurrent Delete removes empty folders
)

// FileConfig configures a FileStore.
type FileConfig struct {
	Root       string        // absolute path of the folder, created if missing
	SigningKey secret.String // if empty, a key is generated and stored in Root
	Limit      int64         // maximum object size in bytes
	PublicURL  func() string // base of signed URLs, known once the gateway listens
	Clock      clock.Clock
	IDs        *id.Source // generates the ids of requests that have none
	Log        *slog.Logger
}

// FileStore implements blob.Store on a folder.
//
// All processes of the installation share the folder. The object a/b is a file in the folder "a/b@". The name of the
// file is the SHA-256 of its bytes. A new object is written to a staging folder, synced, and published by renaming
// its folder. The rename is atomic and never replaces another object.
type FileStore struct {
	config FileConfig
	root   *os.Root
	key    []byte
}

// OpenFiles prepares the folder and returns its FileStore. The caller must call Close.
func OpenFiles(cfg FileConfig) (*FileStore, error) {
	if err := os.MkdirAll(cfg.Root, 0o700); err != nil {
		return nil, fmt.Errorf("open blob folder: %w", err)
	}
	root, err := os.OpenRoot(cfg.Root)
	if err != nil {
		return nil, fmt.Errorf("open blob folder: %w", err)
	}
	s := &FileStore{config: cfg, root: root}
	if err := s.prepare(); err != nil {
		return nil, errors.Join(fmt.Errorf("open blob folder %s: %w", cfg.Root, err), root.Close())
	}
	return s, nil
}

// Close releases the folder.
func (s *FileStore) Close() error { return s.root.Close() }

// Ready returns nil if the folder is writable.
func (s *FileStore) Ready(context.Context) error {
	name := aside + "/ready-" + random()
	if err := s.root.Mkdir(name, 0o700); err != nil {
		return fmt.Errorf("write to the blob folder: %w", err)
	}
	return s.root.Remove(name)
}

func (s *FileStore) prepare() error {
	if err := s.root.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	if err := s.sweep(); err != nil {
		return err
	}
	key, err := s.signingKey()
	s.key = key
	return err
}

// sweep removes old uploads of crashed processes. Another process may still be writing a newer upload.
func (s *FileStore) sweep() error {
	entries, err := fs.ReadDir(s.root.FS(), aside)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if s.stale(path.Join(aside, e.Name())) {
			if err := s.root.RemoveAll(path.Join(aside, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *FileStore) stale(name string) bool {
	newest := time.Time{}
	err := fs.WalkDir(s.root.FS(), name, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.ModTime().After(newest) {
			newest = info.ModTime()
		}
		return err
	})
	return err == nil && clock.Since(s.config.Clock, newest) > staleFor
}

// Get implements blob.Store.
func (s *FileStore) Get(_ context.Context, key string) (io.ReadCloser, blob.Info, error) {
	f, info, err := s.open(key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	return blob.VerifyBody(f, info), info, nil
}

func (s *FileStore) open(key string) (*os.File, blob.Info, error) {
	info, err := s.stat(key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	f, err := s.root.Open(path.Join(key+mark, info.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.Info{}, blob.Absent(key) // deleted since stat
	}
	return f, info, s.failure("open", err)
}

// Local implements blob.Local: all processes share the folder.
func (s *FileStore) Local() {}

// OpenKnown implements blob.Store. The name of the file is its digest, so the folder need not be read.
func (s *FileStore) OpenKnown(_ context.Context, info blob.Info) (io.ReadCloser, error) {
	if err := s.checkKnown(info); err != nil {
		return nil, err
	}
	f, err := s.root.Open(path.Join(info.Key+mark, info.SHA256))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, blob.Absent(info.Key)
	}
	if err != nil {
		return nil, s.failure("open", err)
	}
	return blob.VerifyBody(f, info), nil
}

func (s *FileStore) checkKnown(info blob.Info) error {
	if err := blob.CheckKey(info.Key); err != nil {
		return err
	}
	return blob.CheckContent(info.Size, info.SHA256, math.MaxInt64)
}

// Stat implements blob.Store.
func (s *FileStore) Stat(_ context.Context, key string) (blob.Info, error) { return s.stat(key) }

func (s *FileStore) stat(key string) (info blob.Info, err error) {
	if err := blob.CheckKey(key); err != nil {
		return info, err
	}
	for range tries {
		info, err = s.look(key)
		if !errors.Is(err, errTaken) {
			break
		}
	}
	switch {
	case err == nil:
		return info, nil
	case errors.Is(err, fs.ErrNotExist):
		return blob.Info{}, blob.Absent(key)
	default:
		return blob.Info{}, s.failure("read", err)
	}
}

// errTaken means that an object's folder is empty. Usually a concurrent Delete has just removed the file. If the error
// persists, the store is damaged.
var errTaken = errors.New("it must contain one file")

func (s *FileStore) look(key string) (blob.Info, error) {
	entries, err := fs.ReadDir(s.root.FS(), key+mark)
	if err != nil {
		return blob.Info{}, err
	}
	if len(entries) == 0 {
		return blob.Info{}, fmt.Errorf("the folder of %s is empty: %w", key, errTaken)
	}
	if len(entries) != 1 || !entries[0].Type().IsRegular() {
		return blob.Info{}, fmt.Errorf("the folder of %s contains %d entries instead of one file", key, len(entries))
	}
	about, err := entries[0].Info()
	if err != nil {
		return blob.Info{}, err
	}
	return blob.Info{Key: key, Size: about.Size(), SHA256: entries[0].Name(), Modified: about.ModTime().UTC()}, nil
}

// Delete implements blob.Store.
func (s *FileStore) Delete(_ context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	gone := path.Join(aside, random())
	err := s.root.Rename(key+mark, gone)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = errors.Join(s.root.RemoveAll(gone), s.syncUp(path.Dir(key)))
	}
	for parent := path.Dir(key); parent != "." && s.root.Remove(parent) == nil; parent = path.Dir(parent) {
	}
	return s.failure("delete", err)
}

// sync flushes the entries of a folder to disk.
func (s *FileStore) sync(folder string) error {
	d, err := s.root.Open(folder)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// syncUp syncs a folder and all its parents.
func (s *FileStore) syncUp(folder string) error {
	for {
		if err := s.sync(folder); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if folder == "." {
			return nil
		}
		folder = path.Dir(folder)
	}
}

func (s *FileStore) failure(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fault.New(fault.Dependency, blob.CodeStore, "the object store failed").Wrap(fmt.Errorf("%s blob: %w", doing, err))
}

func random() string {
	var raw [12]byte
	_, _ = rand.Read(raw[:])
	return hex.EncodeToString(raw[:])
}

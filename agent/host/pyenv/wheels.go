package pyenv

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"html"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// wheels is a cache of the wheels that builds have downloaded, so that a later build need not download them again. Each
// wheel is in a folder that belongs to the agent and is named after the SHA-256 of the wheel's bytes. A build sees only
// the wheels whose hashes are in its requirements, and cannot change them. Its installer verifies each hash again. The
// agent adds a wheel only after it has computed the hash itself, and only if the hash is in the requirements of the
// build that downloaded the wheel: a build can therefore not change what another build gets for a hash.
type wheels struct {
	dir string
	// max is the size in bytes that all wheels together should not exceed; 0 turns the cache off.
	max int64
}

// newWheel is the prefix of the folders of wheels that are being added.
const newWheel = ".new-"

// LimitWheels sets the size in bytes that all cached wheels together should not exceed. The least recently used wheels
// are removed first. With 0, the default, no wheels are cached.
func (b *Builder) LimitWheels(bytes int64) {
	b.wheels = wheels{dir: filepath.Join(b.dir, "wheels"), max: bytes}
}

// hashes returns the SHA-256 hashes in the requirements, in lower case.
func hashes(requirements string) []string {
	all := regexp.MustCompile(`--hash[= ]\s*sha256:([0-9a-fA-F]{64})\b`).FindAllStringSubmatch(requirements, -1)
	list := make([]string, 0, len(all))
	for _, found := range all {
		list = append(list, strings.ToLower(found[1]))
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// offered is a cached wheel that a build may use.
type offered struct{ sum, path string }

// offer returns the cached wheels with the given hashes, and records that they are used now.
func (w wheels) offer(sums []string, now time.Time) []offered {
	var found []offered
	for _, sum := range sums {
		entries, err := os.ReadDir(filepath.Join(w.dir, sum))
		if err != nil || len(entries) != 1 {
			continue
		}
		_ = os.Chtimes(filepath.Join(w.dir, sum), now, now) // only trim uses the time, so ignore the error
		found = append(found, offered{sum, filepath.Join(w.dir, sum, entries[0].Name())})
	}
	return found
}

// writeIndex writes a package index into the folder dir, with links to the wheels. If several indexes have the same
// wheel, pip takes it from the last one. The links state the hashes: without them pip would prefer files of other
// indexes.
func writeIndex(dir string, list []offered) error {
	pages := map[string]string{}
	for _, o := range list {
		file := filepath.Base(o.path)
		name, _, _ := strings.Cut(file, "-")
		link := url.URL{Scheme: "file", Path: o.path, Fragment: "sha256=" + o.sum}
		pages[normal(name)] += fmt.Sprintf("<a href=\"%s\">%s</a>\n", html.EscapeString(link.String()), html.EscapeString(file))
	}
	for name, links := range pages {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			return fmt.Errorf("create the index of cached wheels: %w", err)
		}
		text := "<!DOCTYPE html>\n<html><body>\n" + links + "</body></html>\n"
		if err := localfile.Write(filepath.Join(dir, name, "index.html"), []byte(text), localfile.PrivateMode); err != nil {
			return err
		}
	}
	return nil
}

// keep adds wheels to the cache. It takes them from a folder that a build has filled, if their hashes are in the list
// `sums`. It ignores all other files there, and the wheels that the build got from the cache. The caller makes sure
// that no process of the build is left.
func (w wheels) keep(dir string, sums []string, cached []offered) error {
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return failed("the installer has left no folder of wheels")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("list the downloaded wheels: %w", err)
	}
	for _, e := range entries {
		had := slices.ContainsFunc(cached, func(o offered) bool { return filepath.Base(o.path) == e.Name() })
		if e.Type().IsRegular() && strings.HasSuffix(e.Name(), ".whl") && !had {
			if err := w.add(filepath.Join(dir, e.Name()), sums); err != nil {
				return err
			}
		}
	}
	return nil
}

// add copies a file into the cache if it is a wheel with one of the hashes. The cache has its own copy, which no process of a
// build has ever opened.
func (w wheels) add(path string, sums []string) error {
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of wheels: %w", err)
	}
	temp, err := os.MkdirTemp(w.dir, newWheel)
	if err != nil {
		return fmt.Errorf("create the folder of a wheel: %w", err)
	}
	defer func() { _ = localfile.RemoveTree(temp) }()
	place := filepath.Join(temp, filepath.Base(path))
	sum, err := copyHashed(path, place, w.max)
	if err != nil {
		return fmt.Errorf("copy a wheel: %w", err)
	}
	if !slices.Contains(sums, sum) || checkWheel(place, maxDirectory) != nil {
		return nil
	}
	const readable = 0o755
	if err := os.Chmod(temp, readable); err != nil {
		return fmt.Errorf("make a wheel readable for builds: %w", err)
	}
	err = os.Rename(temp, filepath.Join(w.dir, sum))
	if errors.Is(err, fs.ErrExist) || errors.Is(err, unix.ENOTEMPTY) {
		return nil // it is cached already
	}
	if err != nil {
		return fmt.Errorf("add a wheel to the cache: %w", err)
	}
	return nil
}

// copyHashed copies a file and returns the SHA-256 of the copy, or "" if the file is larger than the given limit. It
// follows no symbolic links.
func copyHashed(from, to string, most int64) (sum string, err error) {
	in, err := os.OpenFile(from, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer func() { _ = in.Close() }()
	const readable = 0o644
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, readable)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(out, h), io.LimitReader(in, most+1))
	if err = errors.Join(err, out.Close()); err != nil {
		return "", err
	}
	if n > most {
		return "", nil
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// verify removes each wheel whose bytes do not match its hash, for example after a disk error.
func (w wheels) verify(list []offered) error {
	for _, o := range list {
		file, err := os.Open(o.path)
		if err != nil {
			return fmt.Errorf("verify a cached wheel: %w", err)
		}
		h := sha256.New()
		_, err = io.Copy(h, file)
		_ = file.Close()
		if err == nil && hex.EncodeToString(h.Sum(nil)) == o.sum {
			continue
		}
		if err := os.RemoveAll(filepath.Dir(o.path)); err != nil {
			return fmt.Errorf("remove a damaged wheel: %w", err)
		}
	}
	return nil
}

// trim removes the least recently used wheels until all together have at most w.max bytes. It also removes incomplete
// wheels that killed agents have left. The caller makes sure that no builder is at work.
func (w wheels) trim() (freed int64, err error) {
	entries, err := os.ReadDir(w.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("list the wheels: %w", err)
	}
	var all []kept
	var total int64
	for _, e := range entries {
		k := kept{dir: filepath.Join(w.dir, e.Name())}
		if k.size, err = measure(k.dir); err != nil {
			return 0, err
		}
		if info, err := e.Info(); err == nil && !strings.HasPrefix(e.Name(), newWheel) {
			k.requested = info.ModTime()
		}
		all, total = append(all, k), total+k.size
	}
	sort.Slice(all, func(i, j int) bool { return all[i].requested.Before(all[j].requested) })
	for _, k := range all {
		if total <= w.max && !k.requested.IsZero() {
			break
		}
		if err := os.RemoveAll(k.dir); err != nil {
			return freed, fmt.Errorf("remove a wheel: %w", err)
		}
		total, freed = total-k.size, freed+k.size
	}
	return freed, nil
}

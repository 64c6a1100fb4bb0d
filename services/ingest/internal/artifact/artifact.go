// Package artifact owns the outputs of runs: where their bytes go, that what is registered is what was
// uploaded, and that it is registered once. Objects lie below the run's own prefix under keys that this
// package makes; a path from outside is only ever compared with them.
package artifact

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/report"
)

// Artifact is a registered output.
type Artifact struct {
	ID, RunID    string
	Attempt      int32
	Kind, Format string
	Step         *int64
	Path         string
	Size         int64
	SHA256       string // empty for a path on a host
	CreatedAt    time.Time
}

// URI is where the bytes lie, empty where the platform does not have them.
func (a *Artifact) URI() string {
	if a.SHA256 == "" {
		return ""
	}
	return a.Path
}

// Digest is the SHA-256 of the bytes, nil where the platform has not seen them.
func (a *Artifact) Digest() *string {
	if a.SHA256 == "" {
		return nil
	}
	return &a.SHA256
}

// Packed says that the bytes are a tar file of a folder.
func (a *Artifact) Packed() bool { return a.SHA256 != "" && strings.HasSuffix(a.Path, ".tar") }

// Upload is bytes that shall be brought.
type Upload struct {
	RunID   string
	Attempt int32
	Kind    string
	Path    string
	Size    int64
	SHA256  string
}

// Key is where the bytes go.
func (u *Upload) Key() string {
	return strings.Join([]string{prefix(u.RunID) + strconv.Itoa(int(u.Attempt)), u.Kind, u.SHA256, name(u.Path)}, "/")
}

// prefix is where a run's objects lie; it ends in a slash, so that no other run's begins with it.
func prefix(runID string) string { return "runs/" + runID + "/" }

const (
	maxName   = 100
	nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=-"
)

// name makes a key's last segment of a path.
func name(p string) string {
	base := path.Base(strings.ReplaceAll(p, `\`, "/"))
	base = strings.Map(func(c rune) rune {
		if strings.ContainsRune(nameChars, c) {
			return c
		}
		return '_'
	}, base)
	base = strings.TrimLeft(base, ".")
	if len(base) > maxName {
		base = base[len(base)-maxName:] // the end tells the format
		base = strings.TrimLeft(base, ".")
	}
	if base == "" {
		return "object"
	}
	return base
}

// Blobs is what is needed of the object store.
type Blobs interface {
	Stat(ctx context.Context, key string) (blob.Info, error)
	SignPut(ctx context.Context, key string, o blob.SignOptions) (blob.Signed, error)
}

// Registrar judges what is registered.
type Registrar struct{ Blobs Blobs }

// URL makes the request that brings an upload's bytes.
func (r *Registrar) URL(ctx context.Context, u *Upload) (blob.Signed, error) {
	return r.Blobs.SignPut(ctx, u.Key(), blob.SignOptions{Size: u.Size, SHA256: u.SHA256})
}

// Inspect answers the artifact that a report speaks of, without an id: an object of the run's own, looked
// at in the store, or, where the executor is the host itself, a path there.
func (r *Registrar) Inspect(ctx context.Context, p *report.Artifact, container bool) (*Artifact, error) {
	a := &Artifact{RunID: p.RunID, Kind: p.Kind, Format: p.Format, Step: p.Step, Path: p.Path}
	if p.Size != nil {
		a.Size = *p.Size
	}
	if !strings.Contains(p.Path, ":") && !container {
		return a, local(p.Path)
	}
	key, ok := blob.ParseURI(p.Path)
	if !ok {
		return nil, refused("path", "artifact: path must be the object_uri that artifact/upload-url answered")
	}
	rest, own := strings.CutPrefix(key, prefix(p.RunID))
	part := strings.Split(rest, "/")
	if !own || len(part) != 4 || part[1] != p.Kind {
		return nil, refused("path", "artifact: path is no object that this run uploaded as %s", p.Kind)
	}
	info, err := r.Blobs.Stat(ctx, key)
	if fault.Is(err, fault.Absent) {
		return nil, refused("not_uploaded", "artifact: nothing was uploaded to path")
	}
	if err != nil {
		return nil, fmt.Errorf("look at the artifact's object: %w", err)
	}
	if info.SHA256 != part[2] {
		return nil, refused("digest_mismatch", "artifact: the object's SHA-256 is not the one that was announced")
	}
	if p.Size != nil && *p.Size != info.Size {
		return nil, refused("size_mismatch", "artifact: the object has %d bytes, size_bytes says %d", info.Size, *p.Size)
	}
	a.Size, a.SHA256 = info.Size, info.SHA256
	return a, nil
}

// local accepts a path on a host as a plain note: nothing is ever read there.
func local(p string) error {
	for part := range strings.SplitSeq(strings.ReplaceAll(p, `\`, "/"), "/") {
		if part == ".." {
			return refused("path", "artifact: path must not leave its folder")
		}
	}
	return nil
}

func refused(code, format string, args ...any) error {
	return fault.New(fault.Refused, code, format, args...)
}

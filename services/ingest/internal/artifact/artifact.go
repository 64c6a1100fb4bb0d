// Package artifact owns the outputs of runs. It decides under which key an uploaded output is stored. It promises that
// the size and the digest of an uploaded artifact are read from the object store, and that an artifact is registered
// only once. The key of every object begins with the prefix of its run, and a run can register only objects with its
// own prefix. Checkpoints that a run does not keep are removed, and their objects are deleted unless they are in use.
package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
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
	Given        string // path as the client gave it to the upload URL; empty for a path on a host
	Size         int64  `db:"size_bytes"`
	SHA256       string // empty for a path on a host
	CreatedAt    time.Time
	// RemovedAt is when the checkpoint was removed because its job does not keep it, or nil. Its object is deleted later.
	RemovedAt *time.Time
	// Withheld means that a protected run registered the artifact. Users do not see its location or its digest.
	Withheld bool
}

// Shown returns the path that users see.
func (a *Artifact) Shown() string {
	switch {
	case !a.Withheld:
		return a.Path
	case a.Step == nil:
		return a.Kind
	}
	return a.Kind + "-" + strconv.FormatInt(*a.Step, 10)
}

// Title returns the relative path that the client gave for the artifact, as users see it. For a path on a host it is
// that path. For an artifact of an earlier version it is the name of the object.
func (a *Artifact) Title() string {
	switch {
	case a.Withheld:
		return a.Shown()
	case a.Given != "":
		return a.Given
	case a.SHA256 == "":
		return a.Path
	}
	return path.Base(a.Path)
}

// URI returns the location of the bytes, or "" if the platform does not have them.
func (a *Artifact) URI() string {
	if a.SHA256 == "" {
		return ""
	}
	return a.Path
}

// Digest returns the SHA-256 of the bytes, or nil if the platform does not have them.
func (a *Artifact) Digest() *string {
	if a.SHA256 == "" {
		return nil
	}
	return &a.SHA256
}

// Packed reports whether the platform has the bytes and their name ends in .tar. Clients upload a folder as a tar file.
func (a *Artifact) Packed() bool { return a.SHA256 != "" && strings.HasSuffix(a.Path, ".tar") }

// CodeRemoved is the error code of the use of a removed checkpoint.
const CodeRemoved = "artifact_removed"

// Available returns a Refused fault if the artifact is a removed checkpoint.
func (a *Artifact) Available() error {
	if a.RemovedAt == nil {
		return nil
	}
	return fault.New(fault.Refused, CodeRemoved,
		"artifact %s is a checkpoint that was removed because of checkpoint.keep_last of its job; use one that was not removed", a.ID)
}

// Upload describes bytes that a client wants to upload.
type Upload struct {
	RunID   string
	Attempt int32
	Kind    string
	Path    string
	Size    int64
	SHA256  string

	// apart means that another upload with the same bytes has the key, but another path.
	apart bool
}

// Key returns the object key of the upload.
func (u *Upload) Key() string {
	last := name(u.Path)
	if u.apart {
		sum := sha256.Sum256([]byte(u.Path))
		last = hex.EncodeToString(sum[:8]) + "-" + last
	}
	return strings.Join([]string{prefix(u.RunID) + strconv.Itoa(int(u.Attempt)), u.Kind, u.SHA256, last}, "/")
}

// prefix returns the prefix of a run's object keys. It ends in a slash, so that run_1 does not match the keys of
// run_12.
func prefix(runID string) string { return "runs/" + runID + "/" }

const (
	maxName   = 100
	nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._=-"
)

// name returns the last segment of the object key for a path from a client.
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
		base = base[len(base)-maxName:] // keep the end, which has the file extension
		base = strings.TrimLeft(base, ".")
	}
	if base == "" {
		return "object"
	}
	return base
}

// Blobs is the part of the object store that this package uses.
type Blobs interface {
	Stat(ctx context.Context, key string) (blob.Info, error)
	SignPut(ctx context.Context, key string, o blob.SignOptions) (blob.Signed, error)
}

// Holder protects objects from deletion while no artifact refers to them yet. *Holds implements it.
type Holder interface {
	Extend(ctx context.Context, key string) (held bool, err error)
	// Hold also stores the path that the client gave for the object, unless it is empty, and returns the stored one. It
	// returns errTaken if the object has another path.
	Hold(ctx context.Context, runID, key, given string, size int64) (stored string, err error)
}

// errTaken means that the object of a key has another path.
var errTaken = errors.New("the object has another path")

// Registrar checks artifacts before they are registered.
type Registrar struct {
	Blobs Blobs
	Holds Holder
}

// URL returns a signed request with which the client uploads the object that u describes. If the upload would exceed
// what the run may upload, URL returns a Refused fault. The key of u may then differ: two outputs with the same bytes
// whose paths differ have different keys, so that both are registered.
func (r *Registrar) URL(ctx context.Context, u *Upload) (blob.Signed, error) {
	for {
		signed, err := r.Blobs.SignPut(ctx, u.Key(), blob.SignOptions{Size: u.Size, SHA256: u.SHA256})
		if err != nil {
			return blob.Signed{}, err
		}
		_, err = r.Holds.Hold(ctx, u.RunID, u.Key(), u.Path, u.Size)
		if errors.Is(err, errTaken) && !u.apart {
			u.apart = true
			continue
		}
		return signed, err
	}
}

// Inspect returns the artifact that a report describes, without an id. The path in the report must name an object that
// the run uploaded; the size and the digest of the object are read from the store. If the run does not execute in a
// container, the path may also be a path on the host, which is only recorded. If the report fails a check, Inspect
// returns a Refused fault and does not change the database.
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
		return nil, refused("path", "artifact: path must be the object_uri that artifact/upload-url returned")
	}
	rest, own := strings.CutPrefix(key, prefix(p.RunID))
	part := strings.Split(rest, "/")
	if !own || len(part) != 4 || part[1] != p.Kind {
		return nil, refused("path", "artifact: path is not an object that this run uploaded as %s", p.Kind)
	}
	held, err := r.Holds.Extend(ctx, key)
	if err != nil {
		return nil, err
	}
	info, err := r.stat(ctx, key)
	if err != nil {
		return nil, err
	}
	if info.SHA256 != part[2] {
		return nil, refused("digest_mismatch", "artifact: the object's SHA-256 differs from the one given to artifact/upload-url")
	}
	if p.Size != nil && *p.Size != info.Size {
		return nil, refused("size_mismatch", "artifact: the object has %d bytes, but size_bytes is %d", info.Size, *p.Size)
	}
	if a.Given, err = r.Holds.Hold(ctx, p.RunID, key, "", info.Size); err != nil {
		return nil, err
	}
	if !held { // without an earlier hold, the object may have been deleted before the new one began
		if _, err := r.stat(ctx, key); err != nil {
			return nil, err
		}
	}
	a.Size, a.SHA256 = info.Size, info.SHA256
	return a, nil
}

func (r *Registrar) stat(ctx context.Context, key string) (blob.Info, error) {
	info, err := r.Blobs.Stat(ctx, key)
	if fault.Is(err, fault.Absent) {
		return info, refused("not_uploaded", "artifact: path names an object that was not uploaded; upload it first")
	}
	if err != nil {
		return info, fmt.Errorf("read the size of the uploaded object: %w", err)
	}
	return info, nil
}

// local checks a path on a host. The path is only recorded; the platform never reads the file.
func local(p string) error {
	for part := range strings.SplitSeq(strings.ReplaceAll(p, `\`, "/"), "/") {
		if part == ".." {
			return refused("path", "artifact: path must not contain a .. element")
		}
	}
	return nil
}

func refused(code, format string, args ...any) error {
	return fault.New(fault.Refused, code, format, args...)
}

package codepackage

import (
	"context"
	"errors"
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/archive"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pylock"
)

// maxLocked is the maximum size in bytes of a package whose lock is checked when a job is submitted. It is read up to the
// lock. The locks of larger packages are checked only by the node, which unpacks them anyway.
const maxLocked = 64 << 20

// CheckLock refuses a lock of Python packages that is not in the package, or that the node would refuse. The package has
// been accepted. The text member is the name of what sets the path of the lock.
func CheckLock(ctx context.Context, blobs blob.Store, b *Bundle, lock, member string) error {
	if lock == "" || b.Size > maxLocked {
		return nil
	}
	content, found, err := ReadFile(ctx, blobs, b, lock, pylock.MaxBytes+1)
	if err != nil {
		return err
	}
	if !found {
		return Refuse("the package has no file %s; correct %s, or add the file", lock, member)
	}
	_, err = pylock.Parse(lock, content)
	if refusal, ok := errors.AsType[*pylock.Error](err); ok {
		return Refuse("%s", refusal)
	}
	return err
}

// ReadFile returns the content of a file of a package, at most the given number of bytes of it, and whether the package has
// the file. The package has been accepted.
func ReadFile(ctx context.Context, blobs blob.Store, b *Bundle, name string, most int64) (content []byte, found bool, err error) {
	body, info, err := blobs.Get(ctx, Key(b.ProjectID, b.SHA256))
	if fault.Is(err, fault.Absent) {
		return nil, false, Refuse("package %s has not been uploaded", b.ID)
	}
	if err != nil {
		return nil, false, fmt.Errorf("open a package: %w", err)
	}
	defer func() { _ = body.Close() }()
	return archive.Extract(body, info.Size, name, most)
}

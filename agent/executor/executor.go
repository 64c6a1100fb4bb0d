package executor

import (
	"context"
	"errors"
	"io"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// Executor runs works. All methods are safe for concurrent use.
type Executor interface {
	// Apply sets the complete list of desired works. A known work that is not in the list becomes gone. A work is
	// ignored if the executor knows a newer one with the same id. The list may contain a work without its spec if
	// Observed contains that work.
	Apply(ctx context.Context, desired []Work) error
	// Observed returns all known executions, ordered by work id.
	Observed() []Observation
	// Changes returns a channel that receives a value after the result of Observed has changed. Several changes
	// may share one value.
	Changes() <-chan struct{}
}

// Downloader opens an object of a work's spec for reading from its first byte. Its methods are safe for concurrent use.
type Downloader interface {
	// Expect announces the objects that the caller is about to download, in about this order, so that one request can
	// prepare many downloads. The caller calls done after the downloads.
	Expect(key Key, objects []ObjectRef) (done func())
	Download(ctx context.Context, key Key, object ObjectRef) (io.ReadCloser, error)
	// DownloadTogether downloads small objects with one request. It passes the body of every object to the function
	// visit, in the order of the objects, and stops at the first error. It returns ErrApart if the objects can only be
	// downloaded one by one.
	DownloadTogether(ctx context.Context, key Key, objects []ObjectRef, visit func(object ObjectRef, body io.Reader) error) error
}

// ErrApart reports that objects can only be downloaded one by one.
var ErrApart = errors.New("the objects must be downloaded one by one")

// TokenMinter creates the credentials of works. Each new credential revokes the work's previous one.
type TokenMinter interface {
	// MintIngestToken creates the ingest token of an attempt, with its lease.
	MintIngestToken(ctx context.Context, key Key) (Token, error)
	// GrantLease begins the lease of an engine and returns the lease's token.
	GrantLease(ctx context.Context, key Key) (secret.String, error)
}

// ErrPermanent marks a failure that a retry cannot fix. Downloaders and TokenMinters join it to the errors
// that they return for such failures.
var ErrPermanent = errors.New("permanent failure")

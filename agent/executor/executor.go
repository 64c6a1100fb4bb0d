package executor

import (
	"context"
	"errors"
	"io"
)

// Executor runs works. All methods are safe for concurrent use.
type Executor interface {
	// Apply sets the complete list of desired works. A known work that is not in the list becomes gone. A work
	// is ignored if the executor knows a newer one with the same id.
	Apply(ctx context.Context, desired []Work) error
	// Observed returns all known executions, ordered by work id.
	Observed() []Observation
	// Changes returns a channel that receives a value after the result of Observed has changed. Several changes
	// may share one value.
	Changes() <-chan struct{}
}

// Downloader opens an object of a work's spec for reading from its first byte.
type Downloader interface {
	Download(ctx context.Context, key Key, object ObjectRef) (io.ReadCloser, error)
}

// TokenMinter creates the ingest token of an attempt and revokes the previous one.
type TokenMinter interface {
	MintIngestToken(ctx context.Context, key Key) (Token, error)
}

// ErrPermanent marks a failure that a retry cannot fix. Downloaders and TokenMinters join it to the errors
// that they return for such failures.
var ErrPermanent = errors.New("permanent failure")

package executor

import (
	"context"
	"errors"
	"io"
)

// Executor runs work. All methods are safe for concurrent use.
type Executor interface {
	// Apply sets the complete list of desired works. A known work that is not in the
	// list is gone; a work older than the known one with the same id is ignored.
	Apply(ctx context.Context, desired []Work) error
	// Observed returns all known executions, ordered by work id.
	Observed() []Observation
	// Changes receives a value after Observed has changed; several changes may share one.
	Changes() <-chan struct{}
}

// Downloader opens an object of a work's spec at its first byte.
type Downloader interface {
	Download(ctx context.Context, key Key, object ObjectRef) (io.ReadCloser, error)
}

// TokenMinter creates the ingest token of an attempt and revokes the previous one.
type TokenMinter interface {
	MintIngestToken(ctx context.Context, key Key) (Token, error)
}

// ErrPermanent marks a failure that a retry cannot fix. Implementations of Downloader
// and TokenMinter join it to such errors.
var ErrPermanent = errors.New("permanent failure")

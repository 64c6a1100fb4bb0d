package executor

import (
	"context"
	"errors"
	"io"
)

// Executor runs work. All methods are safe for concurrent use.
type Executor interface {
	// Apply takes the whole of what is desired. Work that is missing in it is gone;
	// work older than what is known under the same id is dropped.
	Apply(ctx context.Context, desired []Work) error
	// Observed is the whole of what is known, in the order of the work ids.
	Observed() []Observation
	// Changes carries a value after a change of Observed; several changes may share one.
	Changes() <-chan struct{}
}

// Downloader opens an object of a work's spec for reading from its first byte.
type Downloader interface {
	Download(ctx context.Context, key Key, object ObjectRef) (io.ReadCloser, error)
}

// TokenMinter makes the ingest token of an attempt and revokes the former one.
type TokenMinter interface {
	MintIngestToken(ctx context.Context, key Key) (Token, error)
}

// ErrPermanent marks a failure that asking again cannot mend. Implementations of
// Downloader and TokenMinter join it to such errors.
var ErrPermanent = errors.New("not worth another try")

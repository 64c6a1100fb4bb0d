package artifact

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/blob"
)

const (
	// freeAfter is the time between the removal of a checkpoint and the deletion of its object. It must exceed the longest
	// time between reading an artifact and registering a model from it, which is 15 minutes.
	freeAfter = 20 * time.Minute
	// freedAtOnce is the number of artifacts that are handled together, the maximum of a request to the jobs service.
	freedAtOnce = 100
)

// Freer deletes the objects of removed checkpoints. It deletes none from which a model was registered or a job resumes: such
// an artifact is restored and never removed again.
type Freer struct {
	Pool *pgxpool.Pool
	// InUse returns the ids of those of the given artifacts whose objects must stay.
	InUse func(ctx context.Context, all []*Artifact) ([]string, error)
	// Remove deletes those of the objects with the given keys to which no artifact refers.
	Remove func(ctx context.Context, keys []string) (int64, error)
	// Freed counts deleted bytes.
	Freed func(ctx context.Context, bytes int64)
}

// Free handles the artifacts that were removed long enough ago. Each step can be repeated: what a crash or a failure has left
// unfinished, the next call finishes. If InUse fails, Free deletes nothing.
func (f *Freer) Free(ctx context.Context) error {
	for {
		due, err := f.due(ctx)
		if err != nil || len(due) == 0 {
			return err
		}
		done, err := f.free(ctx, due)
		if err != nil || done == 0 || len(due) < freedAtOnce {
			return err
		}
	}
}

// free returns how many artifacts were restored or freed. The others have an object that is being uploaded again.
func (f *Freer) free(ctx context.Context, due []*removedArtifact) (done int64, err error) {
	used, err := f.used(ctx, due)
	if err != nil {
		return 0, err
	}
	ids, keys := []string{}, []string{}
	for _, a := range due {
		key, ok := blob.ParseURI(a.URI())
		if !ok {
			return 0, fmt.Errorf("artifact %s has no object", a.ID)
		}
		if !slices.Contains(used, a.ID) {
			ids, keys = append(ids, a.ID), append(keys, key)
		}
	}
	if err := f.release(ctx, used, ids, keys); err != nil {
		return 0, err
	}
	if _, err := f.Remove(ctx, keys); err != nil {
		return 0, err
	}
	freed, bytes, err := f.settle(ctx, ids)
	if err != nil {
		return 0, err
	}
	f.Freed(ctx, bytes)
	return freed + int64(len(used)), nil
}

// used returns the ids of the artifacts that must stay. An artifact that was released before is not in use, and its object may
// be deleted already.
func (f *Freer) used(ctx context.Context, due []*removedArtifact) ([]string, error) {
	var open []*Artifact
	for _, a := range due {
		if !a.Released {
			open = append(open, &a.Artifact)
		}
	}
	if len(open) == 0 {
		return nil, nil
	}
	found, err := f.InUse(ctx, open)
	if err != nil {
		return nil, fmt.Errorf("find the removed checkpoints that are in use: %w", err)
	}
	return slices.DeleteFunc(found, func(id string) bool {
		return !slices.ContainsFunc(open, func(a *Artifact) bool { return a.ID == id })
	}), nil
}

package manifest

import (
	"context"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/rpc"
)

const (
	// maxTargets is the maximum number of uploads in one response. A repeated request returns URLs for the objects that
	// are still missing.
	maxTargets = 3000
	// maxResponse is the maximum size of a response without its envelope. With long paths, a response has room for few
	// uploads beside the list of all files. A list that a client can send leaves room for at least one.
	maxResponse = rpc.MaxMessage - 32<<10
	// atOnce is the maximum number of concurrent object lookups.
	atOnce = 32
)

// Objects are the objects of a version. Key returns the key of the object with a SHA-256.
type Objects struct {
	Blobs blob.Store
	Key   func(sha256 string) string
}

// find looks up the object of each digest in the files once and returns the results by digest. The result for a missing
// object is nil.
func (o Objects) find(ctx context.Context, files []File) (map[string]*blob.Info, error) {
	index := map[string]int{}
	var sums []string
	for _, f := range files {
		if _, known := index[f.SHA256]; !known {
			index[f.SHA256] = len(sums)
			sums = append(sums, f.SHA256)
		}
	}
	infos := make([]*blob.Info, len(sums))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for i, sum := range sums {
		group.Go(func() error {
			info, err := o.Blobs.Stat(ctx, o.Key(sum))
			if fault.Is(err, fault.Absent) {
				return nil
			}
			infos[i] = &info
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("look up the objects of a version: %w", err)
	}
	found := make(map[string]*blob.Info, len(sums))
	for sum, i := range index {
		found[sum] = infos[i]
	}
	return found, nil
}

// Targets returns one signed upload for each digest whose object is missing. They are at most maxTargets and, except for
// the first one, fit into a response with used bytes. It looks up the objects in batches and stops at a limit.
func (o Objects) Targets(ctx context.Context, all []File, used int) ([]*registryv1.UploadTarget, error) {
	var out []*registryv1.UploadTarget
	room := maxResponse - used
	signedFor := map[string]bool{}
	for files := range slices.Chunk(all, maxTargets) {
		found, err := o.find(ctx, files)
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if found[f.SHA256] != nil || signedFor[f.SHA256] {
				continue
			}
			signedFor[f.SHA256] = true
			signed, err := o.Blobs.SignPut(ctx, o.Key(f.SHA256), blob.SignOptions{Size: f.Size, SHA256: f.SHA256})
			if err != nil {
				return nil, fmt.Errorf("sign an upload: %w", err)
			}
			t := &registryv1.UploadTarget{
				Path: f.Path, Url: signed.URL, Method: signed.Method, Headers: signed.Headers, ExpiresAt: timestamppb.New(signed.ExpiresAt),
			}
			if room -= sizeInList(t); room < 0 && len(out) > 0 {
				return out, nil
			}
			if out = append(out, t); len(out) == maxTargets {
				return out, nil
			}
		}
	}
	return out, nil
}

// sizeInList returns how many bytes a message adds to a message that has a list of such messages.
func sizeInList(m proto.Message) int {
	const tag = 1
	return tag + protowire.SizeBytes(proto.Size(m))
}

// Verify returns an error unless the objects of the files exist with the size and the digest in the manifest.
func (o Objects) Verify(ctx context.Context, files []File) error {
	found, err := o.find(ctx, files)
	if err != nil {
		return err
	}
	for _, f := range files {
		info := found[f.SHA256]
		switch {
		case info == nil:
			return fault.New(fault.Refused, "object_missing", "file %s has not been uploaded", f.Path)
		case info.Size != f.Size || info.SHA256 != f.SHA256:
			return fault.New(fault.Refused, "object_differs", "file %s has %d bytes with sha256 %s; the manifest states %d bytes with sha256 %s",
				f.Path, info.Size, info.SHA256, f.Size, f.SHA256)
		}
	}
	return nil
}

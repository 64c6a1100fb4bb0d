package dataset

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// maxTargets is the maximum number of upload URLs in one response, which must fit into a gRPC message. A repeated
	// request returns URLs for the objects that are still missing.
	maxTargets = 3000
	// atOnce is the maximum number of concurrent object lookups.
	atOnce = 16
)

// Target is a signed upload of one object.
type Target struct {
	Path string
	blob.Signed
}

// objects looks up each object of a version once and returns the results by digest. A missing object is nil.
func (s *Server) objects(ctx context.Context, d *Dataset, v *Version) (map[string]*blob.Info, error) {
	index := map[string]int{}
	var sums []string
	for _, f := range v.Manifest {
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
			info, err := s.Blobs.Stat(ctx, v.key(d, sum))
			if fault.Is(err, fault.Absent) {
				return nil
			}
			infos[i] = &info
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, fmt.Errorf("look up the objects of a dataset: %w", err)
	}
	found := make(map[string]*blob.Info, len(sums))
	for sum, i := range index {
		found[sum] = infos[i]
	}
	return found, nil
}

// targets returns one signed upload URL for each digest whose object is missing, for at most maxTargets digests.
func (s *Server) targets(ctx context.Context, d *Dataset, v *Version) ([]Target, error) {
	found, err := s.objects(ctx, d, v)
	if err != nil {
		return nil, err
	}
	var out []Target
	signedFor := map[string]bool{}
	for _, f := range v.Manifest {
		if found[f.SHA256] != nil || signedFor[f.SHA256] || len(out) == maxTargets {
			continue
		}
		signedFor[f.SHA256] = true
		signed, err := s.Blobs.SignPut(ctx, v.key(d, f.SHA256), blob.SignOptions{Size: f.Size, SHA256: f.SHA256})
		if err != nil {
			return nil, fmt.Errorf("sign an upload: %w", err)
		}
		out = append(out, Target{Path: f.Path, Signed: signed})
	}
	return out, nil
}

// verify returns an error unless all objects exist with the size and the digest in the manifest.
func (s *Server) verify(ctx context.Context, d *Dataset, v *Version) error {
	found, err := s.objects(ctx, d, v)
	if err != nil {
		return err
	}
	for _, f := range v.Manifest {
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

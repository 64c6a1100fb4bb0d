package dataset

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	// maxTargets is how many uploads one answer names, so that it fits a message; asked again, the version
	// answers the ones that are still missing.
	maxTargets = 3000
	// atOnce is how many objects are looked at side by side.
	atOnce = 16
)

// Target is a signed upload of one object.
type Target struct {
	Path string
	blob.Signed
}

// objects looks at the objects of a version, each digest once. A missing one is nil.
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
		return nil, fmt.Errorf("look at the objects of a dataset: %w", err)
	}
	found := make(map[string]*blob.Info, len(sums))
	for sum, i := range index {
		found[sum] = infos[i]
	}
	return found, nil
}

// targets signs an upload of each object that is not there, each digest once.
func (s *Server) targets(ctx context.Context, d *Dataset, v *Version) ([]Target, error) {
	found, err := s.objects(ctx, d, v)
	if err != nil {
		return nil, err
	}
	var out []Target
	asked := map[string]bool{}
	for _, f := range v.Manifest {
		if found[f.SHA256] != nil || asked[f.SHA256] || len(out) == maxTargets {
			continue
		}
		asked[f.SHA256] = true
		signed, err := s.Blobs.SignPut(ctx, v.key(d, f.SHA256), blob.SignOptions{Size: f.Size, SHA256: f.SHA256})
		if err != nil {
			return nil, fmt.Errorf("sign an upload: %w", err)
		}
		out = append(out, Target{Path: f.Path, Signed: signed})
	}
	return out, nil
}

// verify refuses a version whose objects are not all there as its manifest says.
func (s *Server) verify(ctx context.Context, d *Dataset, v *Version) error {
	found, err := s.objects(ctx, d, v)
	if err != nil {
		return err
	}
	for _, f := range v.Manifest {
		info := found[f.SHA256]
		switch {
		case info == nil:
			return fault.New(fault.Refused, "object_missing", "the bytes of %s were not uploaded", f.Path)
		case info.Size != f.Size || info.SHA256 != f.SHA256:
			return fault.New(fault.Refused, "object_differs", "the bytes of %s are %d with sha256 %s, the manifest says %d with %s",
				f.Path, info.Size, info.SHA256, f.Size, f.SHA256)
		}
	}
	return nil
}

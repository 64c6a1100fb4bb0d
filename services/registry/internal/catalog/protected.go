package catalog

import (
	"context"

	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// FindProtected returns the references that do not refer to an existing, unprotected dataset.
func (s *Server) FindProtected(
	ctx context.Context, in *registrypeerv1.FindProtectedRequest,
) (*registrypeerv1.FindProtectedResponse, error) {
	out := &registrypeerv1.FindProtectedResponse{}
	for _, text := range in.GetRefs() {
		r, ok := ref.Parse(ref.Dataset, text)
		if ok {
			var err error
			if ok, err = open(ctx, s.Pool, r); err != nil {
				return nil, err
			}
		}
		if !ok {
			out.Refs = append(out.Refs, text)
		}
	}
	return out, nil
}

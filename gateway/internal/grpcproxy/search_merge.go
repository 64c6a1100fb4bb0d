package grpcproxy

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	searchv1 "github.com/signalbox-dev/signalbox/gen/signalbox/search/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// part is the response for one kind.
type part struct {
	kind string
	out  *searchv1.SearchResponse
	err  error
}

// search calls a service for each kind at the same time, and merges the responses. An error that is due to the caller
// fails the whole search; a kind whose call fails for another reason is missing.
func (s *Search) search(ctx context.Context, in *searchv1.SearchRequest, wanted []string) (*searchv1.SearchResponse, error) {
	parts := make([]part, len(wanted))
	var calls sync.WaitGroup
	for i, kind := range wanted {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, cmp.Or(s.Limit, SearchLimit))
			defer cancel()
			request := &searchv1.SearchRequest{Q: in.GetQ(), Kinds: []string{kind}, Project: in.Project, Limit: in.Limit}
			out, err := searchv1.NewSearchServiceClient(s.service(kind)).Search(ctx, request)
			parts[i] = part{kind, out, err}
		})
	}
	calls.Wait()
	return merge(parts, int(cmp.Or(in.GetLimit(), 20)))
}

func merge(parts []part, limit int) (*searchv1.SearchResponse, error) {
	out := &searchv1.SearchResponse{}
	slices.SortStableFunc(parts, func(a, b part) int {
		return cmp.Compare(slices.Index(kinds(), a.kind), slices.Index(kinds(), b.kind))
	})
	for _, p := range parts {
		switch {
		case p.err == nil:
			out.Results = append(out.Results, p.out.GetResults()...)
		case failed(p.err):
			out.Missing = append(out.Missing, p.kind)
		default:
			return nil, p.err
		}
	}
	if len(out.GetMissing()) == len(parts) {
		return nil, fmt.Errorf("search every kind: %w", parts[0].err)
	}
	slices.SortStableFunc(out.GetResults(), func(a, b *searchv1.SearchResult) int { return cmp.Compare(b.GetScore(), a.GetScore()) })
	out.Results = out.GetResults()[:min(len(out.GetResults()), limit)]
	return out, nil
}

// failed reports whether a call failed for a reason that is not due to the caller.
func failed(err error) bool {
	switch fault.From(err).Kind {
	case fault.Unavailable, fault.Internal, fault.Dependency, fault.Unconfigured:
		return true
	default:
		return false
	}
}

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
)

const (
	// maxWork is the maximum size in bytes of a work with its spec. It is enough for a spec that lists some 250,000
	// files.
	maxWork = 64 << 20
	// fetchWithin is the time limit for fetching one work.
	fetchWithin = time.Minute
)

// wanted is the newest list of desired works, and the works that were fetched for it.
type wanted struct {
	mu      sync.Mutex // held while a list is applied, so that lists are applied in order
	list    *jobsv1.DesiredWorks
	fetched map[executor.Key]executor.Work
	// missing are the works of the list whose specs must be fetched.
	missing map[executor.Key]bool
}

// apply passes the complete list to the executor and reports whether specs must be fetched. The executor
// would end a work that is missing from the list, so a work that cannot be decoded stays in the list. If its desired
// state is unknown, the executor leaves the work unchanged. If its kind is unknown, the executor does not start it.
func (s *session) apply(ctx context.Context, desired *jobsv1.DesiredWorks) (incomplete bool) {
	s.wanted.mu.Lock()
	defer s.wanted.mu.Unlock()
	s.wanted.list = desired
	s.applyLocked(ctx)
	return len(s.wanted.missing) > 0
}

// applyLocked applies the newest list. The caller holds s.wanted.mu. applyLocked leaves out each work that the executor
// does not have and whose spec was not fetched yet. That is safe, because the executor runs nothing for such a work.
func (s *session) applyLocked(ctx context.Context) {
	list := s.wanted.list
	works := make([]executor.Work, 0, len(list.GetWorks()))
	known := map[executor.Key]bool{}
	for _, o := range s.executor.Observed() {
		known[o.Key] = o.Phase != executor.PhaseGone
	}
	fetched, missing := map[executor.Key]executor.Work{}, map[executor.Key]bool{}
	for _, p := range list.GetWorks() {
		w, err := fromWork(p)
		if err != nil {
			s.deps.Log.ErrorContext(ctx, "cannot decode a work from the control plane; leaving it unchanged", "error", err.Error())
		}
		w.IngestEndpoint = list.GetIngestEndpoint()
		if err == nil && w.Desired == executor.DesiredRunning && w.Attempt == nil && w.Engine == nil && !known[w.Key] {
			whole, ok := s.wanted.fetched[w.Key]
			if !ok {
				missing[w.Key] = true
				continue
			}
			fetched[w.Key] = whole
			w.Attempt, w.Engine = whole.Attempt, whole.Engine
		}
		works = append(works, w)
	}
	s.wanted.fetched, s.wanted.missing = fetched, missing
	if err := s.executor.Apply(ctx, works); err != nil {
		s.deps.Log.ErrorContext(ctx, "cannot apply the desired works", "error", err.Error())
	}
}

// fetchWorks fetches the missing works whenever it receives from the channel incomplete. It applies the newest list
// after each fetched work. If a fetch fails, the next list causes another try.
func (s *session) fetchWorks(ctx context.Context, incomplete <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-incomplete:
		}
		s.wanted.mu.Lock()
		keys := slices.SortedFunc(maps.Keys(s.wanted.missing), func(a, b executor.Key) int { return strings.Compare(a.String(), b.String()) })
		s.wanted.mu.Unlock()
		for _, key := range keys {
			w, err := s.fetchWork(ctx, key)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				s.deps.Log.WarnContext(ctx, "cannot fetch a work; trying again with the next list", "work", key.String(), "error", err.Error())
				continue
			}
			s.wanted.mu.Lock()
			if s.wanted.missing[key] {
				s.wanted.fetched[key] = w
				s.applyLocked(ctx)
			}
			s.wanted.mu.Unlock()
		}
	}
}

func (s *session) fetchWork(ctx context.Context, key executor.Key) (executor.Work, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchWithin)
	defer cancel()
	stream, err := s.client().FetchWork(ctx, &jobsv1.FetchWorkRequest{WorkId: key.WorkID, Generation: key.Generation, Fence: key.Fence})
	if err != nil {
		return executor.Work{}, fmt.Errorf("fetch the work: %w", err)
	}
	var raw []byte
	for {
		chunk, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return executor.Work{}, fmt.Errorf("fetch the work: %w", err)
		}
		if raw = append(raw, chunk.GetData()...); len(raw) > maxWork {
			return executor.Work{}, fmt.Errorf("fetch the work: it is larger than %d bytes", maxWork)
		}
	}
	p := &jobsv1.Work{}
	if err := proto.Unmarshal(raw, p); err != nil {
		return executor.Work{}, fmt.Errorf("decode the work: %w", err)
	}
	w, err := fromWork(p)
	if err == nil && w.Key != key {
		err = fmt.Errorf("the control plane sent work %s instead of work %s", w.Key, key)
	}
	return w, err
}

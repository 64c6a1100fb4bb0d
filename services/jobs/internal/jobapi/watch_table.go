package jobapi

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/job"
)

// Why a client must read the list again.
const (
	resetStart   = "start"
	resetExpired = "expired"
	resetChanged = "changed"
	resetSlow    = "slow"
)

// markBits is how many low bits of the id of an event hold the mark of the filters and rights that the stream has. The
// position of a change is in the bits above it. The mark makes a client that returns with other rights read the list
// again. Even with an equal mark by chance, a client gets no job that it may not see.
const markBits = 24

// WatchJobs sends the changes of the jobs that match the filters, and a reset first if the stream does not continue an
// earlier one. It ends only with an error.
//
// A job is sent as it was after the change with the number of the event, at most once for each number. A change is not
// sent if the job had changed again by the time the change was read; the later change is then sent. Each change is checked
// with the visibility that the job had directly before and after it, so a job that becomes hidden is gone at once. When
// the rights of the caller change, the gateway ends the stream within its recheck interval, and the client that
// reconnects gets a reset.
func (s *Server) WatchJobs(req *jobsv1.WatchJobsRequest, stream grpc.ServerStreamingServer[jobsv1.WatchJobsResponse]) error {
	ctx := stream.Context()
	filter, err := filterOf(req)
	if err != nil {
		return err
	}
	w := &tableWatch{Tables: s.Tables, stream: stream, interest: job.Interest{Scope: authn.ScopeOf(ctx), Filter: filter}}
	if w.mark, err = markOf(authn.CallerOf(ctx), w.interest); err != nil {
		return err
	}
	release, err := s.Tables.take()
	if err != nil {
		return err
	}
	defer release()
	reason := w.begin(req.GetAfter())
	if err := w.check(ctx, w.interest); err != nil {
		return err
	}
	if err := stream.SendHeader(metadata.MD{}); err != nil {
		return err
	}
	for {
		if reason != "" {
			if err := w.reset(ctx, reason); err != nil {
				return err
			}
		}
		if reason, err = w.follow(ctx); err != nil {
			return err
		}
	}
}

// tableWatch is one stream of WatchJobs.
type tableWatch struct {
	*Tables

	stream   grpc.ServerStreamingServer[jobsv1.WatchJobsResponse]
	interest job.Interest
	mark     int64
	at       int64 // the position up to which all changes were sent
}

// begin sets the position at which the stream begins. It returns the reason for a reset, or "".
func (w *tableWatch) begin(after int64) string {
	w.at = after >> markBits
	switch {
	case after == 0:
		return resetStart
	case after&(1<<markBits-1) != w.mark:
		return resetChanged
	}
	return ""
}

// reset makes the client read the list again. The list contains all changes up to the position of the reset.
func (w *tableWatch) reset(ctx context.Context, reason string) (err error) {
	if w.at, err = w.newest(ctx); err != nil {
		return err
	}
	w.count.reset(ctx, reason)
	return w.send(w.at, &jobsv1.WatchJobsResponse{Event: &jobsv1.WatchJobsResponse_Reset_{Reset_: &jobsv1.JobsReset{Reason: reason}}})
}

// follow sends the changes after the position of the stream until it fails, or a reset is needed for the returned reason.
func (w *tableWatch) follow(ctx context.Context) (reason string, err error) {
	reason = resetExpired
	for {
		page, err := w.read(ctx, w.at, w.interest)
		if err != nil {
			return "", err
		}
		if page.Oldest > w.at || page.Last < w.at || page.Last-w.at > maxBehind {
			return reason, nil
		}
		if err := w.sendAll(ctx, page.Changes, 0); err != nil {
			return "", err
		}
		reason, w.at = resetSlow, page.End
		if page.End < page.Last {
			continue
		}
		x := &table{
			ctx: ctx, interest: w.interest, at: w.at, admitted: make(chan bool, 1), batches: make(chan tableEvents, tableQueue),
		}
		if ok, err := w.join(ctx, x); err != nil {
			return "", err
		} else if ok {
			return resetSlow, w.live(ctx, x)
		}
	}
}

// live sends the changes that the table receives. It returns nil when the table was removed.
func (w *tableWatch) live(ctx context.Context, x *table) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case batch, ok := <-x.batches:
			if !ok {
				return nil
			}
			if err := w.sendAll(ctx, batch.changes, batch.k); err != nil {
				return err
			}
		}
	}
}

// sendAll sends the events that the changes have for the interest k.
func (w *tableWatch) sendAll(ctx context.Context, changes []job.Change, k int32) error {
	for _, c := range changes {
		m := &jobsv1.WatchJobsResponse{}
		switch {
		case slices.Contains(c.Shown, k):
			j, err := shown(ctx, c.Job)
			if err != nil {
				return err
			}
			m.Event = &jobsv1.WatchJobsResponse_Job{Job: j}
			w.count.event(ctx, "job")
		case slices.Contains(c.Gone, k):
			m.Event = &jobsv1.WatchJobsResponse_Gone{Gone: &jobsv1.GoneJob{Id: c.JobID}}
			w.count.event(ctx, "gone")
		default:
			continue
		}
		if err := w.send(c.Seq, m); err != nil {
			return err
		}
	}
	return nil
}

func (w *tableWatch) send(position int64, m *jobsv1.WatchJobsResponse) error {
	m.Seq = position<<markBits | w.mark
	return w.stream.Send(m)
}

// markOf returns a number that changes with the filter and with what the caller may see and edit. It is never 0, so that
// the id of an event is never 0.
func markOf(caller *authn.Caller, in job.Interest) (int64, error) {
	roles := slices.SortedFunc(slices.Values(caller.Projects), func(a, b authn.ProjectRole) int { return cmp.Compare(a.Project, b.Project) })
	text, err := json.Marshal([]any{caller.Subject, caller.Role, roles, in.Scope.Admin, in.Scope.UserID, slices.Sorted(slices.Values(in.Scope.Projects)), in.Filter})
	if err != nil {
		return 0, fmt.Errorf("encode the filters of a stream: %w", err)
	}
	sum := sha256.Sum256(text)
	return max(1, int64(binary.BigEndian.Uint32(sum[:])>>(32-markBits))), nil
}

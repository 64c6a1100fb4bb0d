package read

import (
	"context"
	"math"
	"slices"
	"strconv"

	ingestv1 "github.com/signalbox-dev/signalbox/gen/signalbox/ingest/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/logs"
	"github.com/signalbox-dev/signalbox/services/ingest/internal/run"
)

// ListLogs implements RunDataService.
func (s *Server) ListLogs(ctx context.Context, in *ingestv1.ListLogsRequest) (*ingestv1.ListLogsResponse, error) {
	if err := checkPosition(in); err != nil {
		return nil, err
	}
	id, p, err := s.begin(ctx, in, in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	if in.GetTail() || in.Before != nil {
		return s.lastLines(ctx, in, id, p.Limit)
	}
	unfinished, last, err := s.unfinished(ctx, in, id)
	if err != nil {
		return nil, err
	}
	lines, err := s.lines(ctx, id, in.GetAfter()+int64(p.Offset), p.FetchLimit())
	if err != nil {
		return nil, err
	}
	lines, more := request.CutPage(lines, p)
	if more {
		unfinished = nil
	} else {
		lines = until(lines, last)
	}
	out := &ingestv1.ListLogsResponse{Lines: slices.Concat(shortLineProtos(lines), shortLineProtos(unfinished))}
	return out, request.SetNextAfter(ctx, more, lines, func(l *logs.Line) string { return strconv.FormatInt(l.Seq, 10) })
}

// unfinished returns the unfinished lines of a run, if the request includes them, and the number of the last line that was
// finished at that moment. A page that has them ends with that line, because later lines may be the same, finished.
func (s *Server) unfinished(ctx context.Context, in *ingestv1.ListLogsRequest, id string) (lines []logs.Line, last int64, err error) {
	if !in.GetPartial() {
		return nil, math.MaxInt64, nil
	}
	return s.Logs.Partial(ctx, id)
}

// until returns the lines up to the given number.
func until(lines []logs.Line, last int64) []logs.Line {
	for len(lines) > 0 && lines[len(lines)-1].Seq > last {
		lines = lines[:len(lines)-1]
	}
	return lines
}

// checkPosition returns a 422 error if a request combines parameters that exclude each other.
func checkPosition(in *ingestv1.ListLogsRequest) error {
	var fields []fault.Field
	exclude := func(given bool, name, by string) {
		if given {
			fields = append(fields, fault.At(fault.TypeValue, "Value error, "+name+" cannot be combined with "+by, name))
		}
	}
	switch {
	case in.GetTail():
		exclude(in.Before != nil, "before", "tail")
		exclude(in.After != nil, "after", "tail")
		exclude(in.Offset != nil, "offset", "tail")
	case in.Before != nil:
		exclude(in.After != nil, "after", "before")
		exclude(in.Offset != nil, "offset", "before")
	}
	if len(fields) == 0 {
		return nil
	}
	return fault.InvalidFields(fields...)
}

// lastLines returns the last lines whose numbers are less than `before`, or the last lines of the log.
func (s *Server) lastLines(ctx context.Context, in *ingestv1.ListLogsRequest, id string, limit int) (*ingestv1.ListLogsResponse, error) {
	p, err := s.Progress(ctx, id)
	if err != nil {
		return nil, err
	}
	last := p.LineSeq
	var unfinished []logs.Line
	switch {
	case in.Before != nil:
		last = min(last, in.GetBefore()-1)
	case in.GetPartial():
		if unfinished, last, err = s.Logs.Partial(ctx, id); err != nil {
			return nil, err
		}
	}
	first := max(0, last-int64(limit))
	lines, err := s.lines(ctx, id, first, int(last-first))
	if err != nil {
		return nil, err
	}
	return &ingestv1.ListLogsResponse{Lines: slices.Concat(shortLineProtos(lines), shortLineProtos(unfinished))}, nil
}

// lines returns the lines whose numbers are greater than after, at most limit of them.
func (s *Server) lines(ctx context.Context, id string, after int64, limit int) ([]logs.Line, error) {
	var lines []logs.Line
	for len(lines) < limit {
		more, err := s.Logs.Range(ctx, id, after, limit-len(lines))
		if err != nil {
			return nil, err
		}
		if len(more) == 0 {
			break
		}
		lines = append(lines, more...)
		after = lines[len(lines)-1].Seq
	}
	return lines, nil
}

// SearchLogs implements RunDataService.
func (s *Server) SearchLogs(ctx context.Context, in *ingestv1.SearchLogsRequest) (*ingestv1.SearchLogsResponse, error) {
	q, err := queryOf(in)
	if err != nil {
		return nil, err
	}
	id, err := s.Runs.Readable(ctx, in.GetId())
	if err != nil {
		return nil, err
	}
	p, err := s.Progress(ctx, id)
	if err != nil {
		return nil, err
	}
	leave, err := s.Gate.Enter(ctx, run.CallerSearcher(ctx))
	if err != nil {
		return nil, err
	}
	defer leave()
	found, err := s.Logs.Search(ctx, id, p.LineSeq, q)
	if err != nil {
		return nil, err
	}
	return &ingestv1.SearchLogsResponse{
		Lines: shortLineProtos(found.Lines), Searched: found.Searched, Complete: found.Complete, Matches: found.Matches,
	}, nil
}

// queryOf returns the query of a request, or a 422 error if its limit or its pattern is not valid.
func queryOf(in *ingestv1.SearchLogsRequest) (*logs.Query, error) {
	p, err := request.ReadPage(in.Limit, nil)
	if err != nil {
		return nil, err
	}
	q := &logs.Query{
		Attempt: in.Attempt, Rank: in.Rank, Node: in.Node, Since: request.TimeOf(in.GetSince()), Until: request.TimeOf(in.GetUntil()),
		After: in.GetAfter(), Limit: p.Limit, Level: logs.ParseLevel(in.GetLevel()), Context: int(in.GetContext()),
	}
	if in.GetPattern() == "" {
		return q, nil
	}
	if q.Pattern, err = logs.CompilePattern(in.GetPattern(), in.GetIgnoreCase()); err != nil {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "Value error, "+err.Error(), "pattern"))
	}
	return q, nil
}

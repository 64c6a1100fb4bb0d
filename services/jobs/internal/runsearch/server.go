package runsearch

import (
	"context"
	"encoding/json"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5/pgxpool"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// Server implements RunSearchService.
type Server struct {
	jobsv1.UnimplementedRunSearchServiceServer
	Pool  *pgxpool.Pool
	Store Store
	Runs  run.Store
}

// SearchRuns returns a page of the runs that the caller may read and that match the condition.
func (s *Server) SearchRuns(ctx context.Context, req *jobsv1.SearchRunsRequest) (*jobsv1.SearchRunsResponse, error) {
	page, err := request.ReadPage(req.Limit, nil)
	if err != nil {
		return nil, err
	}
	q, err := queryOf(req, page)
	if err != nil {
		return nil, err
	}
	columns, err := columnsOf(req.GetColumns())
	if err != nil {
		return nil, err
	}
	scope := authn.ScopeOf(ctx)
	hits, err := s.Store.search(ctx, s.Pool, scope, q)
	if err != nil {
		return nil, err
	}
	hits, more := request.CutPage(hits, page)
	resp := &jobsv1.SearchRunsResponse{}
	if more {
		resp.Next = new(q.end(hits[len(hits)-1]).String())
	}
	resp.Runs, err = s.found(ctx, scope, hits, columns)
	return resp, err
}

// AggregateRuns groups the newest runs that the caller may read and that match the condition.
func (s *Server) AggregateRuns(ctx context.Context, req *jobsv1.AggregateRunsRequest) (*jobsv1.AggregateRunsResponse, error) {
	page, err := request.ReadPage(req.Limit, nil)
	if err != nil {
		return nil, err
	}
	from := &query{filter: req.GetFilter(), archived: req.GetArchived()}
	found, runs, more, err := s.Store.aggregate(ctx, s.Pool, authn.ScopeOf(ctx), from, &grouping{by: req.GetGroupBy(), values: req.GetValues()})
	if err != nil {
		return nil, err
	}
	resp := &jobsv1.AggregateRunsResponse{Runs: runs, MoreRuns: more}
	largest := found.largest()
	if resp.More = len(largest) > page.Limit; resp.GetMore() {
		largest = largest[:page.Limit]
	}
	for _, g := range largest {
		m, err := g.toProto(req)
		if err != nil {
			return nil, err
		}
		resp.Groups = append(resp.Groups, m)
	}
	return resp, nil
}

func queryOf(req *jobsv1.SearchRunsRequest, page request.Page) (*query, error) {
	q := &query{filter: req.GetFilter(), archived: req.GetArchived(), limit: page.FetchLimit()}
	var err error
	if q.order, err = orderOf(req.GetSort(), req.GetDirection()); err != nil {
		return nil, err
	}
	if req.After != nil {
		q.after, err = placeOf(req.GetAfter(), &q.order)
	}
	return q, err
}

func columnsOf(names []string) (map[string]fact, error) {
	columns := make(map[string]fact, len(names))
	var faults []fault.Field
	for i, name := range names {
		t, ok := factOf(name)
		if !ok {
			faults = append(faults, fault.At(fault.TypeValue, "Input should be hparam.KEY, or metric.KEY.last, .min, .max or .best", "columns", i))
		}
		columns[name] = t
	}
	if len(faults) > 0 {
		return nil, fault.InvalidFields(faults...)
	}
	return columns, nil
}

// found reads the runs and their columns. A run that the caller can no longer see is left out.
func (s *Server) found(ctx context.Context, scope authn.Scope, hits []hit, columns map[string]fact) ([]*jobsv1.FoundRun, error) {
	ids := make([]string, len(hits))
	for i, h := range hits {
		ids[i] = h.ID
	}
	runs, err := s.Runs.Many(ctx, s.Pool, scope, ids)
	if err != nil {
		return nil, err
	}
	states, err := s.Store.states(ctx, s.Pool, ids)
	if err != nil {
		return nil, err
	}
	values, err := s.Store.values(ctx, s.Pool, ids, columns)
	if err != nil {
		return nil, err
	}
	var out []*jobsv1.FoundRun
	for _, id := range ids {
		r, ok := runs[id]
		if !ok {
			continue
		}
		found := &jobsv1.FoundRun{Run: run.ToProto(r)}
		if found.Values, err = encode(values[id], columns); err != nil {
			return nil, err
		}
		if c, ok := states[id]; ok {
			found.AsOf, found.HparamsLeftOut, found.MetricsLeftOut = request.OptionalTime(&c.AsOf), c.HparamsLeftOut, c.MetricsLeftOut
		}
		out = append(out, found)
	}
	return out, nil
}

// encode returns the values of a run as JSON, with null for the columns that the run lacks.
func encode(values map[string]json.RawMessage, columns map[string]fact) ([]byte, error) {
	all := make(map[string]json.RawMessage, len(columns))
	for name := range columns {
		all[name] = values[name]
	}
	data, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("encode the values of a run: %w", err)
	}
	return data, nil
}

func (s *statistic) toProto(name string) *jobsv1.RunStatistic {
	m := &jobsv1.RunStatistic{Name: name, Count: s.count}
	if s.count > 0 {
		m.Mean, m.Min, m.Max = &s.mean, &s.low, &s.high
	}
	if s.count > 1 {
		m.Std = new(math.Sqrt(s.square / float64(s.count-1)))
	}
	return m
}

func (g *group) toProto(req *jobsv1.AggregateRunsRequest) (*jobsv1.RunGroup, error) {
	m := &jobsv1.RunGroup{Count: g.count, RunIds: g.runs, AsOf: request.OptionalTime(g.asOf)}
	keys := make(map[string]json.RawMessage, len(g.keys))
	for i, name := range req.GetGroupBy() {
		if keys[name] = nil; g.keys[i] != nil {
			keys[name] = json.RawMessage(*g.keys[i])
		}
	}
	var err error
	if m.Key, err = json.Marshal(keys); err != nil {
		return nil, fmt.Errorf("encode the key of a group: %w", err)
	}
	for i, name := range req.GetValues() {
		m.Values = append(m.Values, g.stats[i].toProto(name))
	}
	return m, nil
}

package share

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// PublicServer implements SharedService. It ignores the caller's identity: possession of the token grants access.
type PublicServer struct {
	jobsv1.UnimplementedSharedServiceServer
	Pool  *pgxpool.Pool
	Store Store
	Runs  run.Store
	Live  *Live
}

// open returns the link of a token, and the link's runs, if the link is valid and opens the field. Every link opens the
// field "". open reads the rows on every call, so a link revoked on any instance ends at once.
func (s *PublicServer) open(ctx context.Context, token, field string) (*Share, []*run.Run, error) {
	hash, ok := secret.Parse(secret.KindShare, token)
	if !ok {
		return nil, nil, errGone()
	}
	share, err := s.Store.Live(ctx, s.Pool, hash)
	if err != nil {
		return nil, nil, err
	}
	if field != "" && !share.Opens(field) {
		return nil, nil, errGone()
	}
	runs := make([]*run.Run, len(share.Runs))
	for i, id := range share.Runs {
		runs[i], err = s.Runs.Get(ctx, s.Pool, authn.Scope{Admin: true, Projects: []string{}}, id)
		if fault.Is(err, fault.Absent) {
			return nil, nil, errGone()
		}
		if err != nil {
			return nil, nil, err
		}
	}
	allowed, err := s.Live.Allowed(ctx, share.OwnerID, runs)
	if err != nil {
		return nil, nil, err
	}
	if !allowed {
		return nil, nil, errGone()
	}
	for _, r := range runs {
		protected, err := s.Live.Protected(ctx, r)
		if err != nil {
			return nil, nil, err
		}
		if protected {
			return nil, nil, errGone()
		}
	}
	return share, runs, nil
}

// openRun calls open and returns one run of the link, by its index; nil means the first run.
func (s *PublicServer) openRun(ctx context.Context, token, field string, index *int32) (share *Share, r *run.Run, at int, err error) {
	share, runs, err := s.open(ctx, token, field)
	if err != nil {
		return nil, nil, 0, err
	}
	if index != nil {
		at = int(*index)
	}
	if at >= len(runs) {
		return nil, nil, 0, errGone()
	}
	return share, runs[at], at, nil
}

func (s *PublicServer) pins() *Pins { return &Pins{DB: s.Pool, Store: s.Store} }

// GetShared returns the link's content and counts the view.
func (s *PublicServer) GetShared(ctx context.Context, req *jobsv1.GetSharedRequest) (*jobsv1.Shared, error) {
	share, runs, err := s.open(ctx, req.GetToken(), "")
	if err != nil {
		return nil, err
	}
	m := sharedToProto(share)
	for i, r := range runs {
		one := &jobsv1.SharedRun{}
		if share.Pinned {
			err = s.pins().read(ctx, share, i, partRun, one)
		} else {
			one, err = runToShared(r)
		}
		if err != nil {
			return nil, err
		}
		maskRun(one)
		m.Runs = append(m.Runs, one)
	}
	return m, s.Store.CountView(ctx, s.Pool, share.ID)
}

// ListSharedMetrics lists the series of one run.
func (s *PublicServer) ListSharedMetrics(
	ctx context.Context, req *jobsv1.ListSharedMetricsRequest,
) (*jobsv1.ListSharedMetricsResponse, error) {
	p, err := request.ReadPage(req.Limit, req.Offset)
	if err != nil {
		return nil, err
	}
	share, r, at, err := s.openRun(ctx, req.GetToken(), Metrics, req.Run)
	if err != nil {
		return nil, err
	}
	var series []*jobsv1.SharedSeries
	var more bool
	if share.Pinned {
		series, more, err = s.pins().Metrics(ctx, share, at, req.GetKeys(), p)
	} else {
		series, more, err = s.Live.Metrics(ctx, r, req.GetKeys(), p)
	}
	if err != nil {
		return nil, err
	}
	return &jobsv1.ListSharedMetricsResponse{Series: series}, request.SetMore(ctx, more)
}

// GetSharedConfig returns the configuration of one run.
func (s *PublicServer) GetSharedConfig(ctx context.Context, req *jobsv1.GetSharedConfigRequest) (*jobsv1.SharedConfig, error) {
	share, r, at, err := s.openRun(ctx, req.GetToken(), Config, req.Run)
	if err != nil {
		return nil, err
	}
	m := &jobsv1.SharedConfig{}
	if share.Pinned {
		err = s.pins().read(ctx, share, at, Config, m)
	} else {
		m, err = s.Live.Config(ctx, r)
	}
	if err != nil {
		return nil, err
	}
	return m, maskConfig(m)
}

// ListSharedSamples lists validation samples of one run.
func (s *PublicServer) ListSharedSamples(
	ctx context.Context, req *jobsv1.ListSharedSamplesRequest,
) (*jobsv1.ListSharedSamplesResponse, error) {
	q, err := sampleQuery(req)
	if err != nil {
		return nil, err
	}
	share, r, at, err := s.openRun(ctx, req.GetToken(), Samples, req.Run)
	if err != nil {
		return nil, err
	}
	page, err := s.samples(ctx, share, r, at, q)
	if err != nil {
		return nil, err
	}
	if err := maskSamples(page.Samples); err != nil {
		return nil, err
	}
	out := &jobsv1.ListSharedSamplesResponse{Samples: page.Samples}
	if !page.Positions {
		return out, request.SetMore(ctx, page.More)
	}
	return out, request.SetNextAfter(ctx, page.More, page.Samples, func(last **jobsv1.SharedSample) string { return (*last).GetId() })
}

// samples returns the run's current or pinned samples.
func (s *PublicServer) samples(ctx context.Context, share *Share, r *run.Run, at int, q *SampleQuery) (*SamplePage, error) {
	if !share.Pinned {
		return s.Live.Samples(ctx, r, q)
	}
	return s.pins().Samples(ctx, share, at, q)
}

package share

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/page"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// MaxPin bounds what one pinned link keeps.
const MaxPin = 32 << 20

// partRun is the part of a pin that is the run itself; the others are named by their field.
const partRun = "run"

// pin is a part of what a pinned link shows.
type pin struct {
	run  int
	part string
	data []byte
}

// gather makes what a pinned link will show. Series past the first page of them are too much to pin, and so is
// what is larger than a link may keep; samples are the last round's, one page of them.
func (l *Live) gather(ctx context.Context, s *Share, runs []*run.Run) ([]pin, error) {
	var pins []pin
	total := 0
	for i, r := range runs {
		parts, err := l.parts(ctx, s, r)
		if err != nil {
			return nil, err
		}
		for part, m := range parts {
			data, err := proto.Marshal(m)
			if err != nil {
				return nil, fmt.Errorf("write what a link shows: %w", err)
			}
			if total += len(data); total > MaxPin {
				return nil, tooMuch()
			}
			pins = append(pins, pin{run: i, part: part, data: data})
		}
	}
	return pins, nil
}

func tooMuch() error {
	return fault.New(fault.TooLarge, "pin_too_large", "there is too much to pin: share fewer runs or fields, or do not pin")
}

func (l *Live) parts(ctx context.Context, s *Share, r *run.Run) (parts map[string]proto.Message, err error) {
	whole := page.Page{Limit: page.MaxLimit}
	parts = map[string]proto.Message{}
	if parts[partRun], err = runToShared(r); err != nil {
		return nil, err
	}
	if s.Opens(Metrics) {
		series, more, err := l.Metrics(ctx, r, nil, whole)
		if err != nil {
			return nil, err
		}
		if more {
			return nil, tooMuch()
		}
		parts[Metrics] = &jobsv1.ListSharedMetricsResponse{Series: series}
	}
	if s.Opens(Config) {
		if parts[Config], err = l.Config(ctx, r); err != nil {
			return nil, err
		}
	}
	if s.Opens(Samples) {
		samples, _, err := l.Samples(ctx, r, nil, whole)
		if err != nil {
			return nil, err
		}
		parts[Samples] = &jobsv1.ListSharedSamplesResponse{Samples: samples}
	}
	return parts, nil
}

// Pins shows what was pinned.
type Pins struct {
	DB    pg.Querier
	Store Store
}

func (p *Pins) read(ctx context.Context, s *Share, run int, part string, into proto.Message) error {
	data, err := p.Store.Pin(ctx, p.DB, s.ID, run, part)
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(data, into); err != nil {
		return fmt.Errorf("read a pinned link: %w", err)
	}
	return nil
}

// Metrics answers a page of a run's series.
func (p *Pins) Metrics(ctx context.Context, s *Share, run int, keys []string, pg page.Page) ([]*jobsv1.SharedSeries, bool, error) {
	var all jobsv1.ListSharedMetricsResponse
	if err := p.read(ctx, s, run, Metrics, &all); err != nil {
		return nil, false, err
	}
	series := all.GetSeries()
	if len(keys) > 0 {
		series = slices.DeleteFunc(series, func(one *jobsv1.SharedSeries) bool { return !slices.Contains(keys, one.GetKey()) })
	}
	series, more := part(series, pg)
	return series, more, nil
}

// Samples answers a page of a run's samples: they are those of one round.
func (p *Pins) Samples(ctx context.Context, s *Share, run int, step *int64, pg page.Page) ([]*jobsv1.SharedSample, bool, error) {
	var all jobsv1.ListSharedSamplesResponse
	if err := p.read(ctx, s, run, Samples, &all); err != nil {
		return nil, false, err
	}
	samples := all.GetSamples()
	if step != nil {
		samples = slices.DeleteFunc(samples, func(one *jobsv1.SharedSample) bool { return one.GetStep() != *step })
	}
	samples, more := part(samples, pg)
	return samples, more, nil
}

// part is a page of a list that is there as a whole.
func part[T any](all []T, p page.Page) (shown []T, more bool) {
	all = all[min(p.Offset, len(all)):]
	return page.Cut(all, p)
}

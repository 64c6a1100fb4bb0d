package share

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/run"
)

// MaxPin is the maximum size, in bytes, of the content of one pinned link.
const MaxPin = 32 << 20

// partRun is the part of a pin that holds the run itself. The other parts have the name of their field.
const partRun = "run"

// pin is one part of the content of a pinned link.
type pin struct {
	run  int
	part string
	data []byte
}

// gather collects the content of a pinned link. It fails if a run has more than one page of series or if the content
// exceeds MaxPin. Only one page of samples is collected, from the last round; the run states whether the round has more.
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
				return nil, fmt.Errorf("encode a pinned link: %w", err)
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
	return fault.New(fault.TooLarge, "pin_too_large", "there is too much data to pin; share fewer runs or fields, or do not pin the link")
}

func (l *Live) parts(ctx context.Context, s *Share, r *run.Run) (parts map[string]proto.Message, err error) {
	whole := request.Page{Limit: request.MaxLimit}
	shown, err := runToShared(r)
	if err != nil {
		return nil, err
	}
	parts = map[string]proto.Message{partRun: shown}
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
		got, err := l.Samples(ctx, r, &SampleQuery{Page: whole})
		if err != nil {
			return nil, err
		}
		for _, one := range got.Samples {
			one.TextNext = nil // the rest of the text is not pinned
		}
		shown.MoreSamples = &got.More
		parts[Samples] = &jobsv1.ListSharedSamplesResponse{Samples: got.Samples}
	}
	return parts, nil
}

// Pins reads the content of pinned links.
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

// Metrics returns a page of a run's series.
func (p *Pins) Metrics(ctx context.Context, s *Share, run int, keys []string, pg request.Page) ([]*jobsv1.SharedSeries, bool, error) {
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

// Samples returns a page of a run's samples. Only one round is pinned, and no more of its texts than was shown then.
func (p *Pins) Samples(ctx context.Context, s *Share, run int, q *SampleQuery) (*SamplePage, error) {
	if q.TextFrom > 0 {
		return nil, fault.InvalidFields(fault.At(fault.TypeValue, "Value error, a pinned link keeps no more of a text than it shows", "text_from"))
	}
	var all jobsv1.ListSharedSamplesResponse
	if err := p.read(ctx, s, run, Samples, &all); err != nil {
		return nil, err
	}
	var after id.Sample
	if q.After != nil {
		after, _ = id.ParseSample(*q.After) // sampleQuery has checked it
	}
	samples := slices.DeleteFunc(all.GetSamples(), func(one *jobsv1.SharedSample) bool {
		at := pinnedPosition(one)
		one.Id = at.String()
		return q.Step != nil && one.GetStep() != *q.Step || q.Only != nil && one.GetId() != *q.Only || q.After != nil && at.Compare(after) <= 0
	})
	out := &SamplePage{Positions: true}
	out.Samples, out.More = part(samples, q.Page)
	return out, nil
}

// pinnedPosition returns the position of a pinned sample. Links that are older than positions have only the numbers of
// samples in their round.
func pinnedPosition(s *jobsv1.SharedSample) id.Sample {
	if at, ok := id.ParseSample(s.GetId()); ok {
		return at
	}
	return id.Sample{Step: s.GetStep(), Index: s.GetIndex()}
}

// part returns a page of a complete list.
func part[T any](all []T, p request.Page) (shown []T, more bool) {
	all = all[min(p.Offset, len(all)):]
	return request.CutPage(all, p)
}

package share

import (
	"cmp"
	"fmt"
	"slices"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// SampleQuery selects samples of a run. A condition that is nil matches every sample of the last round.
type SampleQuery struct {
	Step     *int64
	After    *string // the id of the sample after which the page begins
	Only     *string // the id of the only sample
	TextFrom int64   // the first character of each text
	Page     request.Page
}

// SamplePage is a page of samples. If Positions is false, the next page is found only by its offset.
type SamplePage struct {
	Samples         []*jobsv1.SharedSample
	More, Positions bool
}

// sampleQuery returns the query of a request, or a 422 error.
func sampleQuery(in *jobsv1.ListSharedSamplesRequest) (*SampleQuery, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	for _, one := range []struct {
		field string
		id    *string
	}{{"after", in.After}, {"sample", in.Sample}} { //nolint:protogetter // nil means that the field is not set
		if _, ok := parsePosition(one.id); one.id != nil && !ok {
			return nil, fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the id of a sample", one.field))
		}
	}
	return &SampleQuery{Step: in.Step, After: in.After, Only: in.Sample, TextFrom: in.GetTextFrom(), Page: p}, nil
}

// position is the id of a sample as numbers: its step, attempt, chunk, and index in the chunk. Lists have this order.
type position [4]int64

// parsePosition reads the id of a sample. ok is false if id is nil or not the id of a sample.
func parsePosition(id *string) (p position, ok bool) {
	if id == nil {
		return p, false
	}
	const attempt = 1 // and the numbers after it have 32 bits
	n, err := fmt.Sscanf(*id, "%d.%d.%d.%d", &p[0], &p[1], &p[2], &p[3])
	for _, part := range p[attempt:] {
		ok = part == int64(int32(part))
		if !ok {
			return p, false
		}
	}
	return p, n == len(p) && err == nil && p.String() == *id
}

func (p position) String() string { return fmt.Sprintf("%d.%d.%d.%d", p[0], p[1], p[2], p[3]) }

func (p position) compare(other position) int {
	return slices.CompareFunc(p[:], other[:], cmp.Compare[int64])
}

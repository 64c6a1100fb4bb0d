package share

import (
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
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
		field  string
		sample *string
	}{{"after", in.After}, {"sample", in.Sample}} { //nolint:protogetter // nil means that the field is not set
		if one.sample == nil {
			continue
		}
		if _, ok := id.ParseSample(*one.sample); !ok {
			return nil, fault.InvalidFields(fault.At(fault.TypeStringPattern, "Input should be the id of a sample", one.field))
		}
	}
	return &SampleQuery{Step: in.Step, After: in.After, Only: in.Sample, TextFrom: in.GetTextFrom(), Page: p}, nil
}

package restjson

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// PutHardwareConfig replaces the whole configuration. A list that the request leaves out must not delete the stored
// list.
func TestRequiredListsReportedMissing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		``:                               {"series", "profiles"},
		`{}`:                             {"series", "profiles"},
		`{"series": []}`:                 {"profiles"},
		`{"profiles": []}`:               {"series"},
		`{"series": [], "profiles": []}`: nil,
	} {
		var m jobsv1.PutHardwareConfigRequest
		err := New().NewDecoder(NewBody(noClose{bytes.NewReader([]byte(text))})).Decode(&m)
		if want == nil {
			require.NoError(t, err, text)
			continue
		}
		fields := fault.From(err).Fields
		require.Len(t, fields, len(want), "%s: %v", text, err)
		for i, name := range want {
			require.Equal(t, []any{"body", name}, fields[i].Loc, text)
			require.Equal(t, fault.TypeMissing, fields[i].Type, text)
		}
	}
	// Missing lists are reported only if there are no other faults.
	err := New().Unmarshal([]byte(`{"series": [], "x": 1}`), &jobsv1.PutHardwareConfigRequest{})
	require.Len(t, fault.From(err).Fields, 1)
	require.Equal(t, fault.TypeExtra, fault.From(err).Fields[0].Type)
}

type noClose struct{ *bytes.Reader }

// Close implements io.Closer.
func (noClose) Close() error { return nil }

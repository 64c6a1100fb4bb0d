package report

import "github.com/signalbox-dev/signalbox/services/ingest/internal/decode"

// Ack is the report that a training has done what a signal required. ID is the id of the signal.
type Ack struct {
	RunID string
	Rank  *int32
	ID    string
}

// ReadAck reads an acknowledgement of a signal.
func ReadAck(data []byte) (*Ack, error) {
	var p Ack
	return &p, decode.Body(data, func(r *decode.Reader) {
		r.Object(with(r, &p.RunID, &p.Rank, decode.Fields{"id": func() { p.ID = r.Text(1, maxWord) }}), "run_id", "id")
	})
}

package traffic

import (
	"encoding/binary"
	"math"
	"time"
)

// copyRows are rows in the binary format of COPY. They are encoded by hand, because every call is stored: pgx would first
// read the types of the columns for each batch, and look up an encoder for each value.
type copyRows struct{ data []byte }

const (
	copyHeader = "PGCOPY\n\xff\r\n\x00" + "\x00\x00\x00\x00" + "\x00\x00\x00\x00" // the signature, no flags, no extension
	// rowSize is the size of most rows in bytes.
	rowSize = 400
	// epoch is the beginning of Postgres's time, in microseconds of Unix time.
	epoch = 946_684_800_000_000
)

func newCopyRows(rows int) *copyRows {
	return &copyRows{append(make([]byte, 0, len(copyHeader)+rows*rowSize), copyHeader...)}
}

// end returns the rows.
func (r *copyRows) end() []byte { return binary.BigEndian.AppendUint16(r.data, math.MaxUint16) }

// begin begins a row with the given number of columns.
func (r *copyRows) begin(columns int) {
	r.data = binary.BigEndian.AppendUint16(r.data, uint16(columns))
}

func (r *copyRows) size(n int) { r.data = binary.BigEndian.AppendUint32(r.data, uint32(int32(n))) }

func (r *copyRows) null() { r.size(-1) }

func (r *copyRows) text(s string) {
	r.size(len(s))
	r.data = append(r.data, s...)
}

func (r *copyRows) integer(n int32) {
	r.size(4)
	r.data = binary.BigEndian.AppendUint32(r.data, uint32(n))
}

func (r *copyRows) bigint(n int64) {
	r.size(8)
	r.data = binary.BigEndian.AppendUint64(r.data, uint64(n))
}

func (r *copyRows) double(f float64) {
	r.size(8)
	r.data = binary.BigEndian.AppendUint64(r.data, math.Float64bits(f))
}

func (r *copyRows) boolean(b bool) {
	r.size(1)
	if b {
		r.data = append(r.data, 1)
		return
	}
	r.data = append(r.data, 0)
}

func (r *copyRows) time(t time.Time) { r.bigint(t.UnixMicro() - epoch) }

// orNull adds a value with the given method, or null.
func orNull[T any](r *copyRows, value *T, add func(T)) {
	if value == nil {
		r.null()
		return
	}
	add(*value)
}

// row adds the columns of a call, in the order of columns.
func (c *Call) row(r *copyRows) {
	r.begin(len(columns()))
	r.text(c.RequestID)
	r.time(c.At)
	r.text(c.DeploymentID)
	r.text(c.RevisionID)
	r.integer(c.RevisionNumber)
	r.text(c.TokenID)
	r.text(c.TokenName)
	r.text(c.ReplicaID)
	r.text(c.Method)
	r.text(c.Path)
	r.integer(c.Status)
	r.text(c.Outcome)
	r.boolean(c.Stream)
	orNull(r, c.RequestedModel, r.text)
	orNull(r, c.ResponseModel, r.text)
	orNull(r, c.PromptTokens, r.integer)
	orNull(r, c.CompletionTokens, r.integer)
	r.text(c.UsageSource)
	orNull(r, c.FinishReason, r.text)
	orNull(r, c.TTFT, r.double)
	r.double(c.Duration)
	r.bigint(c.RequestBytes)
	r.bigint(c.ResponseBytes)
	orNull(r, c.RequestFrames, r.bigint)
	orNull(r, c.ResponseFrames, r.bigint)
}

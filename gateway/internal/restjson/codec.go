// Package restjson implements the API's JSON: it writes protobuf messages as the API contract
// defines and reads request bodies strictly, reporting the path of every fault.
//
// It writes snake_case names in declaration order, every integer as a JSON number, an unset optional
// field as null, empty lists and maps as [] and {}, times as 2026-11-21T03:00:00.123456+00:00, enum values
// in lower case without their prefix (an unspecified value as null), NaN and the infinities as strings,
// and fields with the raw_json option as the JSON value they contain. The same message always gives the
// same bytes.
//
// It accepts only snake_case names, each at most once; integers only as JSON numbers; one value and nothing after it;
// valid UTF-8 without NUL; at most MaxDepth levels. A body that is not JSON yields one json_invalid
// entry with the byte offset. Every other fault yields an entry with its path, at most MaxFaults in total.
package restjson

import (
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// ContentType is the media type of every body this package writes.
const ContentType = "application/json"

// Limits of one request body. MaxValues limits how much memory a few megabytes of `{},{},` can allocate.
const (
	MaxDepth  = 64
	MaxFaults = 50
	MaxValues = 200_000
)

// Codec implements runtime.Marshaler. It caches plans of message descriptors and is safe
// for concurrent use.
type Codec struct {
	plans sync.Map // protoreflect.MessageDescriptor → *plan
}

// New returns a Codec.
func New() *Codec { return &Codec{} }

var _ runtime.Marshaler = (*Codec)(nil)

// ContentType returns the media type of v's encoding.
func (c *Codec) ContentType(any) string { return ContentType }

// Marshal writes a message, or the field of a message that `response_body` selects.
func (c *Codec) Marshal(v any) ([]byte, error) {
	return c.appendAny(nil, v)
}

// Unmarshal reads a complete request body into v: a message, a pointer to a message field, or *[]byte for a field of
// raw JSON. It returns a *fault.Error if the body is invalid.
func (c *Codec) Unmarshal(data []byte, v any) error {
	return c.decode(data, v, nil)
}

// NewDecoder returns a decoder of the single value in r. For an empty body it returns io.EOF, which the generated
// handlers treat as a request without fields; validation then reports the missing fields. If a request must contain a
// list, an empty body is decoded as an empty object, so that the list is reported as missing. If r is a *Body, the
// decoder also stores the fault in it, because the generated handlers turn faults into plain text.
func (c *Codec) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		body, _ := r.(*Body)
		data, err := io.ReadAll(r)
		switch {
		case err != nil:
			err = fmt.Errorf("read request body: %w", err)
		case len(data) == 0 && !c.named(v):
			return io.EOF
		case len(data) == 0:
			err = c.decode([]byte("{}"), v, body.sealed())
		default:
			err = c.decode(data, v, body.sealed())
		}
		if err != nil && errors.Is(err, io.EOF) {
			err = fmt.Errorf("read request body: %w", io.ErrUnexpectedEOF)
		}
		body.keep(data, err)
		return err
	})
}

// NewEncoder returns an encoder that writes each value as one line.
func (c *Codec) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		data, err := c.Marshal(v)
		if err != nil {
			return err
		}
		if _, err := w.Write(append(data, '\n')); err != nil {
			return fmt.Errorf("write response body: %w", err)
		}
		return nil
	})
}

// Body is a request body together with its bytes, its decoding error, and the fields that it must not contain because
// the path sets them.
type Body struct {
	io.ReadCloser
	bound map[string]bool
	data  []byte
	err   error
}

// NewBody wraps r. The parameter bound lists the top-level fields that the request's path sets.
func NewBody(r io.ReadCloser, bound ...string) *Body {
	b := &Body{ReadCloser: r, bound: make(map[string]bool, len(bound))}
	for _, name := range bound {
		b.bound[name] = true
	}
	return b
}

// Err returns the fault that the decoder found, or nil.
func (b *Body) Err() error { return b.err }

func (b *Body) sealed() map[string]bool {
	if b == nil {
		return nil
	}
	return b.bound
}

func (b *Body) keep(data []byte, err error) {
	if b != nil {
		b.data, b.err = data, err
	}
}

// named reports whether v is a request that must contain a list.
func (c *Codec) named(v any) bool {
	m, ok := v.(proto.Message)
	return ok && len(c.planOf(m.ProtoReflect().Descriptor()).named) > 0
}

func (c *Codec) planOf(md protoreflect.MessageDescriptor) *plan {
	if p, ok := c.plans.Load(md); ok {
		return p.(*plan)
	}
	p, _ := c.plans.LoadOrStore(md, newPlan(md))
	return p.(*plan)
}

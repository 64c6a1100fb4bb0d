package fault

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
)

const (
	domain     = "signalbox"
	metaKind   = "kind"
	metaFields = "fields"
	metaOAuth  = "oauth"

	// The status is sent in one response header, which proxies limit to 8 to 16 KiB.
	maxText       = 2048
	maxFields     = 50
	maxFieldsJSON = 5000
)

// GRPCStatus returns the status that carries the error to another process. ErrorInfo holds kind, code and the
// exact fields. BadRequest repeats the fields for other gRPC clients. RetryInfo holds RetryAfter.
func (e *Error) GRPCStatus() *status.Status {
	st := status.New(e.grpcCode(), clean(e.Text(), maxText))
	info := &errdetails.ErrorInfo{
		Reason: clean(e.Code, maxText), Domain: domain,
		Metadata: map[string]string{metaKind: string(e.Kind)},
	}
	if e.OAuth != "" {
		info.Metadata[metaOAuth] = clean(e.OAuth, maxText)
	}
	details := []protoadapt.MessageV1{info}
	if fields, raw := sendable(e.Fields); len(fields) > 0 {
		info.Metadata[metaFields] = raw
		details = append(details, badRequest(fields))
	}
	if e.RetryAfter != 0 {
		details = append(details, &errdetails.RetryInfo{RetryDelay: durationpb.New(e.RetryAfter)})
	}
	if full, err := st.WithDetails(details...); err == nil {
		return full
	}
	return st
}

func (e *Error) grpcCode() codes.Code {
	switch e.Kind {
	case Invalid, Refused, Length:
		return codes.InvalidArgument
	case Range:
		return codes.OutOfRange
	case Unauthenticated:
		return codes.Unauthenticated
	case Forbidden:
		return codes.PermissionDenied
	case Absent:
		return codes.NotFound
	case Conflict:
		return codes.FailedPrecondition
	case Limited, TooLarge:
		return codes.ResourceExhausted
	case Unconfigured, MethodNotAllowed:
		return codes.Unimplemented
	case Dependency:
		return codes.Unavailable
	case Unavailable:
		switch e.Code {
		case CodeCanceled:
			return codes.Canceled
		case CodeDeadline:
			return codes.DeadlineExceeded
		}
		return codes.Unavailable
	case Internal:
		return codes.Internal
	default:
		return codes.Internal
	}
}

// From converts any error to an *Error. If err wraps an *Error or a gRPC status, the message is that of the wrapped
// error alone, because the text added by wrapping is meant for logs. From uses the code of a status that did not come
// from a Signalbox service, but not its text. All other errors become Internal.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	var carrier interface{ GRPCStatus() *status.Status }
	if errors.As(err, &carrier) {
		return fromStatus(carrier.GRPCStatus(), err)
	}
	if e := FromContext(err); e != nil {
		return e
	}
	return &Error{Kind: Internal, Msg: internalText, cause: err}
}

func fromStatus(st *status.Status, err error) *Error {
	e := &Error{}
	for _, d := range st.Details() {
		switch d := d.(type) {
		case *errdetails.ErrorInfo:
			if d.GetDomain() == domain {
				e.Kind, e.Code = Kind(d.GetMetadata()[metaKind]), d.GetReason()
				e.OAuth = d.GetMetadata()[metaOAuth]
				e.Fields = parseFields(d.GetMetadata()[metaFields])
			}
		case *errdetails.RetryInfo:
			e.RetryAfter = d.GetRetryDelay().AsDuration()
		}
	}
	if e.Kind == "" {
		return foreign(st.Code(), err)
	}
	e.Msg = st.Message()
	switch e.Code {
	case CodeCanceled:
		e.cause = context.Canceled
	case CodeDeadline:
		e.cause = context.DeadlineExceeded
	}
	return e
}

// foreign converts a status that grpc itself or another program created. It drops the text, which may contain host
// names.
func foreign(code codes.Code, err error) *Error {
	kind := Internal
	switch code {
	case codes.Canceled:
		return FromContext(context.Canceled).Wrap(fmt.Errorf("%w: %w", context.Canceled, err))
	case codes.DeadlineExceeded:
		return FromContext(context.DeadlineExceeded).Wrap(fmt.Errorf("%w: %w", context.DeadlineExceeded, err))
	case codes.InvalidArgument, codes.OutOfRange:
		kind = Refused
	case codes.Unauthenticated:
		kind = Unauthenticated
	case codes.PermissionDenied:
		kind = Forbidden
	case codes.NotFound:
		kind = Absent
	case codes.AlreadyExists, codes.Aborted, codes.FailedPrecondition:
		kind = Conflict
	case codes.ResourceExhausted:
		// Signalbox's own limits carry a kind, so this is grpc's limit on the message size.
		kind = TooLarge
	case codes.Unimplemented:
		kind = Unconfigured
	case codes.Unavailable:
		kind = Unavailable
	case codes.OK, codes.Unknown, codes.Internal, codes.DataLoss:
	}
	return &Error{Kind: kind, Msg: neutral(kind), cause: err}
}

type wireField struct {
	Loc   []any          `json:"loc"`
	Msg   string         `json:"msg"`
	Type  string         `json:"type"`
	Input any            `json:"input,omitempty"`
	Ctx   map[string]any `json:"ctx,omitempty"`
}

// sendable returns the fields that fit into the header, and their JSON.
func sendable(fields []Field) ([]Field, string) {
	fields = fields[:min(len(fields), maxFields)]
	for n := len(fields); n > 0; n /= 2 {
		wire := make([]wireField, n)
		for i, f := range fields[:n] {
			wire[i] = wireField{Loc: f.Loc, Msg: clean(f.Msg, maxText/8), Type: f.Type, Input: f.Input, Ctx: f.Ctx}
		}
		raw, err := json.Marshal(wire)
		if err == nil && len(raw) <= maxFieldsJSON {
			return fields[:n], string(raw)
		}
		if err != nil || n == 1 {
			return bare(fields[:n])
		}
	}
	return nil, ""
}

// bare returns only the first field, with its path, message and type. It leaves out values, because they cannot be
// encoded or are too long.
func bare(fields []Field) ([]Field, string) {
	f := fields[0]
	loc := make([]any, 0, len(f.Loc))
	for _, el := range f.Loc {
		if s, ok := el.(string); ok {
			el = clean(s, maxText/8)
		}
		loc = append(loc, el)
	}
	one := Field{Loc: loc[:min(len(loc), 8)], Msg: clean(f.Msg, maxText/8), Type: f.Type}
	raw, err := json.Marshal([]wireField{{Loc: one.Loc, Msg: one.Msg, Type: one.Type}})
	if err != nil {
		return nil, ""
	}
	return []Field{one}, string(raw)
}

func parseFields(raw string) []Field {
	if raw == "" {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader([]byte(raw)))
	dec.UseNumber()
	var wire []wireField
	if dec.Decode(&wire) != nil {
		return nil
	}
	fields := make([]Field, len(wire))
	for i, w := range wire {
		for j, el := range w.Loc {
			if n, ok := el.(json.Number); ok {
				if index, err := strconv.Atoi(n.String()); err == nil {
					w.Loc[j] = index
				}
			}
		}
		fields[i] = Field(w)
	}
	return fields
}

func badRequest(fields []Field) *errdetails.BadRequest {
	br := &errdetails.BadRequest{}
	for _, f := range fields {
		br.FieldViolations = append(br.FieldViolations, &errdetails.BadRequest_FieldViolation{
			Field: clean(Path(f.Loc), maxText/8), Description: clean(f.Msg, maxText/8), Reason: f.Type,
		})
	}
	return br
}

// clean makes s valid UTF-8 and truncates it at a character boundary to at most the given number of bytes.
func clean(s string, limit int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

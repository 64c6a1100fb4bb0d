package sse

import (
	"fmt"
	"strconv"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
)

// form describes how the response messages of one RPC become events.
type form struct {
	oneof   protoreflect.OneofDescriptor
	seq     protoreflect.FieldDescriptor
	payload protoreflect.FieldDescriptor
}

const eofName = "eof"

// event is one event before it is written in the SSE format.
type event struct {
	name string
	seq  int64
	data []byte
}

// last reports whether no event follows e.
func (e event) last() bool { return e.name == eofName }

// append appends the event to dst in the SSE format.
func (e event) append(dst []byte) []byte {
	dst = append(dst, "id: "...)
	dst = strconv.AppendInt(dst, e.seq, 10)
	dst = append(dst, "\nevent: "...)
	dst = append(dst, e.name...)
	dst = append(dst, "\ndata: "...)
	dst = append(dst, e.data...)
	return append(dst, "\n\n"...)
}

func formOf(md protoreflect.MessageDescriptor) (form, error) {
	if oneof := md.Oneofs().ByName("event"); oneof != nil {
		if seq := md.Fields().ByName("seq"); isSeq(seq) {
			return form{oneof: oneof, seq: seq}, nil
		}
		for i := range oneof.Fields().Len() {
			if m := oneof.Fields().Get(i).Message(); m == nil || !isSeq(m.Fields().ByName("seq")) {
				return form{}, fmt.Errorf("%s: the message or every event must have a field `int64 seq`", md.FullName())
			}
		}
		return form{oneof: oneof}, nil
	}
	f := form{seq: md.Fields().ByName("seq")}
	for i := range md.Fields().Len() {
		if fd := md.Fields().Get(i); fd.Message() != nil && !fd.IsList() && !fd.IsMap() && f.payload == nil {
			f.payload = fd
		}
	}
	if !isSeq(f.seq) || f.payload == nil || md.Fields().Len() != 2 {
		return form{}, fmt.Errorf("%s: a stream message must have a oneof `event`, or `int64 seq` and one message field", md.FullName())
	}
	return f, nil
}

func isSeq(fd protoreflect.FieldDescriptor) bool {
	return fd != nil && fd.Kind() == protoreflect.Int64Kind && !fd.IsList()
}

// event converts one message of the stream to an event.
func (f form) event(codec *restjson.Codec, m protoreflect.Message) (event, error) {
	payload, seq := f.payload, m
	if f.oneof != nil {
		if payload = m.WhichOneof(f.oneof); payload == nil {
			return event{}, fmt.Errorf("%s contains no event", m.Descriptor().FullName())
		}
		if f.seq == nil {
			seq = m.Get(payload).Message()
		}
	}
	data, err := codec.Marshal(m.Get(payload).Message().Interface())
	if err != nil {
		return event{}, err
	}
	number := seq.Get(seq.Descriptor().Fields().ByName("seq")).Int()
	return event{name: string(payload.Name()), seq: number, data: data}, nil
}

// cursor returns the id after which a request resumes its stream, or 0 if the stream starts from the beginning.
func cursor(in proto.Message) int64 {
	m := in.ProtoReflect()
	after := m.Descriptor().Fields().ByName("after")
	if !isSeq(after) {
		return 0
	}
	return max(0, m.Get(after).Int())
}

// closing returns the last event of a stream whose messages have no `eof` member.
func closing(seq int64) event {
	return event{name: eofName, seq: seq, data: []byte(`{"seq":` + strconv.FormatInt(seq, 10) + `}`)}
}

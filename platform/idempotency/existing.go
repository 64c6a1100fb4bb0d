package idempotency

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// existingField is a field number that no response message uses.
const existingField = 1000

func existing() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, existingField, protowire.VarintType), 1)
}

// MarkExisting marks the response of a create method, to report that the resource already existed. The mark is stored
// with the response, so a repeated request gets the same status as the first one.
func MarkExisting(answer proto.Message) { answer.ProtoReflect().SetUnknown(existing()) }

// TakeExistingMark removes the mark from a response and reports whether it was set.
func TakeExistingMark(answer proto.Message) bool {
	m := answer.ProtoReflect()
	marked := bytes.Equal(m.GetUnknown(), existing())
	m.SetUnknown(nil)
	return marked
}

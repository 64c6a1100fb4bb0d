package idem

import (
	"bytes"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// existingField is a field that no answer will ever have.
const existingField = 1000

func existing() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, existingField, protowire.VarintType), 1)
}

// SetExisting marks an answer of a creating method as one of what was there before, so that a repeat, which
// gets the kept answer, is told the same status as the first request.
func SetExisting(answer proto.Message) { answer.ProtoReflect().SetUnknown(existing()) }

// TakeExisting takes the mark off an answer and tells whether it was there.
func TakeExisting(answer proto.Message) bool {
	m := answer.ProtoReflect()
	marked := bytes.Equal(m.GetUnknown(), existing())
	m.SetUnknown(nil)
	return marked
}

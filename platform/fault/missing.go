package fault

import "slices"

// MarkMissing returns a copy that reports missing fields as "Field required". The function lacks must return true if
// the request does not contain the field with the given path; an error about the empty value of such a field is
// replaced. A protobuf message cannot distinguish an empty field from a missing one, and a message about an empty value
// would confuse the user. Each missing field is listed once.
func (e *Error) MarkMissing(lacks func(loc []any) bool) *Error {
	fields := make([]Field, 0, len(e.Fields))
	for _, field := range e.Fields {
		if breaksEmpty(field.Type) && lacks(field.Loc) {
			field = At(TypeMissing, "Field required", field.Loc...)
		}
		same := func(other Field) bool { return other.Type == field.Type && slices.Equal(other.Loc, field.Loc) }
		if field.Type != TypeMissing || !slices.ContainsFunc(fields, same) {
			fields = append(fields, field)
		}
	}
	with := *e
	with.Fields = fields
	return &with
}

// breaksEmpty reports whether an empty value can cause an error of this type.
func breaksEmpty(typ string) bool {
	switch typ {
	case TypeStringShort, TypeStringPattern, TypeEnum, TypeShort, TypeBytesShort, TypeURL, TypeUUID, TypeGreaterThan, TypeGreaterThanEqual:
		return true
	}
	return false
}

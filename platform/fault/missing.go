package fault

import "slices"

// MarkMissing returns a copy in which violations caused by an empty value become "Field required" if lacks reports that the
// request does not contain the field. A protobuf message cannot distinguish an empty field from a missing one, and
// the message about the empty value would be confusing. Each missing field is listed once.
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

// breaksEmpty reports whether an empty value can violate a rule of this type.
func breaksEmpty(typ string) bool {
	switch typ {
	case TypeStringShort, TypeStringPattern, TypeEnum, TypeShort, TypeBytesShort, TypeURL, TypeUUID, TypeGreaterThan, TypeGreaterThanEqual:
		return true
	}
	return false
}

package fault

import "slices"

// Missing tells of fields that lacks finds not given as such: what an empty value may not be is of no use to who gave
// none, and a message has no difference between the two.
func (e *Error) Missing(lacks func(loc []any) bool) *Error {
	told := make([]Field, 0, len(e.Fields))
	for _, field := range e.Fields {
		if breaksEmpty(field.Type) && lacks(field.Loc) {
			field = At(TypeMissing, "Field required", field.Loc...)
		}
		same := func(other Field) bool { return other.Type == field.Type && slices.Equal(other.Loc, field.Loc) }
		if field.Type != TypeMissing || !slices.ContainsFunc(told, same) {
			told = append(told, field)
		}
	}
	with := *e
	with.Fields = told
	return &with
}

// breaksEmpty says whether an empty value breaks a rule of this type by being empty.
func breaksEmpty(typ string) bool {
	switch typ {
	case TypeStringShort, TypeStringPattern, TypeEnum, TypeShort, TypeBytesShort, TypeURL, TypeUUID, TypeGreaterThan, TypeGreaterThanEqual:
		return true
	}
	return false
}

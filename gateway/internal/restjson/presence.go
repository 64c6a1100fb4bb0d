package restjson

// Lacks reports whether the body does not contain the member at the path loc although it contains the object around it.
// It returns false for a body that could not be decoded.
func (b *Body) Lacks(loc []any) bool {
	if b == nil || b.err != nil || len(loc) == 0 {
		return false
	}
	if len(b.data) == 0 { // an object without members
		_, named := loc[0].(string)
		return named && len(loc) == 1
	}
	r := &reader{scanner: scanner{data: b.data}}
	return r.lacks(loc)
}

// lacks implements Lacks. The body has been decoded before, so it is valid JSON.
func (r *reader) lacks(loc []any) bool {
	last, missing := len(loc) == 1, false
	switch step := loc[0].(type) {
	case string:
		if r.peek() != '{' {
			return false
		}
		missing = last
		_ = r.object(func(name string) error {
			switch {
			case name != step:
				return r.skip()
			case !last:
				missing = r.lacks(loc[1:])
			default:
				missing = false
			}
			return errEnough
		})
	case int:
		if r.peek() != '[' || last {
			return false
		}
		_ = r.array(func(i int) error {
			if i != step {
				return r.skip()
			}
			missing = r.lacks(loc[1:])
			return errEnough
		})
	}
	return missing
}

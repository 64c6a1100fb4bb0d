package restjson

import (
	"strings"

	"github.com/signalbox-dev/signalbox/gateway/internal/scalar"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// raw consumes any JSON value and returns it without white space. Repeated names, NUL in a string and numbers outside
// the range of a float64 are faults, because later readers (jsonb, RFC 8785, a browser) would reject them or read
// them differently.
func (r *reader) raw() ([]byte, error) {
	return r.keep(make([]byte, 0, 64))
}

func (r *reader) keep(dst []byte) ([]byte, error) {
	r.space()
	start := r.pos
	switch b := r.peek(); {
	case b == '{':
		return r.keepObject(dst)
	case b == '[':
		return r.keepArray(dst)
	case b == '"':
		s, err := r.text()
		if err != nil {
			return nil, err
		}
		if strings.IndexByte(s, 0) >= 0 {
			return nil, r.fault(fault.TypeValue, "String should not contain NUL")
		}
	case b == '-' || b >= '0' && b <= '9':
		text, err := r.number()
		if err != nil {
			return nil, err
		}
		if !scalar.Finite(text) {
			return nil, r.fault(fault.TypeFinite, "Input should be a finite number")
		}
	default:
		if err := r.literal(b); err != nil {
			return nil, err
		}
	}
	return append(dst, r.data[start:r.pos]...), nil
}

func (r *reader) keepObject(dst []byte) ([]byte, error) {
	dst = append(dst, '{')
	err := r.object(func(name string) error {
		if strings.IndexByte(name, 0) >= 0 {
			return r.wrong(fault.TypeValue, "Name should not contain NUL")
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		var err error
		dst, err = r.keepAfter(append(scalar.AppendString(dst, name), ':'))
		return err
	})
	return append(dst, '}'), err
}

func (r *reader) keepArray(dst []byte) ([]byte, error) {
	dst = append(dst, '[')
	err := r.array(func(i int) error {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		dst, err = r.keepAfter(dst)
		return err
	})
	return append(dst, ']'), err
}

// keepAfter reads one value and appends it to dst. If a fault was noted, it returns dst unchanged; the caller discards
// the result in that case.
func (r *reader) keepAfter(dst []byte) ([]byte, error) {
	kept, err := r.keep(dst)
	if err != nil || kept == nil {
		return dst, err
	}
	return kept, nil
}

func (r *reader) literal(first byte) error {
	switch first {
	case 't':
		return r.word("true")
	case 'f':
		return r.word("false")
	case 'n':
		return r.word("null")
	default:
		return r.fail("Expecting value")
	}
}

// skip consumes and discards any JSON value; it checks only the syntax.
func (r *reader) skip() error {
	switch b := r.peek(); {
	case b == '{':
		return r.object(func(string) error { return r.skip() })
	case b == '[':
		return r.array(func(int) error { return r.skip() })
	case b == '"':
		_, err := r.text()
		return err
	case b == '-' || b >= '0' && b <= '9':
		_, err := r.number()
		return err
	default:
		return r.literal(b)
	}
}

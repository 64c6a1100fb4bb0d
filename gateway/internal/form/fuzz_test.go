package form

import (
	"net/url"
	"testing"
)

// FuzzFields: whatever is taken, another reader of forms takes for the same, and nothing twice.
func FuzzFields(f *testing.F) {
	for _, body := range []string{"", "a=b", "a=b&a=c", "%61=b&a=c", "a=b;c=d", "a=%ff", "a==", "+=+", "a&b&=", "a=%26"} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		form, p := fields(body)
		if p != nil {
			return
		}
		other, err := url.ParseQuery(body)
		if err != nil {
			t.Fatalf("%q is taken, and is no form: %v", body, err)
		}
		for name, values := range other {
			if len(values) != 1 || form[name] != values[0] {
				t.Fatalf("%q: %q is %q here and %q there", body, name, form[name], values)
			}
		}
		for name := range form {
			if !other.Has(name) {
				t.Fatalf("%q: %q is nowhere else", body, name)
			}
		}
	})
}

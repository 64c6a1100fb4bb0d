package oauthform

import (
	"net/url"
	"testing"
)

// FuzzFields checks that net/url reads every accepted form as the same fields, each given once.
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
			t.Fatalf("%q is accepted, but net/url rejects it: %v", body, err)
		}
		for name, values := range other {
			if len(values) != 1 || form[name] != values[0] {
				t.Fatalf("%q: field %q is %q here and %q in net/url", body, name, form[name], values)
			}
		}
		for name := range form {
			if !other.Has(name) {
				t.Fatalf("%q: net/url does not read field %q", body, name)
			}
		}
	})
}

package oauthform

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"
)

const (
	// MaxBody is the maximum size of a form, in bytes.
	MaxBody = 16 << 10
	// MaxFields is the maximum number of fields in a form.
	MaxFields = 32

	contentType = "application/x-www-form-urlencoded"
)

// read returns the form of a request. Each field may occur at most once (RFC 6749 3.1 and 3.2). No field may occur in
// the query, because queries end up in logs and browser histories. A field without a value counts as absent.
func read(w http.ResponseWriter, r *http.Request) (map[string]string, *problem) {
	if p := readable(r); p != nil {
		return nil, p
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, tooLargeForm()
	case err != nil:
		return nil, invalid("the form could not be read completely")
	}
	return fields(string(body))
}

// readable runs the checks that do not need the body.
func readable(r *http.Request) *problem {
	if r.URL.RawQuery != "" || r.URL.ForceQuery {
		return invalid("parameters belong in the body, not in the query")
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return unsupported("the form must not be compressed; send it without Content-Encoding")
	}
	given := r.Header.Values("Content-Type")
	if len(given) != 1 {
		return unsupported("the body must be " + contentType)
	}
	typ, params, err := mime.ParseMediaType(given[0])
	charset, named := params["charset"]
	if err != nil || typ != contentType || named && !strings.EqualFold(charset, "utf-8") {
		return unsupported("the body must be " + contentType)
	}
	if r.ContentLength > MaxBody {
		return tooLargeForm()
	}
	return nil
}

func fields(body string) (map[string]string, *problem) {
	form, seen := map[string]string{}, map[string]bool{}
	if body == "" {
		return form, nil
	}
	if strings.Count(body, "&") >= MaxFields {
		return nil, invalid("the form has too many fields")
	}
	for pair := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, fine := decoded(name)
		value, also := decoded(value)
		switch {
		case !fine || !also || name == "":
			return nil, invalid("the form is not valid application/x-www-form-urlencoded text")
		case seen[name]:
			return nil, invalid("a field of the form occurs more than once")
		}
		seen[name] = true
		if value != "" {
			form[name] = value
		}
	}
	return form, nil
}

// decoded removes the URL encoding of s. It refuses characters that no parameter of the RFCs contains, and semicolons,
// which other parsers treat like ampersands.
func decoded(s string) (string, bool) {
	if strings.Contains(s, ";") {
		return "", false
	}
	out, err := url.QueryUnescape(s)
	if err != nil || !utf8.ValidString(out) || strings.ContainsFunc(out, control) {
		return "", false
	}
	return out, true
}

func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }

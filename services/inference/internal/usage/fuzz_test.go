package usage

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"testing"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// FuzzScanner compares the scanner with encoding/json: of a valid document, both must find the same, however the document
// is split. Of any other input the result must not depend on the split.
func FuzzScanner(f *testing.F) {
	for _, seed := range []string{
		`{"model":"m","choices":[{"finish_reason":"stop"}],"usage":{"prompt_tokens":7,"completion_tokens":3}}`,
		`{"message":{"usage":{"input_tokens":1,"cache_read_input_tokens":2}},"delta":{"stop_reason":"x"},"type":"error"}`,
		`{"response":{"error":{},"model":"a\u00e9\"\\"},"meta":{"tokens":{"input_tokens":1},"billed_units":{"output_tokens":2}}}`,
		`{"type":"response\u002efailed"}`, `{"error":""}`, `{"error":"x"}`, `{"error":true}`, `{"error":null}`, `{"response":{"error":[]}}`, `{"type":""}`,
		`{"a":[[{"b":"]}"}],-1.5e3,true,null],"usage":{"tokens":{},"total_tokens":5}}`, `{"":{}} {"model":""}`, "{\"model\":\"\xff\"}", `{"error":"x"`,
	} {
		f.Add([]byte(seed), uint8(3))
	}
	f.Fuzz(func(t *testing.T, body []byte, size uint8) {
		whole, split := scanned(body, max(1, len(body))), scanned(body, int(size)+1)
		if text(whole) != text(split) {
			t.Fatalf("%q: found %s in one part and %s in parts of %d bytes", body, text(whole), text(split), int(size)+1)
		}
		if !json.Valid(body) || bytes.TrimLeft(body, " \r\n\t")[0] != '{' {
			return
		}
		if reference := decoded(t, body); text(whole) != text(reference) {
			t.Fatalf("%q: found %s, but encoding/json finds %s", body, text(whole), text(reference))
		}
	})
}

// scanned returns what a JSON body contains, and whether it reports an error. It reads the body in parts of the given size.
func scanned(body []byte, size int) Found {
	r := newResponse(jsonHeader())
	for part := range parts(string(body), size) {
		r.Take([]byte(part))
	}
	found := r.Close()
	found.Failed = r.events.json.found.failed
	return found
}

// FuzzBodies checks that no body of any kind breaks a reader.
func FuzzBodies(f *testing.F) {
	for _, encoding := range []string{"", "gzip", "deflate", "br", "zstd"} {
		for _, kind := range []string{"text/event-stream", "application/json", "multipart/form-data; boundary=b"} {
			body := "data: {\"model\":\"m\",\"error\":{}}\r\n\r\n--b\r\nContent-Disposition: form-data; name=model\r\n\r\nm\r\n--b--\r\n"
			f.Add(packed(encoding, body), encoding, kind, uint8(5))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte, encoding, kind string, size uint8) {
		h := httprelay.Header{{Name: "Content-Type", Value: kind}, {Name: "Content-Encoding", Value: encoding}}
		first := read(h, string(body), max(1, len(body)))
		if second := read(h, string(body), int(size)+1); encoding == "" && text(first) != text(second) {
			t.Fatalf("%q: found %s in one part and %s in parts of %d bytes", body, text(first), text(second), int(size)+1)
		}
		results := map[Wanted]bool{}
		for _, n := range []int{max(1, len(body)), int(size) + 1} {
			r := newRequest(h)
			for part := range parts(string(body), n) {
				r.Take([]byte(part))
			}
			results[r.Close()] = true
		}
		if encoding == "" && len(results) != 1 {
			t.Fatalf("%q: found %v", body, results)
		}
	})
}

// text returns a result in a form that can be compared.
func text(f Found) string {
	// The beginning of a text is compared, with each byte replaced that is not UTF-8, as encoding/json does.
	for _, s := range []*string{&f.Model, &f.Finish} {
		runes := []rune(*s)
		*s = string(runes[:min(len(runes), 100)])
	}
	raw, _ := json.Marshal(f) // Marshal cannot fail
	return string(raw)
}

// decoded finds with encoding/json what the scanner should find in a valid document.
func decoded(t *testing.T, body []byte) Found {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var f found
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	decodeObject(t, d, top, &f)
	if _, err := d.Token(); err != io.EOF {
		t.Fatal(err)
	}
	found := f.result()
	found.Failed = f.failed
	return found
}

// decodeObject reads the members of an object at the given place up to its end.
func decodeObject(t *testing.T, d *json.Decoder, at place, f *found) {
	t.Helper()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			t.Fatal(err)
		}
		decodeValue(t, d, at.member([]byte(key.(string))), f)
	}
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
}

func decodeValue(t *testing.T, d *json.Decoder, at place, f *found) {
	t.Helper()
	token, err := d.Token()
	if err != nil {
		t.Fatal(err)
	}
	if at.isCount() && token != nil {
		f.counts.mark(at)
	}
	switch v := token.(type) {
	case bool:
		f.failed = f.failed || at == failure && v
	case json.Delim:
		f.failed = f.failed || at == failure
		if v == '{' {
			if !at.isContainer() || at.isList() {
				at = ignored
			}
			decodeObject(t, d, at, f)
			return
		}
		element := ignored
		if at.isList() {
			element = choice
		}
		for d.More() {
			decodeValue(t, d, element, f)
		}
		if _, err := d.Token(); err != nil {
			t.Fatal(err)
		}
	case string:
		switch {
		case at == model && v != "":
			f.model = v
		case at == finish && v != "":
			f.finish = v
		case at == failure && v != "", at == kind && (v == "error" || v == "response.failed"):
			f.failed = true
		}
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); at.isCount() && err == nil && n >= 0 && n <= math.MaxInt32 && v.String() != "-0" {
			f.counts.set(at, n)
		}
	}
}

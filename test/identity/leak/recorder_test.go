package leak

import (
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// recorder is a transport that records all calls and all credentials in them.
type recorder struct {
	credentialStore *credentialStore
	calls           *calls
	next            http.RoundTripper
}

// newRecorder returns a recorder that sends requests from the address 127.0.2.N. The parameter last is N. Different
// recorders need different addresses, because the number of logins per address is limited.
func newRecorder(h *credentialStore, c *calls, last byte) *recorder {
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 2, last)}}
	return &recorder{credentialStore: h, calls: c, next: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
}

// calls contains the calls so far.
type calls struct {
	mu   sync.Mutex
	list []call
}

// call is a request that received a response.
type call struct {
	method, path string
	status       int
	requestID    string
	subject      string // the subject of the bearer token
}

// RoundTrip implements http.RoundTripper.
func (k *recorder) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil && strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		r.Body = io.NopCloser(bytes.NewReader(raw))
		k.body(raw)
	}
	k.headers(r.Header)
	k.address(r.URL)
	resp, err := k.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	for _, c := range resp.Cookies() {
		k.credentialStore.add("cookie "+c.Name, c.Value)
	}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "application/json") {
		raw, err := io.ReadAll(resp.Body)
		if err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(raw))
		k.body(raw)
	}
	k.calls.mu.Lock()
	defer k.calls.mu.Unlock()
	k.calls.list = append(k.calls.list, call{
		method: r.Method, path: r.URL.Path, status: resp.StatusCode, requestID: resp.Header.Get("X-Request-Id"),
		subject: subjectOf(strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")),
	})
	return resp, nil
}

func (k *recorder) headers(h http.Header) {
	if token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok {
		k.credentialStore.add("bearer", token)
		// The signature alone must not leak either, so record it separately.
		if at := strings.LastIndexByte(token, '.'); at > 0 {
			k.credentialStore.add("signature of a bearer", token[at+1:])
		}
	}
	k.credentialStore.add("service token", h.Get("X-Service-Token"))
}

// address records the signature of a signed URL.
func (k *recorder) address(u *url.URL) {
	if u != nil {
		k.credentialStore.add("signature of a URL", u.Query().Get("signature"))
	}
}

// body records the JSON members that contain a credential, according to their names.
func (k *recorder) body(raw []byte) {
	var value any
	if json.Unmarshal(raw, &value) == nil {
		k.value("", value)
	}
}

func (k *recorder) value(name string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			k.value(name, inner)
		}
	case []any:
		for _, inner := range v {
			k.value(name, inner)
		}
	case string:
		if slices.Contains([]string{"token", "access_token", "refresh_token", "device_code", "password", "current_password", "new_password", "client_secret"}, name) {
			k.credentialStore.add("JSON's "+name, v)
		}
		if u, err := url.Parse(v); err == nil && strings.Contains(v, "signature=") {
			k.address(u)
		}
	}
}

// all returns the calls so far.
func (c *calls) all() []call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.list)
}

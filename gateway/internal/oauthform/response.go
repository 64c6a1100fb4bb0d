package oauthform

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// problem is an error response as RFC 6749 5.2 defines it.
type problem struct {
	status int
	word   string // the RFC's error code
	text   string
	header http.Header
}

func invalid(text string) *problem {
	return &problem{status: http.StatusBadRequest, word: "invalid_request", text: text}
}

func unsupported(text string) *problem {
	return &problem{status: http.StatusUnsupportedMediaType, word: "invalid_request", text: text}
}

func tooLargeForm() *problem {
	return &problem{status: http.StatusRequestEntityTooLarge, word: "invalid_request", text: fmt.Sprintf("the form is larger than %d bytes", MaxBody)}
}

// failed converts the error of a call to auth into a problem with the RFC's error code.
func failed(err error) *problem {
	f := fault.From(err)
	rendered := fault.Render(f, "")
	p := &problem{status: rendered.Status, word: "invalid_request", text: f.Text(), header: http.Header{}}
	switch f.Kind {
	case fault.Unauthenticated:
		p.word = "invalid_client"
	case fault.Forbidden:
		p.word = "access_denied"
	case fault.Limited, fault.Unavailable, fault.Dependency:
		p.word = "temporarily_unavailable"
	case fault.Internal, fault.Unconfigured:
		p.word = "server_error"
	default:
	}
	for _, name := range []string{"Retry-After", "WWW-Authenticate"} {
		if value := rendered.Header.Get(name); value != "" {
			p.header.Set(name, value)
		}
	}
	return p
}

type errorBody struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Detail      string `json:"detail"`
}

// refuse writes p as the response.
func refuse(w http.ResponseWriter, p *problem) {
	for name := range p.header {
		w.Header().Set(name, p.header.Get(name))
	}
	body, err := json.Marshal(errorBody{Error: p.word, Description: spelled(p.text), Detail: p.text})
	if err != nil {
		body = []byte(`{"error":"server_error"}`) // cannot happen: three strings always marshal
	}
	write(w, p.status, body)
}

// spelled replaces the characters that error_description must not contain (RFC 6749 5.2).
func spelled(text string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '"' || r == '\\':
			return '\''
		case r < ' ' || r > '~':
			return '?'
		}
		return r
	}, text)
}

// give writes auth's response. If the response is invalid, it writes nothing and returns an error.
func give(w http.ResponseWriter, out *authpeerv1.OAuthAnswer) error {
	status, body := int(out.GetStatus()), out.GetBody()
	if status < http.StatusOK || status > 599 || status >= 300 && status < 400 {
		return fmt.Errorf("auth returned the invalid status %d", status)
	}
	if status >= http.StatusBadRequest {
		var err error
		if body, err = detailed(body); err != nil {
			return err
		}
	}
	if len(body) > 0 && !json.Valid(body) {
		return fmt.Errorf("auth returned %d bytes that are not JSON", len(body))
	}
	if seconds := out.GetRetryAfterSeconds(); seconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(seconds)))
	}
	write(w, status, body)
	return nil
}

// detailed adds the member `detail` to auth's error, because clients of the rest of the API expect it.
func detailed(body []byte) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(body, &members); err != nil || members["error"] == nil {
		return nil, fmt.Errorf("auth returned an error body of %d bytes without `error`", len(body))
	}
	if members["detail"] == nil {
		members["detail"] = members["error"]
		if text := members["error_description"]; text != nil {
			members["detail"] = text
		}
	}
	out, err := json.Marshal(members)
	if err != nil {
		return nil, fmt.Errorf("encode auth's error: %w", err)
	}
	return out, nil
}

func write(w http.ResponseWriter, status int, body []byte) {
	if len(body) > 0 {
		w.Header().Set("Content-Type", "application/json")
	}
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) //nolint:gosec // JSON of auth or of this package; the client may be gone
}

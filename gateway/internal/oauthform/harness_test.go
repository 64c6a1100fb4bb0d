package oauthform_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"github.com/signalbox-dev/signalbox/gateway/internal/oauthform"
	authpeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/auth/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// auth is a fake that records its requests and returns fixed results.
type auth struct {
	requests []proto.Message
	response *authpeerv1.OAuthAnswer
	body     string
	err      error
}

func (a *auth) note(in proto.Message) (*authpeerv1.OAuthAnswer, error) {
	a.requests = append(a.requests, in)
	return a.response, a.err
}

func (a *auth) IssueToken(_ context.Context, in *authpeerv1.IssueTokenRequest, _ ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error) {
	return a.note(in)
}

func (a *auth) RevokeToken(_ context.Context, in *authpeerv1.RevokeTokenRequest, _ ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error) {
	return a.note(in)
}

func (a *auth) AuthorizeDevice(_ context.Context, in *authpeerv1.AuthorizeDeviceRequest, _ ...grpc.CallOption) (*authpeerv1.OAuthAnswer, error) {
	return a.note(in)
}

func (a *auth) GetMetadata(_ context.Context, in *authpeerv1.GetMetadataRequest, _ ...grpc.CallOption) (*authpeerv1.Metadata, error) {
	a.requests = append(a.requests, in)
	return &authpeerv1.Metadata{Body: []byte(a.body)}, a.err
}

// newFakeAuth returns a fake auth whose calls all succeed. The calls for forms return an empty JSON object;
// GetMetadata returns a document that contains only the issuer.
func newFakeAuth() *auth {
	return &auth{response: &authpeerv1.OAuthAnswer{Status: 200, Body: []byte(`{}`)}, body: `{"issuer":"https://box.example"}`}
}

const client = "203.0.113.9"

// post sends a form. The headers are pairs of name and value; an empty value removes the header.
func (a *auth) post(path, body string, headers ...string) *httptest.ResponseRecorder {
	return a.send(httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)), headers...)
}

func (a *auth) send(req *http.Request, headers ...string) *httptest.ResponseRecorder {
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		if req.Header.Add(headers[i], headers[i+1]); headers[i] == "Content-Type" {
			req.Header.Set(headers[i], headers[i+1])
		}
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	w := httptest.NewRecorder()
	served := &oauthform.OAuth{Auth: a, Client: func(*http.Request) string { return client }, Log: slog.New(slog.DiscardHandler)}
	served.Foreign = func(r *http.Request) *fault.Error {
		if r.Header.Get("Origin") != "" {
			return fault.New(fault.Forbidden, "cross_origin", "cross-origin requests are not allowed")
		}
		return nil
	}
	served.ServeHTTP(w, req)
	return w
}

// problem requires an error response as RFC 6749 defines it, plus `detail`. It returns its code and description.
func problem(t *testing.T, w *httptest.ResponseRecorder) (word, text string) {
	t.Helper()
	require.Equal(t, "application/json", w.Header().Get("Content-Type"), w.Body)
	var body map[string]string
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &body), w.Body)
	require.Len(t, body, 3, w.Body)
	require.NotEmpty(t, body["detail"])
	require.Regexp(t, `^[\x20-\x21\x23-\x5B\x5D-\x7E]+$`, body["error_description"], "only characters that the RFC allows")
	return body["error"], body["error_description"]
}

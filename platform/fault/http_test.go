package fault_test

import (
	"encoding/json"
	"errors"
	"math"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestRender_detail(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		err  error
		code int
		body string
	}{
		{"sentence", fault.New(fault.Conflict, "", "the job has ended"), 409, `{"detail":"the job has ended"}`},
		{"sentence and code", fault.New(fault.Forbidden, "quota", "quota: full"), 403, `{"detail":"quota: full","code":"quota"}`},
		{
			"list", fault.InvalidFields(fault.Field{
				Loc: []any{"body", "name"}, Msg: "too short", Type: fault.TypeStringShort, Ctx: map[string]any{"min_length": 3},
			}), 422,
			`{"detail":[{"type":"string_too_short","loc":["body","name"],"msg":"too short","ctx":{"min_length":3}}]}`,
		},
		{
			"list with code", fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", "body", "pools", 0)).WithCode("schema"), 422,
			`{"detail":[{"type":"missing","loc":["body","pools",0],"msg":"Field required"}],"code":"schema"}`,
		},
		{"no path", fault.InvalidFields(fault.At(fault.TypeJSON, "not JSON")), 422, `{"detail":[{"type":"json_invalid","loc":[],"msg":"not JSON"}]}`},
		{"invalid without fields", fault.New(fault.Invalid, "", "bad form"), 422, `{"detail":"bad form"}`},
		{"unknown error", errors.New("pq: secret"), 500, `{"detail":"Internal Server Error"}`},
		{"no error", nil, 500, `{"detail":"Internal Server Error"}`},
		{"router", fault.New(fault.Absent, "", "Not Found"), 404, `{"detail":"Not Found"}`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := fault.Render(c.err, "req_1")
			require.Equal(t, c.code, got.Status)
			require.JSONEq(t, c.body, string(got.Body))
			require.Equal(t, "req_1", got.Header.Get("X-Request-Id"))
			require.Equal(t, "application/json", got.Header.Get("Content-Type"))
		})
	}
}

func TestRender_headers(t *testing.T) {
	t.Parallel()
	for _, kind := range fault.Kinds() {
		h := fault.Render(fault.New(kind, "", "x"), "").Header
		require.Equal(t, kind == fault.Unauthenticated, h.Get("Www-Authenticate") == "Bearer", kind)
		require.Equal(t, kind == fault.Limited || kind == fault.Unavailable, h.Get("Retry-After") != "", kind)
		require.Empty(t, h.Values("X-Request-Id"))
	}
}

func TestRender_retryAfter(t *testing.T) {
	t.Parallel()
	cases := map[time.Duration]string{
		0: "1", time.Millisecond: "1", time.Second: "1", 1001 * time.Millisecond: "2", time.Minute: "60", -1: "",
	}
	for d, want := range cases {
		e := fault.New(fault.Unavailable, "", "draining").WithRetryAfter(d)
		require.Equal(t, want, fault.Render(e, "").Header.Get("Retry-After"), d)
	}
}

func TestRenderOpenAI(t *testing.T) {
	t.Parallel()
	got := fault.RenderOpenAI(fault.New(fault.Unauthenticated, "token_revoked", "the token is revoked"), "req_2")
	require.Equal(t, 401, got.Status)
	require.JSONEq(t, `{"detail":"the token is revoked","code":"token_revoked",
		"error":{"message":"the token is revoked","type":"authentication_error","code":"token_revoked","param":null}}`, string(got.Body))

	got = fault.RenderOpenAI(fault.InvalidFields(fault.At(fault.TypeMissing, "Field required", "body", "model")), "")
	require.JSONEq(t, `{"detail":[{"type":"missing","loc":["body","model"],"msg":"Field required"}],
		"error":{"message":"Field required","type":"invalid_request_error","code":null,"param":"body.model"}}`, string(got.Body))
}

func TestRender_oauth(t *testing.T) {
	t.Parallel()
	e := fault.New(fault.Refused, "", "authorization_pending").WithOAuth("authorization_pending")
	got := fault.Render(fault.From(overWire(t, e)), "")
	require.Equal(t, 400, got.Status)
	require.Equal(t, `{"detail":"authorization_pending","error":"authorization_pending"}`, string(got.Body))
	got = fault.RenderOpenAI(e, "")
	require.Contains(t, string(got.Body), `"error":{"message":"authorization_pending"`, "OpenAI's error object replaces the OAuth code")
	require.NotContains(t, string(fault.Render(fault.New(fault.Refused, "", "x"), "").Body), "error")
}

func TestRenderOpenAI_types(t *testing.T) {
	t.Parallel()
	types := map[int]string{
		401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error",
		500: "server_error", 501: "server_error", 502: "server_error", 503: "service_unavailable",
		400: "invalid_request_error", 405: "invalid_request_error", 409: "invalid_request_error",
		411: "invalid_request_error", 413: "invalid_request_error", 416: "invalid_request_error", 422: "invalid_request_error",
	}
	for _, kind := range fault.Kinds() {
		var doc struct{ Error struct{ Type string } }
		require.NoError(t, json.Unmarshal(fault.RenderOpenAI(fault.New(kind, "", "x"), "").Body, &doc))
		want, known := types[fault.HTTPStatus(kind)]
		require.True(t, known, kind)
		require.Equal(t, want, doc.Error.Type, kind)
	}
}

func TestRender_inputNotJSON(t *testing.T) {
	t.Parallel()
	e := fault.InvalidFields(fault.Field{Loc: []any{"body", "lr"}, Msg: "not finite", Type: fault.TypeFinite, Input: math.Inf(1)})
	got := fault.Render(e, "")
	require.Equal(t, 422, got.Status)
	require.JSONEq(t, `{"detail":[{"type":"finite_number","loc":["body","lr"],"msg":"not finite"}]}`, string(got.Body))
}

func TestWrite(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	fault.Write(w, fault.New(fault.Length, "", "Content-Length is required"), "req_3")
	require.Equal(t, 411, w.Code)
	require.Equal(t, "req_3", w.Header().Get("X-Request-Id"))
	require.JSONEq(t, `{"detail":"Content-Length is required"}`, w.Body.String())

	w = httptest.NewRecorder()
	fault.WriteOpenAI(w, fault.New(fault.Unavailable, "suspended", "suspended").WithRetryAfter(-1), "req_4")
	require.Equal(t, 503, w.Code)
	require.Empty(t, w.Header().Get("Retry-After"))
	require.Contains(t, w.Body.String(), `"error":`)
}

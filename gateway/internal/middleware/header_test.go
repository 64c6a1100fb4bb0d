package middleware_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// effectHeaders maps the headers that change the effect of a request to their metadata keys.
func effectHeaders() map[string]string {
	return map[string]string{
		"Idempotency-Key": "idempotency-key", "X-Service-Confirm": "x-service-confirm", "If-Match": "if-match", "If-None-Match": "if-none-match",
	}
}

func TestMetadataRejectsInvalidHeaders(t *testing.T) {
	t.Parallel()
	for name, key := range effectHeaders() {
		for _, good := range []string{"x", strings.Repeat("x", 255), " !~", `"etag"`} {
			md, f := middleware.Metadata(http.Header{name: {good}})
			require.Nil(t, f, "%s: %q", name, good)
			require.Equal(t, metadata.MD{key: {good}}, md)
		}
		for _, bad := range [][]string{{""}, {strings.Repeat("x", 256)}, {"a\tb"}, {"a\x00"}, {"é"}, {"a\x7f"}, {"\xff"}} {
			_, f := middleware.Metadata(http.Header{name: bad})
			require.NotNil(t, f, "%s: %q", name, bad)
			require.Equal(t, []any{"header", strings.ToLower(name)}, f.Fields[0].Loc)
			require.Equal(t, fault.TypeValue, f.Fields[0].Type)
			require.Nil(t, f.Fields[0].Input)
		}
		_, f := middleware.Metadata(http.Header{name: {"a", "a"}})
		require.NotNil(t, f, "a repeated header is ambiguous")
		require.Equal(t, "duplicate_key", f.Fields[0].Type)
	}
	_, f := middleware.Metadata(http.Header{"Idempotency-Key": {""}, "If-Match": {"a", "b"}})
	require.Len(t, f.Fields, 2, "every fault is reported")
}

func TestMetadataDropsOtherHeaders(t *testing.T) {
	t.Parallel()
	in := http.Header{}
	for _, name := range []string{
		"Authorization", "Cookie", "X-Service-Caller", "X-Service-Refresh", "X-Service-Token", "X-Service-Status", "Grpc-Metadata-X-User-Id",
		"Grpc-Metadata-Authorization", "Grpc-Timeout", "X-Forwarded-For", "X-Request-Id", "Traceparent", "X-Service-User-Agent", "idempotency-key",
		"X_service_confirm", "Host", "Te", "Forwarded", "X-User", "Idempotency_key", "Idempotency-Key ",
	} {
		in[name] = []string{"evil"}
	}
	md, f := middleware.Metadata(in)
	require.Nil(t, f)
	require.Empty(t, md)
}

func TestMetadataShortensUserAgent(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		"curl/8": "curl/8", strings.Repeat("x", 256): strings.Repeat("x", 256), strings.Repeat("x", 5000): strings.Repeat("x", 256),
		"a\r\nb\x00c": "a??b?c", "é": "?", "a\xff": "a?",
	} {
		md, f := middleware.Metadata(http.Header{"User-Agent": {given}})
		require.Nil(t, f)
		require.Equal(t, []string{want}, md.Get("x-service-user-agent"), "%q", given)
	}
}

func TestInnerKeepsOnlyCheckedParts(t *testing.T) {
	t.Parallel()
	in := httptest.NewRequest(http.MethodPost, "http://evil.example/api/jobs/a%20b?limit=1&evil=2#f", strings.NewReader("unchecked"))
	for _, name := range []string{"Authorization", "Cookie", "X-Http-Method-Override", "Grpc-Metadata-X", "X-Forwarded-For", "Content-Type"} {
		in.Header.Set(name, "application/x-www-form-urlencoded")
	}
	got := middleware.Inner(in, url.Values{"limit": {"1"}}, nil)
	require.Equal(t, http.Header{"Content-Type": {"application/json"}}, got.Header, "the copy has no form type, method override or client address")
	require.Equal(t, []string{"", "", "limit=1", "/api/jobs/a b"}, []string{got.Host, got.RemoteAddr, got.URL.RawQuery, got.URL.Path})
	require.Empty(t, got.URL.Host)
	body, err := io.ReadAll(got.Body)
	require.NoError(t, err)
	require.Empty(t, body)
	require.Equal(t, "application/x-www-form-urlencoded", in.Header.Get("Cookie"), "the original request is unchanged")
}

func TestBodyRequiresPlainJSON(t *testing.T) {
	t.Parallel()
	m := &router.Match{Route: &router.Route{Route: route.Route{Body: "*"}}}
	for name, tc := range map[string]struct {
		header http.Header
		where  string // header of the fault; empty if the body is accepted
	}{
		"no type":              {http.Header{}, ""},
		"JSON":                 {http.Header{"Content-Type": {"application/json"}}, ""},
		"with its charset":     {http.Header{"Content-Type": {"Application/JSON; charset=UTF-8"}}, ""},
		"with a parameter":     {http.Header{"Content-Type": {"application/json; profile=x"}}, ""},
		"another charset":      {http.Header{"Content-Type": {"application/json; charset=latin-1"}}, "content-type"},
		"a form":               {http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, "content-type"},
		"multipart":            {http.Header{"Content-Type": {"multipart/form-data; boundary=x"}}, "content-type"},
		"text":                 {http.Header{"Content-Type": {"text/plain"}}, "content-type"},
		"JSON of another kind": {http.Header{"Content-Type": {"application/problem+json"}}, "content-type"},
		"empty type":           {http.Header{"Content-Type": {""}}, "content-type"},
		"two types":            {http.Header{"Content-Type": {"application/json", "application/json"}}, "content-type"},
		"identity":             {http.Header{"Content-Encoding": {"Identity"}}, ""},
		"compressed":           {http.Header{"Content-Encoding": {"gzip"}}, "content-encoding"},
		"compressed twice":     {http.Header{"Content-Encoding": {"gzip, identity"}}, "content-encoding"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("{}"))
		r.Header = tc.header
		body, f := middleware.Body(httptest.NewRecorder(), r, m, restjson.New())
		if tc.where == "" {
			require.Nil(t, f, name)
			require.NotNil(t, body, name)
			continue
		}
		require.NotNil(t, f, name)
		require.Equal(t, fault.Invalid, f.Kind, name)
		require.Equal(t, []any{"header", tc.where}, f.Fields[0].Loc, name)
	}
}

func TestBodySizeIsBounded(t *testing.T) {
	t.Parallel()
	codec, m := restjson.New(), &router.Match{Route: &router.Route{Route: route.Route{Body: "*"}}}
	for name, tc := range map[string]struct {
		size   int
		length int64 // the announced Content-Length
		fits   bool
	}{
		"the limit":            {middleware.MaxBody, middleware.MaxBody, true},
		"one more":             {middleware.MaxBody + 1, middleware.MaxBody + 1, false},
		"the limit, in chunks": {middleware.MaxBody, -1, true},
		"one more, in chunks":  {middleware.MaxBody + 1, -1, false},
		"wrong length":         {middleware.MaxBody + 1, 2, false},
		"huge length":          {2, 1 << 50, false},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`""`+strings.Repeat(" ", tc.size-2)))
		r.ContentLength = tc.length
		body, f := middleware.Body(httptest.NewRecorder(), r, m, codec)
		if f == nil {
			var s []byte
			if err := codec.NewDecoder(body).Decode(&s); err != nil {
				f = middleware.WithLocations(&middleware.Call{Match: m, Body: body}, err)
			}
		}
		if tc.fits {
			require.Nil(t, f, name)
			continue
		}
		require.NotNil(t, f, name)
		require.Equal(t, fault.TooLarge, f.Kind, name)
		require.Contains(t, f.Msg, "4194304", name)
	}
}

func TestBodyReadErrorCodes(t *testing.T) {
	t.Parallel()
	codec, m := restjson.New(), &router.Match{Route: &router.Route{Route: route.Route{Body: "*"}}}
	for code, cause := range map[string]error{
		"body_timeout": fmt.Errorf("read: %w", os.ErrDeadlineExceeded), "body_cut": io.ErrUnexpectedEOF, "body_unreadable": errors.New("connection reset"),
	} {
		r := httptest.NewRequest(http.MethodPost, "/", iotest.ErrReader(cause))
		body, f := middleware.Body(httptest.NewRecorder(), r, m, codec)
		require.Nil(t, f)
		var raw []byte
		f = middleware.WithLocations(&middleware.Call{Match: m, Body: body}, codec.NewDecoder(body).Decode(&raw))
		require.Equal(t, []any{fault.Refused, code}, []any{f.Kind, f.Code}, "%v", cause)
	}
}

func TestBodylessRouteAcceptsOnlyEmptyObject(t *testing.T) {
	t.Parallel()
	m := &router.Match{Route: &router.Route{}}
	for text, typ := range map[string]string{
		"{}": "", " {\n} ": "", `{"a":1}`: fault.TypeExtra, "[]": fault.TypeDictType, "null": fault.TypeDictType, `"x"`: fault.TypeDictType,
		"x": fault.TypeJSON, "{} {}": fault.TypeJSON, "{": fault.TypeJSON,
	} {
		body, f := middleware.Body(httptest.NewRecorder(), httptest.NewRequest(http.MethodDelete, "/", strings.NewReader(text)), m, restjson.New())
		require.Nil(t, body, "%q", text)
		if typ == "" {
			require.Nil(t, f, "%q", text)
			continue
		}
		require.NotNil(t, f, "%q", text)
		require.Equal(t, typ, f.Fields[0].Type, "%q", text)
	}
}

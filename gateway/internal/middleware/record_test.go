package middleware_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/gateway/internal/middleware"
	"github.com/signalbox-dev/signalbox/gateway/internal/restjson"
	"github.com/signalbox-dev/signalbox/gateway/internal/router"
	"github.com/signalbox-dev/signalbox/gen/route"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func recorded(t *testing.T, next http.HandlerFunc) (*httptest.ResponseRecorder, string, any) {
	t.Helper()
	var log bytes.Buffer
	h := middleware.Record(slog.New(slog.NewTextHandler(&log, nil)), clock.Real(), func(*http.Request) string { return "203.0.113.7" }, next)
	rec := httptest.NewRecorder()
	var panicked any
	func() {
		defer func() { panicked = recover() }()
		h.ServeHTTP(rec, httptest.NewRequest("GET", "/api/jobs", nil))
	}()
	return rec, log.String(), panicked
}

func TestPanicBeforeResponseIs500(t *testing.T) {
	t.Parallel()
	rec, log, panicked := recorded(t, func(http.ResponseWriter, *http.Request) { panic("secret inside") })
	require.Nil(t, panicked)
	require.Equal(t, http.StatusInternalServerError, rec.Code)
	require.JSONEq(t, `{"detail":"Internal Server Error"}`, rec.Body.String())
	require.Contains(t, log, "secret inside")
	require.Contains(t, log, "record_test.go")
	require.Contains(t, log, "status=500")
}

func TestPanicDuringResponseCutsIt(t *testing.T) {
	t.Parallel()
	rec, log, panicked := recorded(t, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "half")
		panic("late")
	})
	require.Equal(t, http.ErrAbortHandler, panicked)
	require.Equal(t, "half", rec.Body.String())
	require.Contains(t, log, "late")
	require.Contains(t, log, "bytes=4")
}

func TestHandlerAbortIsPropagated(t *testing.T) {
	t.Parallel()
	_, log, panicked := recorded(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	require.Equal(t, http.ErrAbortHandler, panicked)
	require.NotContains(t, log, "level=ERROR")
}

func TestInterimStatusNotLogged(t *testing.T) {
	t.Parallel()
	rec, log, _ := recorded(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusEarlyHints)
		w.WriteHeader(http.StatusNoContent)
		n, err := io.WriteString(w, "dropped")
		require.NoError(t, err)
		require.Equal(t, len("dropped"), n)
		require.NoError(t, http.NewResponseController(w).Flush())
	})
	require.Empty(t, rec.Body.String())
	require.Contains(t, log, "status=204")
}

func TestBodyByRoute(t *testing.T) {
	t.Parallel()
	codec := restjson.New()
	plain, whole := &router.Match{Route: &router.Route{}}, &router.Match{Route: &router.Route{Route: route.Route{Body: "*"}}}
	body := func(m *router.Match, r io.Reader) (*restjson.Body, *fault.Error) {
		return middleware.Body(httptest.NewRecorder(), httptest.NewRequest("POST", "/", r), m, codec)
	}

	got, f := body(plain, nil)
	require.Nil(t, f)
	require.Nil(t, got)
	got, f = body(whole, nil)
	require.Nil(t, f)
	require.NotNil(t, got, "the decoder reports what is missing")
	got, f = body(whole, strings.NewReader(`{}`))
	require.Nil(t, f)
	require.NotNil(t, got)
	got, f = body(plain, strings.NewReader(` {} `))
	require.Nil(t, f)
	require.Nil(t, got)
	_, f = body(plain, iotest.ErrReader(errors.New("connection reset")))
	require.Equal(t, fault.Refused, f.Kind)
	_, f = body(plain, io.LimitReader(neverEnding(' '), middleware.MaxBody+1))
	require.Equal(t, fault.TooLarge, f.Kind)
}

type neverEnding byte

func (b neverEnding) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(b)
	}
	return len(p), nil
}

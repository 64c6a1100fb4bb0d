package exchange

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// testTarget returns a target with a test server that runs the handler.
func testTarget(t *testing.T, h http.HandlerFunc) Target {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Request-Id", "req_"+aULID)
		h(w, r)
	}))
	t.Cleanup(server.Close)
	return Target{URL: server.URL, Timeout: 10 * time.Second, Variable: func(name string) (string, error) {
		return "", errors.New("unknown variable " + name)
	}}
}

func runText(t *testing.T, s Target, text string) error {
	t.Helper()
	g, err := Parse("test", []byte("About.\n"+text))
	require.NoError(t, err)
	return g.Run(t.Context(), s)
}

func respondWith(status int, header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if header != "" {
			w.Header().Set("X-Marked", header)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const get = "-- request --\nGET /x\n-- response --\n"

// TestGolden_Run_reportsEveryDifference changes the response in each way that Run must detect.
func TestGolden_Run_reportsEveryDifference(t *testing.T) {
	t.Parallel()
	want := get + "200\nX-Marked: yes\nX-Never: <<absent>>\n\n{\"a\": 1}\n"
	require.NoError(t, runText(t, testTarget(t, respondWith(200, "yes", `{"a":1}`)), want))
	for words, h := range map[string]http.HandlerFunc{
		"status: want 200, got 201":                respondWith(201, "yes", `{"a":1}`),
		`header X-Marked: want yes, got "no"`:      respondWith(200, "no", `{"a":1}`),
		`header X-Marked: want "yes", got nothing`: respondWith(200, "", `{"a":1}`),
		"a: want 1, got 2":                         respondWith(200, "yes", `{"a":2}`),
		"a: want 1, got 1.0":                       respondWith(200, "yes", `{"a":1.0}`),
		"b: want nothing, got 2":                   respondWith(200, "yes", `{"a":1,"b":2}`),
		"duplicate member a":                       respondWith(200, "yes", `{"a":1,"a":1}`),
		"data after the JSON value":                respondWith(200, "yes", `{"a":1}{}`),
		`body: want "{\"a\": 1}", got nothing`:     respondWith(200, "yes", ``),
		"header X-Never: want nothing, got": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Never", "x")
			respondWith(200, "yes", `{"a":1}`)(w, r)
		},
		"header X-Request-Id: want <<id req>>": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Request-Id", "1")
			respondWith(200, "yes", `{"a":1}`)(w, r)
		},
	} {
		err := runText(t, testTarget(t, h), want)
		require.Error(t, err, words)
		require.ErrorContains(t, err, "test, request 1 (GET /x)")
		if words != `header X-Marked: want yes, got "no"` {
			require.ErrorContains(t, err, words)
		}
	}
	err := runText(t, testTarget(t, respondWith(204, "", "")), get+"204\n")
	require.NoError(t, err)
	err = runText(t, testTarget(t, respondWith(200, "", "{}")), get+"200\n")
	require.ErrorContains(t, err, "body: want nothing, got")
}

// rejectAll is a description that rejects every response.
type rejectAll struct{}

func (rejectAll) CheckResponse(method, target string, status int, _ http.Header, body []byte) error {
	return errors.New(method + " " + target + ": no " + http.StatusText(status) + " " + string(body))
}

func TestGolden_Run_checksDescription(t *testing.T) {
	t.Parallel()
	s := testTarget(t, respondWith(200, "", "{}"))
	require.NoError(t, runText(t, s, get+"200\n\n{}\n"))
	s.Document = rejectAll{}
	require.ErrorContains(t, runText(t, s, get+"200\n\n{}\n"), "differs from the API description: GET /x: no OK {}")
}

func TestGolden_Run_sendsRequestUnchanged(t *testing.T) {
	t.Parallel()
	var body string
	var seen *http.Request
	s := testTarget(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body, seen = string(raw), r
		w.Header().Set("Set-Cookie", "a=secret; Path=/")
		respondWith(200, "", `{"id": "job_`+aULID+`"}`)(w, r)
	})
	require.NoError(t, runText(t, s, `-- request --
POST /a/..%2fb?x=1&x=2
Authorization: Bearer {{unique}}
X-Twice: 1
X-Twice: 2

{"url": "{{base_url}}"}
-- response --
200
Set-Cookie: <<like a=([a-z]+);.* as cookie>>

{"id": "<<id job as mine>>"}
-- request --
DELETE /jobs/{{mine}}
Cookie: a={{cookie}}
@body: file extra
@length: none
-- response --
200

{"id": "{{mine}}"}
-- extra --
of {{mine}}`))
	require.Equal(t, "of job_"+aULID, body)
	require.Equal(t, "/jobs/job_"+aULID, seen.RequestURI)
	require.Equal(t, []string{"chunked"}, seen.TransferEncoding)
	require.Equal(t, "a=secret", seen.Header.Get("Cookie"))
	require.ErrorContains(t, runText(t, s, "-- request --\nGET /{{nowhere}}\n-- response --\n200\n"), "{{nowhere}}: unknown variable nowhere")
	require.NoError(t, runText(t, s, "-- request --\nPUT {{base_url}}/whole?a\n@body: zeros 12\n-- response --\n200\n\n<<any>>\n"))
	require.Equal(t, "/whole?a", seen.RequestURI)
	require.Equal(t, "000000000000", body)
	require.NoError(t, runText(t, s, "-- request --\nPUT /hex\n@body: hex 00ff\n-- response --\n200\n\n<<any>>\n"))
	require.Equal(t, "\x00\xff", body)
}

func TestGolden_Run_until(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := testTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) < 4 {
			respondWith(503, "", `{"detail": "soon"}`)(w, r)
			return
		}
		respondWith(200, "", `{"n": 4}`)(w, r)
	})
	require.NoError(t, runText(t, s, "-- request until --\nGET /x\n-- response --\n200\n\n{\"n\": \"<<int as n>>\"}\n"))
	require.EqualValues(t, 4, requests.Load())
	s.Timeout = 100 * time.Millisecond
	err := runText(t, s, "-- request until --\nGET /x\n-- response --\n404\n\n<<any>>\n")
	require.ErrorContains(t, err, "no expected response within 100ms")
	require.ErrorContains(t, err, "status: want 404, got 200")
}

func TestGolden_Run_times(t *testing.T) {
	t.Parallel()
	var requests atomic.Int32
	s := testTarget(t, func(w http.ResponseWriter, r *http.Request) {
		if requests.Add(1) > 3 {
			respondWith(429, "", `{}`)(w, r)
			return
		}
		respondWith(200, "", `{}`)(w, r)
	})
	require.NoError(t, runText(t, s, "-- request --\nGET /x\n@times: 3\n-- response --\n200\n\n{}\n-- request --\nGET /x\n-- response --\n429\n\n{}\n"))
	requests.Store(0)
	require.ErrorContains(t, runText(t, s, "-- request --\nGET /x\n@times: 4\n-- response --\n200\n\n{}\n"), "status: want 200, got 429")
}

// TestGolden_Run_stream reads an endless stream up to the expected text.
func TestGolden_Run_stream(t *testing.T) {
	t.Parallel()
	s := testTarget(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "id: 1\ndata: {}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	require.NoError(t, runText(t, s, get+"200\nContent-Type: text/event-stream\n\n<<text LIKE id: ([0-9]+)\\ndata: .* as last>>\n-- request --\nGET /{{last}}\n-- response --\n200\n\n<<text like id: {{last}}.*>>\n"))
	s.Timeout = 200 * time.Millisecond
	require.ErrorContains(t, runText(t, s, get+"200\n\n<<text LIKE id: 2.*>>\n"), "id: 1")
}

func TestGolden_Run_text(t *testing.T) {
	t.Parallel()
	s := testTarget(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello, world\n") })
	require.NoError(t, runText(t, s, get+"200\n\nhello, world\n"))
	require.NoError(t, runText(t, s, get+"200\n\n<<text LIKE hello, .*>>\n"))
	require.ErrorContains(t, runText(t, s, get+"200\n\nhello\n"), `body: want "hello", got "hello, world\n"`)
	require.ErrorContains(t, runText(t, s, get+"200\n\n{}\n"), "body: want one JSON value")
	require.ErrorContains(t, runText(t, s, get+"200\n\n{\"a\": }\n"), "body: want JSON in the golden")
	require.ErrorContains(t, runText(t, s, get+"200\n\n<<text LIKE h>>\n"), "body: want")
}

func TestGolden_Run_clientAddress(t *testing.T) {
	t.Parallel()
	s := testTarget(t, func(w http.ResponseWriter, r *http.Request) { respondWith(200, "", `"`+r.RemoteAddr+`"`)(w, r) })
	s.From = "127.7.7.7"
	require.NoError(t, runText(t, s, get+"200\n\n\"<<like 127[.]7[.]7[.]7:[0-9]+>>\"\n"))
}

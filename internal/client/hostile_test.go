package client

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

func TestACredentialGoesToItsInstallationOnly(t *testing.T) {
	t.Parallel()
	other := make(chan http.Header, 4)
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { other <- r.Header; w.WriteHeader(http.StatusOK) }))
	t.Cleanup(foreign.Close)
	// Another name of the same machine is another host.
	elsewhere := strings.Replace(foreign.URL, "127.0.0.1", "localhost", 1)
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere, http.StatusTemporaryRedirect)
	})
	c = c.With(secret.New("tok"))
	require.NoError(t, c.Get(t.Context(), "/api/x", nil, nil))
	require.Empty(t, (<-other).Get("Authorization"), "a redirect does not take the bearer along")
	require.NoError(t, c.Upload(t.Context(), http.MethodPut, foreign.URL, nil, []byte("x")))
	require.Empty(t, (<-other).Get("Authorization"))
}

func TestClientsOfOneInstallationDoNotShareWhatTheyCarry(t *testing.T) {
	t.Parallel()
	seen := make(chan http.Header, 8)
	bare := serving(t, func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header })
	keyed := bare.With(secret.New("tok")).Keyed("k")
	again := keyed.With(secret.New("other"))
	for c, want := range map[*Client][2]string{bare: {"", ""}, keyed: {"Bearer tok", "k"}, again: {"Bearer other", ""}} {
		require.NoError(t, c.Post(t.Context(), "/x", nil, nil))
		h := <-seen
		require.Equal(t, want, [2]string{h.Get("Authorization"), h.Get("Idempotency-Key")})
		require.Empty(t, h.Get("Content-Type"), "no body has no type")
	}
}

func TestQueriesAreEscaped(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, strconv.Quote(r.URL.RawQuery)) })
	var got string
	require.NoError(t, c.Get(t.Context(), "/x", url.Values{"name": {"a b&c=d"}, "q": {"é"}}, &got))
	require.Equal(t, "name=a+b%26c%3Dd&q=%C3%A9", got)
}

func TestAnswersThatCannotBeTaken(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status int
		body   string
		want   string
	}{
		"no JSON":            {200, "<html>", "decode GET /x"},
		"another type":       {200, `{"id":3}`, "decode GET /x"},
		"half of one":        {200, `{"id":"a"`, "decode GET /x"},
		"a redirect to none": {304, "", "304: "},
		"an empty fault":     {500, "", "500: "},
		"a fault of null":    {500, "null", "500: null"},
		"a detail of null":   {500, `{"detail":null}`, "500: "},
		"a detail of a kind": {409, `{"detail":{"at":"x"}}`, `409: {"at":"x"}`},
		"a list":             {422, `[1]`, "422: [1]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(tc.status)
				_, _ = io.WriteString(w, tc.body)
			})
			var out struct{ ID string }
			require.ErrorContains(t, c.Get(t.Context(), "/x", nil, &out), tc.want)
		})
	}
}

func TestEverySuccessIsOne(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 202, 204} {
		c := serving(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		var out struct{ ID string }
		require.NoError(t, c.Post(t.Context(), "/x", map[string]int{}, &out), status)
		require.Empty(t, out.ID, "an answer without a body leaves what was there")
	}
}

func TestAnAnswerThatIsCutIsNone(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"id":"x"}`)
	})
	var out struct{ ID string }
	require.ErrorIs(t, c.Get(t.Context(), "/x", nil, &out), io.ErrUnexpectedEOF)
	require.Empty(t, out.ID)
}

func TestAFaultNeverShowsTheCredential(t *testing.T) {
	t.Parallel()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c := New(gone.URL, nil).With(secret.New("hunter2"))
	err := c.Post(t.Context(), "/api/x", map[string]string{"password": "hunter2"}, nil)
	require.Error(t, err)
	require.NotContains(t, err.Error(), "hunter2")
	require.ErrorContains(t, c.Post(t.Context(), "/x", make(chan int), nil), "encode the body")
	require.ErrorContains(t, c.Get(t.Context(), "/x\x7f", nil, nil), "make GET")
	require.Error(t, c.Upload(t.Context(), "BAD METHOD", "http://x", nil, nil))
}

func TestAnUploadThatIsRefusedIsAFault(t *testing.T) {
	t.Parallel()
	c := serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"detail":"the signature is over","code":"signature_expired"}`+strings.Repeat(" ", 1<<20))
	})
	err := c.Upload(t.Context(), http.MethodPut, c.Base()+"/blob", nil, []byte("x"))
	var e *Error
	require.ErrorAs(t, err, &e)
	require.Equal(t, 403, e.Status)
	require.LessOrEqual(t, len(e.Body), 4096, "a store's word is read a little only")
}

func TestWhatStreamsMayHold(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		text string
		want []Event
		last string
		err  error
	}{
		"lines of both kinds":   {"data: a\r\n\r\nevent: eof\ndata: x\n\n", []Event{{Data: "a"}, {Name: "eof", Data: "x"}}, "", nil},
		"fields without spaces": {"id:3\nevent:e\ndata:a\n\nevent:eof\n\n", []Event{{ID: "3", Name: "e", Data: "a"}, {Name: "eof"}}, "3", nil},
		"one space is taken":    {"data:  a\n\nevent: eof\n\n", []Event{{Data: " a"}, {Name: "eof"}}, "", nil},
		"colons in the data":    {"data: a: b\n\nevent: eof\n\n", []Event{{Data: "a: b"}, {Name: "eof"}}, "", nil},
		"unknown fields":        {"retry: 5\nx: y\ndata\n\nevent: eof\n\n", []Event{{Data: ""}, {Name: "eof"}}, "", nil},
		"no end":                {"id: 1\ndata: a\n\nid: 2\ndata: half", []Event{{ID: "1", Data: "a"}}, "1", ErrCut},
		"nothing":               {"", nil, "", ErrCut},
		"comments only":         {": a\n\n: b\n\n", nil, "", ErrCut},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen []Event
			last, err := serving(t, events(tc.text)).Follow(t.Context(), "/s", "", func(e Event) error { seen = append(seen, e); return nil })
			require.ErrorIs(t, err, tc.err)
			require.Equal(t, tc.want, seen)
			require.Equal(t, tc.last, last)
		})
	}
}

func TestALineOfAStreamIsBounded(t *testing.T) {
	t.Parallel()
	c := serving(t, events("id: 1\ndata: a\n\ndata: "+strings.Repeat("x", maxLine)+"\n\n"))
	last, err := c.Follow(t.Context(), "/s", "", func(Event) error { return nil })
	require.ErrorContains(t, err, "read the stream")
	require.NotErrorIs(t, err, ErrCut, "it is no end that a client comes back from")
	require.Equal(t, "1", last)
}

func TestAReaderWhoLeavesAStreamFreesItsServer(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	c := serving(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: a\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	})
	ctx, leave := context.WithCancel(t.Context())
	_, err := c.Follow(ctx, "/s", "7", func(Event) error { leave(); return nil })
	require.ErrorIs(t, err, context.Canceled)
	<-left
}

func TestChatsThatGoWrong(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		body, want string
		stream     bool
	}{
		"no choice":          {`{"choices":[]}`, "without a choice", false},
		"no JSON":            {`ok`, "decode POST", false},
		"a chunk of rubbish": {"data: {\n\n", "decode a chunk", true},
		"an error event":     {`data: {"error":{"message":"engine connection lost"}}` + "\n\ndata: x\n\n", "decode a chunk", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tc.body) })
			var err error
			if tc.stream {
				_, _, err = c.ChatStream(t.Context(), "dep_1", "q")
			} else {
				_, err = c.Chat(t.Context(), "dep_1", "q")
			}
			require.ErrorContains(t, err, tc.want)
		})
	}
}

package proxy

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"io"
	"maps"
	"mime/multipart"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
	"github.com/signalbox-dev/signalbox/services/inference/internal/traffic"
)

// echo is an engine that responds with the given headers and body. It sends each request body to got.
func echo(head, body string, got chan<- string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, in *bufio.Reader) {
		for {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			sent, err := io.ReadAll(req.Body)
			if err != nil {
				return
			}
			got <- string(sent)
			_, _ = io.WriteString(c, "HTTP/1.1 "+head+"\r\nContent-Length: "+strconv.Itoa(len(body))+"\r\n\r\n"+body)
		}
	}
}

// exchangeWith sends a request to an engine that responds with the given headers and body. It requires that both bodies
// arrive unchanged, and returns the record.
func exchangeWith(t *testing.T, head, answer string, h http.Header, body string, chunked bool) *traffic.Call {
	t.Helper()
	got := make(chan string, 1)
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, echo(head, answer, got))))
	s := r.serve()
	s.Client().Transport.(*http.Transport).DisableCompression = true
	var in io.Reader = strings.NewReader(body)
	if chunked {
		in = struct{ io.Reader }{in}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/inference/"+dep("a")+"/v1/x", in)
	require.NoError(t, err)
	maps.Copy(req.Header, h)
	req.Header.Set("Authorization", "Bearer "+tok.text)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	defer func() { _ = resp.Body.Close() }()
	raw, err := io.ReadAll(resp.Body)
	require.NoError(t, err)
	require.True(t, answer == string(raw), "the caller must get the bytes of the engine")
	require.True(t, body == <-got, "the engine must get the bytes of the caller")
	return r.recorder.recorded(t, 1)[0]
}

// zipped returns the text, compressed with gzip.
func zipped(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.String()
}

func TestRecordOfResponses(t *testing.T) {
	t.Parallel()
	const isJSON, isStream = "200 OK\r\nContent-Type: application/json", "200 OK\r\nContent-Type: text/event-stream"
	responses := `{"object":"response","model":"m","usage":{"input_tokens":11,"output_tokens":9,"total_tokens":20}}`
	streamed := "event: response.completed\ndata: " + `{"type":"response.completed","response":` + responses + "}\n\n"
	embeddings := `{"data":[` + strings.Repeat(`{"embedding":[`+strings.Repeat("-0.0123456789012,", 1535)+`0]},`, 63) + `{}],"model":"e5",` +
		`"usage":{"prompt_tokens":512,"total_tokens":512}}`
	for name, c := range map[string]struct {
		head, body, model  string
		prompt, completion int32 // -1 for null
		outcome            string
	}{
		"responses":               {isJSON, responses, "m", 11, 9, traffic.OK},
		"responses, streamed":     {isStream, streamed, "m", 11, 9, traffic.OK},
		"responses, large":        {isStream, strings.Replace(streamed, `"object"`, `"output":"`+strings.Repeat("x", 50_000)+`","object"`, 1), "m", 11, 9, traffic.OK},
		"embeddings":              {isJSON, embeddings, "e5", 512, -1, traffic.OK},
		"rerank":                  {isJSON, `{"model":"m","results":[],"usage":{"total_tokens":815}}`, "m", 815, -1, traffic.OK},
		"compressed":              {isJSON + "\r\nContent-Encoding: gzip", zipped(t, responses), "m", 11, 9, traffic.OK},
		"compressed stream":       {isStream + "\r\nContent-Encoding: gzip", zipped(t, streamed), "m", 11, 9, traffic.OK},
		"usage first in a stream": {isStream, `data: {"model":"m","usage":{"prompt_tokens":1,"completion_tokens":2}}` + "\n\n" + strings.Repeat("data: {\"choices\":[]}\n\n", 4000), "m", 1, 2, traffic.OK},
		"error event":             {isStream, "data: {\"model\":\"m\"}\n\ndata: {\"error\":{\"message\":\"CUDA out of memory\"}}\n\n", "m", -1, -1, traffic.EngineError},
		"named error event":       {isStream, "data: {\"model\":\"m\"}\r\n\r\nevent: error\r\ndata: {}\r\n\r\n", "m", -1, -1, traffic.EngineError},
		"compressed error event":  {isStream + "\r\nContent-Encoding: gzip", zipped(t, "data: {\"model\":\"m\",\"error\":\"x\"}\n\n"), "m", -1, -1, traffic.EngineError},
		"error in JSON":           {isJSON, `{"model":"m","error":{"message":"of an earlier job"}}`, "m", -1, -1, traffic.OK},
		"caller's mistake":        {"404 Not Found\r\nContent-Type: application/json", `{"model":"m","error":{}}`, "m", -1, -1, traffic.ClientError},
		"engine's limit":          {"429 Too Many Requests\r\nContent-Type: application/json", `{"model":"m","error":{}}`, "m", -1, -1, traffic.EngineError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := exchangeWith(t, c.head, c.body, nil, "{}", false)
			require.Equal(t, c.outcome, got.Outcome)
			require.NotNil(t, got.ResponseModel)
			require.Equal(t, c.model, *got.ResponseModel)
			orNil := func(n int32) *int32 {
				if n < 0 {
					return nil
				}
				return &n
			}
			require.Equal(t, orNil(c.prompt), got.PromptTokens)
			require.Equal(t, orNil(c.completion), got.CompletionTokens)
			require.Equal(t, c.prompt >= 0, got.UsageSource == traffic.UsageEngine)
		})
	}
}

func TestRecordOfRequests(t *testing.T) {
	t.Parallel()
	large := `{"input":"` + strings.Repeat("x", readFirst) + `","model":"q","stream":true}`
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", "a.wav")
	require.NoError(t, err)
	_, err = part.Write(bytes.Repeat([]byte("\r\n--\x00"), readFirst/5))
	require.NoError(t, err)
	require.NoError(t, w.WriteField("model", "q"))
	require.NoError(t, w.WriteField("stream", "true"))
	require.NoError(t, w.Close())
	for name, c := range map[string]struct {
		contentType, encoding, body string
	}{
		"small":                {"application/json", "", `{"model":"q","stream":true}`},
		"large":                {"application/json", "", large},
		"compressed":           {"application/json", "gzip", zipped(t, large)},
		"other content type":   {"text/plain", "", `{"model":"q","stream":true}`},
		"form with a file":     {w.FormDataContentType(), "", form.String()},
		"compressed form":      {w.FormDataContentType(), "gzip", zipped(t, form.String())},
		"small form, no files": {"multipart/form-data; boundary=b", "", "--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nq\r\n--b\r\nContent-Disposition: form-data; name=\"stream\"\r\n\r\ntrue\r\n--b--\r\n"},
	} {
		for _, chunked := range []bool{false, true} {
			t.Run(name+" "+strconv.FormatBool(chunked), func(t *testing.T) {
				t.Parallel()
				h := http.Header{"Content-Type": {c.contentType}}
				if c.encoding != "" {
					h.Set("Content-Encoding", c.encoding)
				}
				got := exchangeWith(t, "200 OK", "{}", h, c.body, chunked)
				require.NotNil(t, got.RequestedModel)
				require.Equal(t, "q", *got.RequestedModel)
				require.True(t, got.Stream)
				require.Equal(t, int64(len(c.body)), got.RequestBytes)
			})
		}
	}
}

// TestRecordOfFailedUpload requires that a streamed request is recorded although the engine does not respond.
func TestRecordOfFailedUpload(t *testing.T) {
	t.Parallel()
	tok := mint(t, secret.KindDeployment)
	r := newHarness(t, served("a", tok, engine(t, func(_ net.Conn, in *bufio.Reader) {
		if req, err := http.ReadRequest(in); err == nil {
			_, _ = io.Copy(io.Discard, req.Body)
		}
	})))
	s := r.serve()
	body := `{"model":"q"}`
	req := httptest.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/inference/"+dep("a")+"/v1/x", struct{ io.Reader }{strings.NewReader(body)})
	req.RequestURI = ""
	req.Header.Set("Authorization", "Bearer "+tok.text)
	resp, err := s.Client().Do(req)
	require.NoError(t, err)
	_ = resp.Body.Close()
	require.Equal(t, 502, resp.StatusCode)
	got := r.recorder.recorded(t, 1)[0]
	require.Equal(t, int64(len(body)), got.RequestBytes)
	require.NotNil(t, got.RequestedModel)
	require.Equal(t, "q", *got.RequestedModel)
}

func TestCutStreams(t *testing.T) {
	t.Parallel()
	const event = "data: {\"id\": \"c1\"}\n\n"
	const lost = `data: {"error":{"message":"the connection to the engine was lost","type":"server_error","code":"engine_lost"}}` + "\n\n"
	crlf, cr := strings.NewReplacer("\n", "\r\n"), strings.NewReplacer("\n", "\r")
	for name, c := range map[string]struct {
		sent  string
		added bool
	}{
		"nothing":                  {"", true},
		"whole event":              {event, true},
		"half event":               {event + `data: {"id": "c1", `, false},
		"name of a field":          {event + "da", false},
		"without the empty line":   {event + "data: {}\n", false},
		"between lines":            {event + "event: x\n", false},
		"comment":                  {event + ": ping\n", true},
		"half a comment":           {event + ": ping", false},
		"empty lines":              {event + "\n\n", true},
		"CRLF":                     {crlf.Replace(event), true},
		"CRLF, half event":         {crlf.Replace(event) + `data: {"id`, false},
		"CRLF, half an empty line": {crlf.Replace(event+"data: {}\n") + "\r", false},
		"CRLF, no empty line":      {crlf.Replace(event + "data: {}\n"), false},
		"CR":                       {cr.Replace(event), true},
		"CR, no empty line":        {cr.Replace(event + "data: {}\n"), false},
	} {
		for _, size := range []int{1, 5, 1000} {
			t.Run(name+" "+strconv.Itoa(size), func(t *testing.T) {
				t.Parallel()
				tok := mint(t, secret.KindDeployment)
				r := newHarness(t, served("a", tok, engine(t, func(conn net.Conn, in *bufio.Reader) {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
					for rest := c.sent; rest != ""; rest = rest[min(size, len(rest)):] {
						part := rest[:min(size, len(rest))]
						_, _ = io.WriteString(conn, strconv.FormatInt(int64(len(part)), 16)+"\r\n"+part+"\r\n")
					}
				})))
				s := r.serve()
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/inference/"+dep("a")+"/v1/x", nil)
				require.NoError(t, err)
				req.Header.Set("Authorization", "Bearer "+tok.text)
				resp, err := s.Client().Do(req)
				require.NoError(t, err)
				defer func() { _ = resp.Body.Close() }()
				body, err := io.ReadAll(resp.Body)
				require.ErrorIs(t, err, io.ErrUnexpectedEOF, "a cut stream must not end cleanly")
				want := c.sent
				if c.added {
					want += lost
				}
				require.Equal(t, want, string(body))
				require.Equal(t, traffic.Truncated, r.recorder.recorded(t, 1)[0].Outcome)
			})
		}
	}
}

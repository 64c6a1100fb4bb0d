package llm

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/secret"
)

// encodedKeys returns the forms in which an upstream may send a key back.
func encodedKeys() map[string]string {
	escaped := ""
	for _, c := range key {
		escaped += fmt.Sprintf(`\u%04x`, c)
	}
	return map[string]string{
		"plain": key, "in upper case": strings.ToUpper(key), "first half": key[:len(key)/2], "last half": key[len(key)/2:],
		"in the middle": "a" + key + "b", "twice": key + key, "as the header": "Bearer " + key,
		"base64": base64.StdEncoding.EncodeToString([]byte(key)), "URL-safe base64": base64.URLEncoding.EncodeToString([]byte(key)),
		"base64 with one byte before": base64.StdEncoding.EncodeToString([]byte("x" + key)), "base64 with two bytes before": base64.StdEncoding.EncodeToString([]byte("xy" + key)),
		"base64 of the header": base64.StdEncoding.EncodeToString([]byte("Authorization: Bearer " + key + "\r\n")),
		"hex":                  hex.EncodeToString([]byte(key)), "in a URL": "https://x.example/?key=" + url.QueryEscape(key),
		"escaped": escaped, "split by invisible characters": strings.Join(strings.Split(key, ""), "\u200b"),
	}
}

// revealsKey reports whether a text contains minPart consecutive characters of the key, in any spelling that is masked.
func revealsKey(text string) bool {
	low := strings.ToLower(text)
	for _, s := range newMask(secret.New(key)).spellings {
		for i := 0; i+minPart <= len(s); i++ {
			if strings.Contains(low, s[i:i+minPart]) {
				return true
			}
		}
	}
	return false
}

func marshaled(r Result) string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestMask_upstreamText(t *testing.T) {
	t.Parallel()
	for name, spelling := range encodedKeys() {
		body := `{"error": {"message": "you sent ` + spelling + ` here"}}`
		for place, script := range map[string][]step{
			"error response":         {respondWith(401, "application/json", body)},
			"plain text":             {respondWith(500, "text/plain", "you sent "+spelling)},
			"unexpected JSON":        {respondWith(200, "application/json", body)},
			"not JSON":               {respondWith(200, "text/html", "<p>"+spelling)},
			"sample":                 {respondWith(200, "application/json", `{"model": "`+spelling+`", "choices": [{"message": {"content": "I saw `+spelling+`"}}]}`)},
			"text instead of a call": {replies("ready"), respondWith(200, "application/json", `{"choices": [{"message": {"content": "I saw `+spelling+`"}}]}`)},
			"function name":          {replies("ready"), respondWith(200, "application/json", `{"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "`+spelling+`", "arguments": "{}"}}]}}]}`)},
			"arguments":              {replies("ready"), respondWith(200, "application/json", `{"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "echo_nonce", "arguments": "`+spelling+`"}}]}}]}`)},
			"second turn":            {replies("ready"), echoNonce(), respondWith(500, "text/plain", spelling)},
			"header": {func(w http.ResponseWriter, _ *http.Request, _ chatRequest) {
				w.Header().Set("Location", "https://x.example/"+url.PathEscape(spelling))
				w.Header().Set("Content-Type", "text/"+strings.ReplaceAll(spelling, "\u200b", ""))
				w.WriteHeader(http.StatusFound)
			}},
		} {
			r := newUpstream(t, script...).test()
			require.False(t, revealsKey(marshaled(r)), "the key must not be shown (%s in %s): %s", name, place, marshaled(r))
			require.Contains(t, marshaled(r), secret.Redacted, "the key must be replaced (%s in %s)", name, place)
		}
	}
}

// If an upstream does not speak HTTP, the HTTP client quotes the upstream's bytes in the error and possibly in a log
// line.
func TestMask_clientErrors(t *testing.T) { //nolint:paralleltest // it captures the log of the process
	var logged bytes.Buffer
	log.SetOutput(&logged)
	t.Cleanup(func() { log.SetOutput(os.Stderr) })
	for _, answer := range []string{
		"Bearer " + key + "\r\n\r\n",
		"HTTP/1.1 " + key + " x\r\n\r\n",
		"HTTP/1.1 200 OK\r\n" + key + "\r\n\r\n",
		"HTTP/1.1 401 " + key + "\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 " + key + "\r\n\r\n",
	} {
		l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		require.NoError(t, err)
		done := make(chan struct{})
		go func() {
			defer close(done)
			conn, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = io.ReadFull(conn, make([]byte, 64))
			_, _ = io.WriteString(conn, answer)
			_, _ = io.Copy(io.Discard, conn)
			_ = conn.Close()
		}()
		r := loopback().Test(t.Context(), Settings{BaseURL: "http://" + l.Addr().String(), Model: "m", Key: secret.New(key)})
		require.False(t, r.OK)
		require.NotEmpty(t, r.Error)
		require.False(t, revealsKey(marshaled(r)), marshaled(r))
		<-done
		require.NoError(t, l.Close())
	}
	require.False(t, revealsKey(logged.String()), logged.String())
}

func TestMask_keyInBaseURL(t *testing.T) {
	t.Parallel()
	r := loopback().Test(t.Context(), Settings{BaseURL: "http://" + closedPort(t) + "/" + key, Model: "m", Key: secret.New(key)})
	require.False(t, revealsKey(marshaled(r)), marshaled(r))
	require.Contains(t, r.Endpoint, secret.Redacted)
}

func TestMask_words(t *testing.T) {
	t.Parallel()
	m := newMask(secret.New(key))
	for _, body := range []string{
		strings.Repeat("a", 1<<20), `{"x":"` + strings.Repeat("ü", 1<<19) + `"}`, strings.Repeat(key, 4000), "\x1b]52;c;aGk=\a\x1b[31mred\x00\xff\u202e",
		strings.Repeat("€", MaxText),
	} {
		words := m.words([]byte(body))
		require.LessOrEqual(t, len(words), MaxText)
		require.NotContains(t, words, "\x1b")
		require.NotContains(t, words, "\x00")
		require.NotContains(t, words, "\u202e")
		require.True(t, json.Valid([]byte(marshaled(Result{Error: words}))))
		require.False(t, revealsKey(words))
	}
	require.Equal(t, `ab \u12 \uzzzz \u00fc`, m.words([]byte(`\u0061b \u12 \uzzzz \u00fc`)))
	require.Equal(t, "a b c", m.words([]byte(" a\n\tb\r\nc ")))
	require.Equal(t, `{"a":1,"b":"<x>"}`, m.words([]byte(`{"b": "\u003cx\u003e", "a": 1}`)))
}

func TestMask_shortKey(t *testing.T) {
	t.Parallel()
	m := newMask(secret.New("none"))
	require.Equal(t, "the key "+secret.Redacted+" is bad, non is not", m.words([]byte("the key none is bad, non is not")))
}

func FuzzMask(f *testing.F) {
	f.Add(key, "you sent "+key)
	f.Add("abcd", "xxabcdxx")
	f.Add("ключ-секрет", "ключ-секрет\u200b")
	f.Fuzz(func(t *testing.T, k, text string) {
		if k == "" || len(k) > 200 {
			return
		}
		out := newMask(secret.New(k)).text(text, MaxText)
		if len(out) > MaxText {
			t.Fatalf("the text has %d bytes, more than %d", len(out), MaxText)
		}
		word := secret.Redacted
		if len(k) >= minPart && strings.Contains(strings.ReplaceAll(out, word, ""), k) && !strings.Contains(word, k[:minPart]) {
			t.Fatalf("%q contains the key %q", out, k)
		}
	})
}

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

// spellings are ways in which an upstream may send a key back.
func spellings() map[string]string {
	escaped := ""
	for _, c := range key {
		escaped += fmt.Sprintf(`\u%04x`, c)
	}
	return map[string]string{
		"plain": key, "in upper case": strings.ToUpper(key), "its first half": key[:len(key)/2], "its last half": key[len(key)/2:],
		"in the middle": "a" + key + "b", "twice": key + key, "as the header": "Bearer " + key,
		"base64": base64.StdEncoding.EncodeToString([]byte(key)), "base64 for addresses": base64.URLEncoding.EncodeToString([]byte(key)),
		"base64 with one in front": base64.StdEncoding.EncodeToString([]byte("x" + key)), "base64 with two in front": base64.StdEncoding.EncodeToString([]byte("xy" + key)),
		"base64 of the header": base64.StdEncoding.EncodeToString([]byte("Authorization: Bearer " + key + "\r\n")),
		"hex":                  hex.EncodeToString([]byte(key)), "in an address": "https://x.example/?key=" + url.QueryEscape(key),
		"escaped": escaped, "parted by what shows nothing": strings.Join(strings.Split(key, ""), "\u200b"),
	}
}

// shows says whether a text shows six characters of the key in a row, in any spelling that is looked for.
func shows(text string) bool {
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

func told(r Result) string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func TestTheKeyIsInNoWordOfTheUpstream(t *testing.T) {
	t.Parallel()
	for name, spelling := range spellings() {
		body := `{"error": {"message": "you sent ` + spelling + ` here"}}`
		for place, script := range map[string][]step{
			"a refusal":      {writes(401, "application/json", body)},
			"plain text":     {writes(500, "text/plain", "you sent "+spelling)},
			"a wrong shape":  {writes(200, "application/json", body)},
			"no JSON":        {writes(200, "text/html", "<p>"+spelling)},
			"the sample":     {writes(200, "application/json", `{"model": "`+spelling+`", "choices": [{"message": {"content": "I saw `+spelling+`"}}]}`)},
			"prose":          {says("ready"), writes(200, "application/json", `{"choices": [{"message": {"content": "I saw `+spelling+`"}}]}`)},
			"the function":   {says("ready"), writes(200, "application/json", `{"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "`+spelling+`", "arguments": "{}"}}]}}]}`)},
			"the arguments":  {says("ready"), writes(200, "application/json", `{"choices": [{"message": {"tool_calls": [{"id": "a", "function": {"name": "echo_nonce", "arguments": "`+spelling+`"}}]}}]}`)},
			"the last words": {says("ready"), echoes(), writes(500, "text/plain", spelling)},
			"a header": {func(w http.ResponseWriter, _ *http.Request, _ request) {
				w.Header().Set("Location", "https://x.example/"+url.PathEscape(spelling))
				w.Header().Set("Content-Type", "text/"+strings.ReplaceAll(spelling, "\u200b", ""))
				w.WriteHeader(http.StatusFound)
			}},
		} {
			r := newUpstream(t, script...).test()
			require.False(t, shows(told(r)), "%s in %s: %s", name, place, told(r))
			require.Contains(t, told(r), secret.Redacted, "%s in %s", name, place)
		}
	}
}

// An upstream that speaks no HTTP is quoted by the error of the client, and may be by its log.
func TestTheKeyIsInNoErrorOfTheClient(t *testing.T) { //nolint:paralleltest // it looks at the process's own log
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
		require.False(t, shows(told(r)), told(r))
		<-done
		require.NoError(t, l.Close())
	}
	require.False(t, shows(logged.String()), logged.String())
}

func TestAKeyInTheSettingsIsMaskedToo(t *testing.T) {
	t.Parallel()
	r := loopback().Test(t.Context(), Settings{BaseURL: "http://" + closedPort(t) + "/" + key, Model: "m", Key: secret.New(key)})
	require.False(t, shows(told(r)), told(r))
	require.Contains(t, r.Endpoint, secret.Redacted)
}

func TestWordsAreShortAndPlain(t *testing.T) {
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
		require.True(t, json.Valid([]byte(told(Result{Error: words}))))
		require.False(t, shows(words))
	}
	require.Equal(t, `ab \u12 \uzzzz \u00fc`, m.words([]byte(`\u0061b \u12 \uzzzz \u00fc`)))
	require.Equal(t, "a b c", m.words([]byte(" a\n\tb\r\nc ")))
	require.Equal(t, `{"a":1,"b":"<x>"}`, m.words([]byte(`{"b": "\u003cx\u003e", "a": 1}`)))
}

func TestAShortKeyIsMaskedWhole(t *testing.T) {
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
			t.Fatalf("%d bytes", len(out))
		}
		word := secret.Redacted
		if len(k) >= minPart && strings.Contains(strings.ReplaceAll(out, word, ""), k) && !strings.Contains(word, k[:minPart]) {
			t.Fatalf("%q shows %q", out, k)
		}
	})
}

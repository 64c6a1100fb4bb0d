package usage

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/signalbox-dev/signalbox/platform/httprelay"
)

// packed returns the body in the given encoding. The encoding `raw` is deflate without the head of zlib.
func packed(encoding, body string) []byte {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip", "x-gzip":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "raw":
		w, _ = flate.NewWriter(&b, flate.BestSpeed) // the level is valid
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w, _ = zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(maxWindow)) // the options are valid
	default:
		return []byte(body)
	}
	_, _ = io.WriteString(w, body) // a write to memory does not fail
	_ = w.Close()
	return b.Bytes()
}

// encoded returns the headers of a body with the encoding.
func encoded(h httprelay.Header, encoding string) httprelay.Header {
	if encoding == "raw" {
		encoding = "deflate"
	}
	h.Set("Content-Encoding", encoding)
	return h
}

func TestResponse_encodings(t *testing.T) {
	t.Parallel()
	vectors := embeddings()
	stream := strings.Repeat("data: {\"model\":\"m\",\"choices\":[]}\n\n", 5000) + "event: error\ndata: {\"usage\":{\"prompt_tokens\":7}}\n\n"
	for _, encoding := range []string{"gzip", "x-gzip", "GZIP", "deflate", "raw", "br", "zstd", "identity"} {
		t.Run(encoding, func(t *testing.T) {
			t.Parallel()
			plain, events := packed(strings.ToLower(encoding), vectors), packed(strings.ToLower(encoding), stream)
			for _, size := range []int{100, len(plain)} {
				require.Equal(t, want("e5", "", 512, -1), read(encoded(jsonHeader(), encoding), string(plain), size))
				found := want("m", "", 7, -1)
				found.Failed = true
				require.Equal(t, found, read(encoded(streamHeader(), encoding), string(events), size))
			}
			r := newRequest(encoded(jsonHeader(), encoding))
			r.Take(packed(strings.ToLower(encoding), `{"model":"m","stream":true}`))
			require.Equal(t, Wanted{"m", true}, r.Close())
		})
	}
}

func TestResponse_encodingFlushed(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	r := newResponse(encoded(streamHeader(), "gzip"))
	defer r.Close()
	for range 3 {
		_, err := io.WriteString(w, "data: {\"error\":{}}\n\n")
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		r.Take(b.Bytes())
		b.Reset()
		require.True(t, r.events.json.found.failed, "an event must be read when it arrives")
	}
}

func TestResponse_encodingMalformed(t *testing.T) {
	t.Parallel()
	for _, encoding := range []string{"gzip", "deflate", "raw", "br", "zstd", "identity", "gzip, br", "compress", "x"} {
		body := packed(encoding, `{"model":"m","pad":"`+strings.Repeat("x", 9000)+`"}`)
		for name, b := range map[string][]byte{
			"empty": nil, "cut": body[:len(body)/2], "not encoded": []byte("hello"), "all bits": bytes.Repeat([]byte{0xff}, 100), "zeros": make([]byte, 100),
		} {
			for _, size := range []int{1, 50_000} {
				require.Equal(t, Found{}, read(encoded(jsonHeader(), encoding), string(b), size), "%s: %s", encoding, name)
			}
		}
	}
	require.Equal(t, Found{}, read(encoded(jsonHeader(), "gzip, br"), string(packed("br", string(packed("gzip", `{"model":"m"}`)))), 50),
		"only one encoding is undone")
}

func TestResponse_bombs(t *testing.T) {
	t.Parallel()
	zeros := `{"a":"` + strings.Repeat("\x00", 20<<20) + `","model":"m"}`
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		r := newResponse(encoded(jsonHeader(), encoding))
		bomb := packed(encoding, zeros)
		require.Less(t, len(bomb), 64<<10)
		seen := 0
		r.unpack.to = func(p []byte) { seen += len(p) }
		for part := range parts(string(bomb), 4096) {
			r.Take([]byte(part))
		}
		r.Close()
		require.Greater(t, seen, freeUnpacked, encoding)
		require.LessOrEqual(t, seen, freeUnpacked+maxRatio*len(bomb)+unpackChunk, encoding)
	}
}

func TestResponse_largestBody(t *testing.T) {
	t.Parallel()
	random, mib := rand.NewChaCha8([32]byte{}), make([]byte, 1<<20)
	_, _ = random.Read(mib[:32<<10])      // never fails
	member := packed("gzip", string(mib)) // gzip allows several of them in a row
	r, seen := newResponse(encoded(jsonHeader(), "gzip")), 0
	r.unpack.to = func(p []byte) { seen += len(p) }
	for range maxUnpacked>>20 + 2 {
		r.Take(member)
	}
	r.Close()
	require.Equal(t, maxUnpacked, seen)
}

// broken is a decompressor with a defect.
type broken struct{}

func (broken) Read([]byte) (int, error) { panic("index out of range") }

// A defect of a decompressor is reported and must not end the call. A defect of this package must not be hidden.
func TestUnpacker_panic(t *testing.T) {
	t.Parallel()
	var defects []error
	r := &Response{}
	r.Start(false, encoded(jsonHeader(), "gzip"), func(err error) { defects = append(defects, err) })
	r.unpack.out = broken{}
	for range 3 {
		r.Take([]byte("x"))
	}
	require.Equal(t, Found{}, r.Close())
	require.Len(t, defects, 1)
	require.ErrorContains(t, defects[0], "index out of range")

	r = newResponse(encoded(jsonHeader(), "gzip"))
	r.unpack.to = func([]byte) { panic("own") }
	require.PanicsWithValue(t, "own", func() { r.Take(packed("gzip", "{}")); r.Close() })
}

func TestUnpacker_window(t *testing.T) {
	t.Parallel()
	text := make([]byte, 3<<20)
	for i := range text {
		text[i] = 'a' + byte(rand.IntN(26))
	}
	body := `{"a":"` + string(text) + `","model":"m"}`
	for bits, want := range map[int]string{20: "m", 22: "m", 24: ""} {
		var b bytes.Buffer
		w := brotli.NewWriterOptions(&b, brotli.WriterOptions{Quality: 2, LGWin: bits})
		_, err := io.WriteString(w, body)
		require.NoError(t, err)
		require.NoError(t, w.Close())
		require.Equal(t, want, read(encoded(jsonHeader(), "br"), b.String(), 32<<10).Model, "brotli, %d bits", bits)
		b.Reset()
		z, err := zstd.NewWriter(&b, zstd.WithWindowSize(1<<bits), zstd.WithEncoderConcurrency(1))
		require.NoError(t, err)
		_, err = io.WriteString(z, body)
		require.NoError(t, err)
		require.NoError(t, z.Close())
		require.Equal(t, want, read(encoded(jsonHeader(), "zstd"), b.String(), 32<<10).Model, "zstd, %d bits", bits)
	}
}

func TestUnpacker_leavesNothing(t *testing.T) {
	before, vectors := goleak.IgnoreCurrent(), embeddings()
	for _, encoding := range []string{"gzip", "deflate", "br", "zstd", "x"} {
		for _, body := range []string{"", "x", string(packed(encoding, vectors))} {
			for _, n := range []int{0, len(body) / 2, len(body)} {
				r := newResponse(encoded(jsonHeader(), encoding))
				r.Take([]byte(body[:n]))
				r.Close()
				r.Take([]byte(body[n:])) // must do nothing
			}
		}
	}
	goleak.VerifyNone(t, before)
}

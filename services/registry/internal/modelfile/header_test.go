package modelfile_test

import (
	"archive/tar"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

// gguf builds a file piece by piece.
type gguf struct{ bytes.Buffer }

func (g *gguf) le(values ...any) *gguf {
	for _, v := range values {
		_ = binary.Write(g, binary.LittleEndian, v)
	}
	return g
}

func (g *gguf) text(s string) *gguf {
	g.le(uint64(len(s)))
	g.WriteString(s)
	return g
}

func start(version uint32, tensors, pairs uint64) *gguf {
	g := &gguf{}
	g.WriteString("GGUF")
	return g.le(version, tensors, pairs)
}

func model() *gguf {
	g := start(3, 2, 7)
	g.text("general.architecture").le(uint32(8)).text("llama")
	g.text("llama.context_length").le(uint32(4), uint32(128))
	g.text("llama.block_count").le(uint32(10), uint64(3))
	g.text("llama.rope.freq_base").le(uint32(6), float32(10000))
	g.text("tokenizer.ggml.tokens").le(uint32(9), uint32(8), uint64(2)).text("a").text("b")
	g.text("tokenizer.ggml.token_type").le(uint32(9), uint32(5), uint64(2), int32(1), int32(3))
	g.text("tokenizer.chat_template").le(uint32(8)).text("{{x}}")
	g.text("a").le(uint32(2), uint64(4), uint64(5), uint32(0), uint64(0))
	g.text("b").le(uint32(1), uint64(7), uint32(12), uint64(32))
	g.Write(make([]byte, 128))
	return g
}

func TestGGUF(t *testing.T) {
	t.Parallel()
	data := model().Bytes()
	facts, err := modelfile.GGUF(iotest.OneByteReader(bytes.NewReader(data)), int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, modelfile.Facts{
		Architecture: "llama", Parameters: 27, Tensors: 2, Dtype: "f32", ContextLength: 128, BlockCount: 3, VocabSize: 2,
		ChatTemplateSHA256: facts.ChatTemplateSHA256,
	}, facts)
	require.Len(t, facts.ChatTemplateSHA256, 64)
}

func TestGGUF_malformed(t *testing.T) {
	t.Parallel()
	deep := start(3, 0, 1).text("k").le(uint32(9))
	for range 6 {
		deep.le(uint32(9), uint64(1))
	}
	cases := map[string]*gguf{
		"empty":        {},
		"version 1":    start(1, 0, 0),
		"tensor count": start(3, math.MaxUint64, 0),
		"value count":  start(3, 0, math.MaxUint64),
		"name length":  start(3, 0, 1).le(uint64(math.MaxUint64)),
		"long name":    start(3, 0, 1).le(uint64(1 << 40)),
		"unknown type": start(3, 0, 1).text("k").le(uint32(99)),
		"array length": start(3, 0, 1).text("k").le(uint32(9), uint32(0), uint64(math.MaxUint64)),
		"array type":   start(3, 0, 1).text("k").le(uint32(9), uint32(77), uint64(1)),
		"nesting":      deep,
		"dimensions":   start(3, 1, 0).text("t").le(uint32(1000)),
		"elements":     start(3, 1, 0).text("t").le(uint32(2), uint64(1<<40), uint64(1<<40), uint32(0), uint64(0)),
		"offset":       start(3, 1, 0).text("t").le(uint32(1), uint64(1), uint32(0), uint64(1<<40)),
	}
	for name, g := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := modelfile.GGUF(bytes.NewReader(g.Bytes()), int64(g.Len()))
			require.ErrorIs(t, err, modelfile.ErrMalformed)
		})
	}
	whole := model().Bytes()
	whole = whole[:len(whole)-128]
	for n := range whole {
		_, err := modelfile.GGUF(bytes.NewReader(whole[:n]), int64(len(whole)))
		require.ErrorIs(t, err, modelfile.ErrMalformed, "cut at %d", n)
	}
}

func TestReaders_storeFailureIsNotMalformed(t *testing.T) {
	t.Parallel()
	broken := iotest.ErrReader(errors.New("the disk is gone"))
	for name, read := range readers() {
		_, err := read(broken, 1000)
		require.ErrorContains(t, err, "the disk is gone", name)
		require.NotErrorIs(t, err, modelfile.ErrMalformed, name)
	}
}

func readers() map[string]func(io.Reader, int64) (modelfile.Facts, error) {
	return map[string]func(io.Reader, int64) (modelfile.Facts, error){
		"gguf": modelfile.GGUF, "safetensors": modelfile.Safetensors, "folder": folder,
	}
}

func safetensors(text string, weights int) []byte {
	out := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return append(append(out, text...), make([]byte, weights)...)
}

func TestSafetensors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		data  []byte
		words string // part of the error, "" if the file is valid
	}{
		"good":        {safetensors(`{"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), ""},
		"scalar":      {safetensors(`{"a":{"dtype":"F16","shape":[],"data_offsets":[0,2]}}`, 2), ""},
		"short":       {[]byte("abc"), "longer than the file"},
		"long header": {binary.LittleEndian.AppendUint64(nil, math.MaxUint64), "not a safetensors file"},
		"not JSON":    {safetensors(`{"a":`, 0), "not a JSON object"},
		"other JSON":  {safetensors(`{"a":"b"}`, 0), "no valid description"},
		"missing bytes": {
			safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 4),
			"the file has 4 of 8 bytes of tensor data: it is incomplete",
		},
		"shape":    {safetensors(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), "does not match its shape"},
		"backward": {safetensors(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[8,0]}}`, 8), "impossible size"},
		"overflow": {safetensors(`{"a":{"dtype":"X","shape":[4294967296,4294967296],"data_offsets":[0,8]}}`, 8), "impossible size"},
		"negative": {safetensors(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}}`, 8), "no valid description"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := modelfile.Safetensors(bytes.NewReader(c.data), int64(len(c.data)))
			if c.words == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorIs(t, err, modelfile.ErrMalformed)
			require.ErrorContains(t, err, c.words)
		})
	}
}

// packed returns a tar file. The arguments alternate between names and contents.
func packed(tb testing.TB, files ...string) []byte {
	tb.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		require.NoError(tb, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: files[i], Mode: 0o600, Size: int64(len(files[i+1]))}))
		_, err := w.Write([]byte(files[i+1]))
		require.NoError(tb, err)
	}
	require.NoError(tb, w.Close())
	return b.Bytes()
}

func TestFolder_stopsReadingEarly(t *testing.T) {
	t.Parallel()
	weights := string(safetensors(`{"a":{"dtype":"BF16","shape":[5],"data_offsets":[0,10]}}`, 10))
	config := `{"model_type":"llama","hidden_size":48,"num_hidden_layers":3}`
	data := packed(t, "./config.json", config, "model.safetensors", weights, "big.bin", strings.Repeat("x", 100<<10))
	in := bytes.NewReader(data)
	facts, err := folder(in, int64(len(data)))
	require.NoError(t, err)
	require.Equal(t, modelfile.Facts{Architecture: "llama", Parameters: 5, Tensors: 1, Dtype: "bf16", EmbeddingLength: 48, BlockCount: 3}, facts)
	require.Greater(t, in.Len(), 90<<10, "the rest is not read")

	parts := packed(t, "model-1-of-2.safetensors", weights, "model-2-of-2.safetensors", weights, "config.json", config)
	facts, err = folder(bytes.NewReader(parts), int64(len(parts)))
	require.NoError(t, err)
	require.Equal(t, int64(10), facts.Parameters)

	for name, files := range map[string][]string{
		"no config": {"model.safetensors", weights}, "no weights": {"config.json", config},
		"bad config": {"config.json", "[]"}, "bad weights": {"config.json", config, "model.safetensors", "xx"},
		"huge config": {"config.json", strings.Repeat(" ", 2<<20)},
	} {
		data := packed(t, files...)
		_, err := modelfile.Packed(bytes.NewReader(data), int64(len(data)), modelfile.FormatSafetensors)
		require.ErrorIs(t, err, modelfile.ErrMalformed, name)
	}
}

// fuzz checks that a reader returns either facts or ErrMalformed for any bytes.
func fuzz(f *testing.F, read func(io.Reader, int64) (modelfile.Facts, error), seeds ...[]byte) {
	f.Helper()
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		facts, err := read(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			require.ErrorIs(t, err, modelfile.ErrMalformed)
			require.True(t, utf8.ValidString(err.Error()), "the message is valid UTF-8 and can be stored: %q", err)
			require.Less(t, len(err.Error()), 1000)
			require.Zero(t, facts.Parameters+int64(facts.Tensors), "a malformed file yields no facts")
			return
		}
		for _, n := range []int64{facts.Parameters, int64(facts.Tensors), facts.ContextLength, facts.EmbeddingLength, facts.BlockCount, facts.VocabSize} {
			require.GreaterOrEqual(t, n, int64(0))
		}
		require.LessOrEqual(t, len(facts.Architecture)+len(facts.Name)+len(facts.Dtype), 3*3*256)
	})
}

func FuzzGGUF(f *testing.F) { fuzz(f, modelfile.GGUF, model().Bytes(), start(2, 0, 0).Bytes()) }

func FuzzSafetensors(f *testing.F) {
	fuzz(f, modelfile.Safetensors, safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))
}

func FuzzAdapter(f *testing.F) {
	read := func(r io.Reader, size int64) (modelfile.Facts, error) {
		return modelfile.Packed(r, size, modelfile.FormatPEFT)
	}
	fuzz(f, read, packed(f, "adapter_config.json", `{"peft_type":"LORA","r":8,"base_model_name_or_path":"base"}`, "chat_template.jinja", "x",
		"adapter_model.safetensors", string(safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))))
}

func FuzzFolder(f *testing.F) {
	fuzz(f, folder, packed(f, "config.json", `{"model_type":"llama"}`, "model.safetensors",
		string(safetensors(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8))))
}

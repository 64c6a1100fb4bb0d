package modelfile_test

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

const llamaConfig = `{"model_type":"llama"}`

func readFolder(data []byte) (modelfile.Facts, error) {
	return folder(bytes.NewReader(data), int64(len(data)))
}

func folder(r io.Reader, size int64) (modelfile.Facts, error) {
	return modelfile.Packed(r, size, modelfile.FormatSafetensors)
}

// part returns a safetensors file with one tensor of n bytes.
func part(n int) string {
	return string(safetensors(object(entry("a", "U8", fmt.Sprint(n), 0, n)), n))
}

// archive returns a tar file with the given headers. Each header is followed by the number of zero bytes that it
// states.
func archive(t *testing.T, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		require.NoError(t, w.WriteHeader(&h))
		_, err := io.CopyN(w, zeros{}, h.Size)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestFolder_sumsParts(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		files []string
		want  int64
		words string
	}{
		"one file":        {[]string{"config.json", llamaConfig, "model.safetensors", part(5)}, 5, ""},
		"config last":     {[]string{"model.safetensors", part(5), "config.json", llamaConfig}, 5, ""},
		"three parts":     {[]string{"config.json", llamaConfig, "1.safetensors", part(5), "2.safetensors", part(6), "3.safetensors", part(7)}, 18, ""},
		"with an index":   {[]string{"config.json", llamaConfig, "model.safetensors.index.json", `{"weight_map":{"a":"1.safetensors"}}`, "1.safetensors", part(5)}, 5, ""},
		"in a folder":     {[]string{"hf/config.json", llamaConfig, "hf/model.safetensors", part(5)}, 5, ""},
		"part missing":    {[]string{"config.json", llamaConfig, "model.safetensors.index.json", `{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`, "1.safetensors", part(5)}, 0, `"2.safetensors", which is missing`},
		"second part cut": {[]string{"config.json", llamaConfig, "1.safetensors", part(5), "2.safetensors", part(6)[:66]}, 0, `"2.safetensors"`},
		"empty":           {nil, 0, "no config.json"},
		"only config":     {[]string{"config.json", llamaConfig}, 0, "no safetensors file"},
		"pickled weights": {[]string{"config.json", llamaConfig, "pytorch_model.bin", "x"}, 0, "no safetensors file"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts, err := readFolder(packed(t, c.files...))
			if c.words == "" {
				require.NoError(t, err)
				require.Equal(t, c.want, facts.Parameters)
				return
			}
			require.ErrorIs(t, err, modelfile.ErrMalformed)
			require.ErrorContains(t, err, c.words)
		})
	}
}

func TestFolder_config(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat(`{"a":`, 1<<16) + "1" + strings.Repeat("}", 1<<16)
	cases := map[string]struct {
		config string
		want   modelfile.Facts
		words  string
	}{
		"all": {
			`{"model_type":"llama","max_position_embeddings":4096,"hidden_size":48,"num_hidden_layers":3,"vocab_size":260}`,
			modelfile.Facts{Architecture: "llama", ContextLength: 4096, EmbeddingLength: 48, BlockCount: 3, VocabSize: 260},
			"",
		},
		"negative values": {
			`{"model_type":"llama","max_position_embeddings":-1,"hidden_size":-2,"num_hidden_layers":-3,"vocab_size":-4}`,
			modelfile.Facts{Architecture: "llama"},
			"",
		},
		"byte order mark": {"\ufeff" + `{"model_type":"llama"}`, modelfile.Facts{Architecture: "llama"}, ""},

		"empty":          {`{}`, modelfile.Facts{}, ""},
		"name too long":  {`{"model_type":"` + strings.Repeat("x", 257) + `"}`, modelfile.Facts{}, ""},
		"name at bound":  {`{"model_type":"` + strings.Repeat("x", 256) + `"}`, modelfile.Facts{Architecture: strings.Repeat("x", 256)}, ""},
		"size as string": {`{"hidden_size":"48"}`, modelfile.Facts{}, ""},
		"size as float":  {`{"hidden_size":48.0,"vocab_size":1.5,"max_position_embeddings":1e6}`, modelfile.Facts{EmbeddingLength: 48, ContextLength: 1e6}, ""},
		"Python's JSON": {
			`{"a":[0.0, Infinity],"b":-Infinity,"c":NaN,"model_type":"Infinity \" NaN","hidden_size":8}`,
			modelfile.Facts{Architecture: `Infinity " NaN`, EmbeddingLength: 8},
			"",
		},
		"control character":  {`{"model_type":"a\u0000b"}`, modelfile.Facts{}, ""},
		"other quantization": {`{"quantization_config":"awq","hidden_size":8}`, modelfile.Facts{EmbeddingLength: 8}, ""},
		"past 64 bits":       {`{"hidden_size":99999999999999999999}`, modelfile.Facts{}, ""},
		"too deep":           {deep, modelfile.Facts{}, "not valid JSON"},
		"two objects":        {`{}{}`, modelfile.Facts{}, "not valid JSON"},
		"too long":           {llamaConfig + strings.Repeat(" ", 1<<20), modelfile.Facts{}, "config.json has"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts, err := readFolder(packed(t, "config.json", c.config, "model.safetensors", part(1)))
			if c.words == "" {
				require.NoError(t, err)
				c.want.Parameters, c.want.Tensors, c.want.Dtype = 1, 1, "u8"
				require.Equal(t, c.want, facts)
				return
			}
			require.ErrorIs(t, err, modelfile.ErrMalformed)
			require.ErrorContains(t, err, c.words)
		})
	}
}

func TestFolder_fileCountLimit(t *testing.T) {
	t.Parallel()
	files := func(n int) []byte {
		var all []string
		for i := range n - 2 {
			all = append(all, fmt.Sprintf("%d", i), "")
		}
		return packed(t, append(all, "config.json", llamaConfig, "model.safetensors", part(1))...)
	}
	_, err := readFolder(files(10_000))
	require.NoError(t, err)
	_, err = readFolder(files(10_001))
	require.ErrorIs(t, err, modelfile.ErrMalformed)
	require.ErrorContains(t, err, "more than 10000 files")
}

func TestFolder_readsRegularFilesOnly(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]byte{
		"symlink": tar.TypeSymlink, "hard link": tar.TypeLink, "folder": tar.TypeDir, "device": tar.TypeChar, "pipe": tar.TypeFifo,
	} {
		data := archive(t,
			tar.Header{Typeflag: kind, Name: "config.json", Linkname: "/etc/passwd", Mode: 0o644},
			tar.Header{Typeflag: kind, Name: "model.safetensors", Linkname: "../../model.safetensors", Mode: 0o644})
		_, err := readFolder(data)
		require.ErrorIs(t, err, modelfile.ErrMalformed, name)
		require.ErrorContains(t, err, "no config.json", name)
	}
}

// sparse returns a tar file with one file in GNU sparse format. The header states the given size; the content is data
// followed by a hole.
func sparse(t *testing.T, name, data string, size int64) []byte {
	t.Helper()
	record := func(key, value string) string {
		text := fmt.Sprintf(" %s=%s\n", key, value)
		n := len(text)
		for len(fmt.Sprint(n))+len(text) != n {
			n = len(fmt.Sprint(n)) + len(text)
		}
		return fmt.Sprint(n) + text
	}
	pad := func(s string) string { return s + strings.Repeat("\x00", (512-len(s)%512)%512) }
	words := record("GNU.sparse.major", "1") + record("GNU.sparse.minor", "0") + record("GNU.sparse.name", name) +
		record("GNU.sparse.realsize", fmt.Sprint(size))
	holes := pad(fmt.Sprintf("1\n0\n%d\n", len(data)))
	plain := func(kind byte, name, body string) []byte {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		require.NoError(t, w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(body)), Format: tar.FormatUSTAR}))
		_, err := w.Write([]byte(body))
		require.NoError(t, err)
		require.NoError(t, w.Flush())
		block := b.Bytes()
		block[156] = kind
		signed(block[:512])
		return block
	}
	return append(append(plain(tar.TypeXHeader, "words", words), plain(tar.TypeReg, "sparse", holes+pad(data))...), make([]byte, 1024)...)
}

// signed writes the checksum of a tar header.
func signed(block []byte) {
	copy(block[148:156], "        ")
	sum := 0
	for _, b := range block {
		sum += int(b)
	}
	copy(block[148:156], fmt.Sprintf("%06o\x00 ", sum))
}

func TestFolder_rejectsSparseFile(t *testing.T) {
	t.Parallel()
	const claims = 1 << 40
	lies := string(safetensors(object(entry("a", "U8", fmt.Sprint(claims), 0, claims)), 0))
	data := sparse(t, "model.safetensors", lies, int64(len(lies))+claims)
	h, err := tar.NewReader(bytes.NewReader(data)).Next()
	require.NoError(t, err)
	require.Equal(t, "model.safetensors", h.Name)
	require.Greater(t, h.Size, int64(claims), "the entry is sparse")
	_, err = readFolder(append(packed(t, "config.json", llamaConfig)[:1024], data...))
	require.ErrorIs(t, err, modelfile.ErrMalformed)
	require.ErrorContains(t, err, "the whole folder")
}

func TestFolder_truncatedIsMalformed(t *testing.T) {
	t.Parallel()
	data := packed(t, "config.json", llamaConfig, "1.safetensors", part(700), "2.safetensors", part(3))
	weights := 3*512 + len(part(700))
	for n := 0; n < weights; n += 37 {
		if n >= 512+len(llamaConfig) && n <= 1024 {
			continue // A tar reader does not detect a cut between two files.
		}
		_, err := modelfile.Packed(bytes.NewReader(data[:n]), int64(len(data)), modelfile.FormatSafetensors)
		require.ErrorIs(t, err, modelfile.ErrMalformed, "cut at %d", n)
	}
}

func TestFolder_errorQuotesShortPrintableName(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"\xff\xfe.safetensors", strings.Repeat("x", 4000) + ".safetensors", "a\nb.safetensors"} {
		_, err := readFolder(packed(t, "config.json", llamaConfig, name, "xx"))
		require.ErrorIs(t, err, modelfile.ErrMalformed)
		require.True(t, utf8.ValidString(err.Error()), "the message is valid UTF-8 and can be stored: %q", err)
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, len(err.Error()), 600)
	}
}

func TestReaders_storeFailureMidwayIsNotMalformed(t *testing.T) {
	t.Parallel()
	gone := errors.New("the disk is gone")
	whole := packed(t, "config.json", llamaConfig, "1.safetensors", part(700), "2.safetensors", part(3))
	files := map[string][]byte{"gguf": model().Bytes(), "safetensors": []byte(part(700)), "folder": whole}
	for name, read := range readers() {
		data := files[name]
		_, err := read(io.MultiReader(bytes.NewReader(data[:12]), broken{gone}), int64(len(data)))
		require.ErrorIs(t, err, gone, name)
		require.NotErrorIs(t, err, modelfile.ErrMalformed, name)
	}
}

type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

package modelfile_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/services/registry/internal/modelfile"
)

func TestFormat(t *testing.T) {
	t.Parallel()
	cases := []struct {
		paths       string
		want, words string
	}{
		{"model.gguf README.md", "gguf", ""},
		{"sub/model.gguf", "gguf", ""},
		{"model.safetensors", "safetensors", ""},
		{"config.json model.safetensors tokenizer.json", "safetensors", ""},
		{"config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors", "safetensors", ""},
		{"adapter_config.json adapter_model.safetensors README.md", "peft", ""},
		{"adapter_config.json adapter_model.bin", "", "the adapter has no adapter_model.safetensors"},
		{"a.gguf b.gguf", "", "2 GGUF files"},
		{"a.gguf config.json model.safetensors", "", "both"},
		{"m-00001-of-00002.gguf m-00002-of-00002.gguf", "", "llama-gguf-split --merge"},
		{"model.safetensors tokenizer.json", "", "no config.json"},
		{"hub/config.json hub/model.safetensors", "", "no config.json"},
		{"config.json pytorch_model.bin", "", "no weights"},
		{"", "", "no weights"},
	}
	for _, c := range cases {
		format, err := modelfile.Format(strings.Fields(c.paths))
		if c.words == "" {
			require.NoError(t, err, c.paths)
			require.Equal(t, c.want, format, c.paths)
			continue
		}
		require.ErrorContains(t, err, c.words, c.paths)
	}
}

func TestIsPickle(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pytorch_model.bin", "x/training_args.bin", "optimizer.pt", "rng_state_0.PTH", "vocab.pkl", "last.ckpt"} {
		require.True(t, modelfile.IsPickle(name, nil), name)
	}
	for _, name := range []string{"config.json", "model.safetensors", "model.gguf", "tokenizer.model", "README.md", "bin"} {
		require.False(t, modelfile.IsPickle(name, []byte("{\"a\"")), name)
	}
	for _, head := range []string{"\x80\x02}q", "\x80\x04\x95\x00", "PK\x03\x04"} {
		require.True(t, modelfile.IsPickle("tokenizer.json", []byte(head)), "%q", head)
	}
	for _, head := range []string{"", "\x80", "\x80\x01", "PK\x05\x06", "\x0a\x0d\x0a\x05"} {
		require.False(t, modelfile.IsPickle("tokenizer.model", []byte(head)), "%q", head)
	}
}

// readFiles reads files that are given as names and contents in turn, and returns the names of those that were opened.
func readFiles(format string, parts ...string) (facts modelfile.Facts, opened []string, err error) {
	contents := map[string]string{}
	var files []modelfile.File
	for i := 0; i < len(parts); i += 2 {
		contents[parts[i]] = parts[i+1]
		files = append(files, modelfile.File{Path: parts[i], Size: int64(len(parts[i+1]))})
	}
	facts, err = modelfile.Files(files, format, func(f modelfile.File) (io.ReadCloser, error) {
		opened = append(opened, f.Path)
		return io.NopCloser(strings.NewReader(contents[f.Path])), nil
	})
	return facts, opened, err
}

func TestFiles(t *testing.T) {
	t.Parallel()
	const adapter = `{"peft_type":"LORA","r":8,"base_model_name_or_path":"/tmp/base"}`
	const index = `{"weight_map":{"a":"1.safetensors","b":"2.safetensors"}}`
	cases := map[string]struct {
		format string
		files  []string
		want   modelfile.Facts
		opened string
		words  string
	}{
		"folder": {
			"safetensors",
			[]string{"config.json", llamaConfig, "model.safetensors", part(5), "onnx/x.safetensors", "bad", "README.md", "x"},
			modelfile.Facts{Architecture: "llama", Parameters: 5, Tensors: 1, Dtype: "u8"},
			"config.json model.safetensors", "",
		},
		"a copy in parts is not counted": {
			"safetensors",
			[]string{"1.safetensors", part(5), "config.json", llamaConfig, "model.safetensors", part(5), "model.safetensors.index.json", index},
			modelfile.Facts{Architecture: "llama", Parameters: 5, Tensors: 1, Dtype: "u8"},
			"config.json model.safetensors", "",
		},
		"parts": {
			"safetensors",
			[]string{"1.safetensors", part(5), "2.safetensors", part(6), "config.json", llamaConfig, "model.safetensors.index.json", index},
			modelfile.Facts{Architecture: "llama", Parameters: 11, Tensors: 2, Dtype: "u8"},
			"model.safetensors.index.json 1.safetensors 2.safetensors config.json", "",
		},
		"part missing": {
			"safetensors",
			[]string{"1.safetensors", part(5), "config.json", llamaConfig, "model.safetensors.index.json", index},
			modelfile.Facts{},
			"", `"2.safetensors", which is missing`,
		},
		"file beside the parts is not counted": {
			"safetensors",
			[]string{"1.safetensors", part(5), "2.safetensors", part(6), "all.safetensors", part(11), "config.json", llamaConfig, "model.safetensors.index.json", index},
			modelfile.Facts{Architecture: "llama", Parameters: 11, Tensors: 2, Dtype: "u8"},
			"model.safetensors.index.json 1.safetensors 2.safetensors config.json", "",
		},
		"index of other files": {
			"safetensors",
			[]string{"README.md", "x", "1.safetensors", part(5), "config.json", llamaConfig, "model.safetensors.index.json", `{"weight_map":{"a":"README.md"}}`},
			modelfile.Facts{},
			"", `"README.md", which is not a safetensors file`,
		},
		"index of a file in a folder": {
			"safetensors",
			[]string{"sub/1.safetensors", part(5), "1.safetensors", part(5), "config.json", llamaConfig, "model.safetensors.index.json", `{"weight_map":{"a":"sub/1.safetensors"}}`},
			modelfile.Facts{},
			"", `"sub/1.safetensors", which is not a safetensors file beside it`,
		},
		"one of two parts": {
			"safetensors", []string{"config.json", llamaConfig, "model-00001-of-00002.safetensors", part(5)}, modelfile.Facts{}, "", "1 of the 2 parts",
		},
		"two of two parts": {
			"safetensors",
			[]string{"config.json", llamaConfig, "model-00001-of-00002.safetensors", part(5), "model-00002-of-00002.safetensors", part(6)},
			modelfile.Facts{Architecture: "llama", Parameters: 11, Tensors: 2, Dtype: "u8"},
			"config.json model-00001-of-00002.safetensors model-00002-of-00002.safetensors", "",
		},
		"pointer of Git LFS": {
			"safetensors", []string{"config.json", llamaConfig, "model.safetensors", "version https://git-lfs.github.com/spec/v1\noid sha256:0"}, modelfile.Facts{}, "", "git lfs pull",
		},
		"index has no valid JSON": {
			"safetensors",
			[]string{"1.safetensors", part(5), "config.json", llamaConfig, "model.safetensors.index.json", "{"},
			modelfile.Facts{},
			"", "model.safetensors.index.json is not valid JSON",
		},
		"single file": {
			"safetensors",
			[]string{"weights.safetensors", part(5)},
			modelfile.Facts{Parameters: 5, Tensors: 1, Dtype: "u8"},
			"weights.safetensors", "",
		},
		"chat template": {
			"safetensors",
			[]string{
				"chat_template.jinja", "abc", "config.json", `{"model_type":"qwen2","quantization_config":{"quant_method":"awq"}}`,
				"model.safetensors", part(5), "tokenizer_config.json", `{"chat_template":"other"}`,
			},
			modelfile.Facts{
				Architecture: "qwen2", Parameters: 5, Tensors: 1, Dtype: "u8", Quantization: "awq",
				ChatTemplateSHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			},
			"chat_template.jinja config.json model.safetensors tokenizer_config.json", "",
		},
		"template of the tokenizer": {
			"safetensors",
			[]string{"config.json", llamaConfig, "model.safetensors", part(5), "tokenizer_config.json", `{"chat_template":"abc"}`},
			modelfile.Facts{
				Architecture: "llama", Parameters: 5, Tensors: 1, Dtype: "u8",
				ChatTemplateSHA256: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
			},
			"config.json model.safetensors tokenizer_config.json", "",
		},
		"adapter": {
			"peft",
			[]string{"adapter_config.json", adapter, "adapter_model.safetensors", part(5), "config.json", "bad"},
			modelfile.Facts{Parameters: 5, Tensors: 1, Dtype: "u8", AdapterType: "LORA", AdapterRank: 8, BaseModel: "/tmp/base"},
			"adapter_config.json adapter_model.safetensors", "",
		},
		"adapter that has no valid JSON": {
			"peft", []string{"adapter_config.json", "[", "adapter_model.safetensors", part(5)}, modelfile.Facts{}, "", "adapter_config.json is not valid JSON",
		},
		"gguf": {
			"gguf", []string{"README.md", "x", "sub/model.gguf", model().String()}, ggufFacts(t), "sub/model.gguf", "",
		},
		"another format as gguf": {"gguf", []string{"model.gguf", "GGML0000"}, modelfile.Facts{}, "", "not GGUF"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facts, opened, err := readFiles(c.format, c.files...)
			if c.words != "" {
				require.ErrorIs(t, err, modelfile.ErrMalformed)
				require.ErrorContains(t, err, c.words)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, facts)
			require.Equal(t, c.opened, strings.Join(opened, " "), "only these files are opened")
		})
	}
}

func ggufFacts(t *testing.T) modelfile.Facts {
	t.Helper()
	facts, err := modelfile.GGUF(model(), int64(model().Len()))
	require.NoError(t, err)
	return facts
}

func TestFiles_storeFailureIsNotMalformed(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"safetensors", "peft", "gguf"} {
		files := []modelfile.File{{Path: "m.gguf", Size: 9}, {Path: "config.json", Size: 9}, {Path: "adapter_config.json", Size: 9}}
		_, err := modelfile.Files(files, format, func(modelfile.File) (io.ReadCloser, error) { return nil, errors.New("the disk is gone") })
		require.ErrorContains(t, err, "the disk is gone", format)
		require.NotErrorIs(t, err, modelfile.ErrMalformed, format)
	}
}

// The weights of an adapter are in one file, and those beside it belong to other models.
func TestPacked_adapter(t *testing.T) {
	t.Parallel()
	read := func(parts ...string) (modelfile.Facts, error) {
		data := packed(t, parts...)
		return modelfile.Packed(bytes.NewReader(data), int64(len(data)), "peft")
	}
	facts, err := read("base/model.safetensors", part(50), "adapter_config.json", `{"r":8}`, "adapter_model.safetensors", part(5))
	require.NoError(t, err)
	require.EqualValues(t, 5, facts.Parameters)
	_, err = read("adapter_config.json", `{"r":8}`, "model.safetensors", part(5))
	require.ErrorContains(t, err, "no adapter_model.safetensors")
}

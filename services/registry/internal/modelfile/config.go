package modelfile

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"slices"

	"github.com/signalbox-dev/signalbox/platform/textfile"
)

const (
	// maxConfig is the maximum size of a configuration, and maxIndex that of an index of parts, both in bytes.
	maxConfig = 1 << 20
	maxIndex  = 16 << 20
	// maxTokenizer is the maximum size of a tokenizer's configuration whose chat template is read. Larger ones are valid.
	maxTokenizer = 8 << 20
)

// configuration reads the config.json of a model.
func (f *folder) configuration(r io.Reader, size int64) error {
	var c struct {
		ModelType    string `json:"model_type"`
		Context      int64  `json:"max_position_embeddings"`
		Width        int64  `json:"hidden_size"`
		Layers       int64  `json:"num_hidden_layers"`
		Vocab        int64  `json:"vocab_size"`
		Quantization struct {
			Method string `json:"quant_method"`
		} `json:"quantization_config"`
	}
	if err := document(configName, r, size, maxConfig, &c); err != nil {
		return err
	}
	// Some configurations use negative values for "unknown".
	f.facts.Architecture, f.facts.ContextLength, f.facts.EmbeddingLength = word(c.ModelType), max(c.Context, 0), max(c.Width, 0)
	f.facts.BlockCount, f.facts.VocabSize, f.facts.Quantization = max(c.Layers, 0), max(c.Vocab, 0), word(c.Quantization.Method)
	f.config = true
	return nil
}

// adapter reads the adapter_config.json of a PEFT adapter.
func (f *folder) adapter(r io.Reader, size int64) error {
	var c struct {
		Type string `json:"peft_type"`
		Rank int64  `json:"r"`
		Base string `json:"base_model_name_or_path"`
	}
	if err := document(adapterConfigName, r, size, maxConfig, &c); err != nil {
		return err
	}
	f.facts.AdapterType, f.facts.AdapterRank, f.facts.BaseModel = word(c.Type), max(c.Rank, 0), word(c.Base)
	f.config = true
	return nil
}

// index reads the names of the files in an index of parts.
func (f *folder) index(r io.Reader, size int64) error {
	var c struct {
		Files map[string]string `json:"weight_map"`
	}
	if err := document(indexName, r, size, maxIndex, &c); err != nil {
		return err
	}
	names := map[string]bool{}
	for _, name := range c.Files {
		names[name] = true
	}
	if len(names) > maxEntries {
		return malformed("%s names more than %d files", indexName, maxEntries)
	}
	for name := range names {
		f.indexed = append(f.indexed, name)
	}
	slices.Sort(f.indexed)
	return nil
}

// template records the digest of the chat template, which is in a file of its own or in the tokenizer's configuration.
func (f *folder) template(name string, r io.Reader, size int64) error {
	if size > maxTokenizer {
		return nil
	}
	raw, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return notTar(err)
	}
	text := string(raw)
	if name == tokenizerName {
		var c struct {
			Template any `json:"chat_template"`
		}
		// A file of its own has precedence. The engine reports a configuration that it cannot read.
		if text = ""; json.Unmarshal(raw, &c) == nil && f.facts.ChatTemplateSHA256 == "" {
			text, _ = c.Template.(string)
		}
	}
	if text == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(text))
	f.facts.ChatTemplateSHA256 = hex.EncodeToString(sum[:])
	return nil
}

// document decodes a JSON file of at most limit bytes.
func document(name string, r io.Reader, size, limit int64, into any) error {
	if size > limit {
		return malformed("%s has %d bytes; at most %d are allowed", name, size, limit)
	}
	text := bufio.NewReader(io.LimitReader(r, limit))
	textfile.SkipByteOrderMark(text)
	raw, err := io.ReadAll(text)
	if err != nil {
		return notTar(err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return malformed("%s is not valid JSON of the expected form", name)
	}
	return nil
}

// word returns a text of a configuration, or "" if it is too long to be recorded.
func word(s string) string {
	if len(s) > maxWord {
		return ""
	}
	return s
}

package modelfile

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

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
	c := settings{}
	if err := document(configName, r, size, maxConfig, &c); err != nil {
		return err
	}
	quantization := settings{}
	_ = json.Unmarshal(c["quantization_config"], &quantization) // another form states no method
	// Some configurations use negative values for "unknown".
	f.facts.Architecture, f.facts.ContextLength, f.facts.EmbeddingLength = c.word("model_type"), c.count("max_position_embeddings"), c.count("hidden_size")
	f.facts.BlockCount, f.facts.VocabSize, f.facts.Quantization = c.count("num_hidden_layers"), c.count("vocab_size"), quantization.word("quant_method")
	f.config = true
	return nil
}

// adapter reads the adapter_config.json of a PEFT adapter.
func (f *folder) adapter(r io.Reader, size int64) error {
	c := settings{}
	if err := document(adapterConfigName, r, size, maxConfig, &c); err != nil {
		return err
	}
	f.facts.AdapterType, f.facts.AdapterRank, f.facts.BaseModel = c.word("peft_type"), c.count("r"), c.word("base_model_name_or_path")
	f.config = true
	return nil
}

// settings are the members of a configuration. A member of an unexpected form states nothing, because the forms differ
// between the versions of the libraries that write them.
type settings map[string]json.RawMessage

// count returns a number that is not negative, or 0.
func (s settings) count(name string) int64 {
	var n float64
	const most = 1 << 53
	if json.Unmarshal(s[name], &n) != nil || n < 0 || n > most || n != math.Trunc(n) {
		return 0
	}
	return int64(n)
}

// word returns a text, or "" if it is too long to be recorded or has control characters.
func (s settings) word(name string) string {
	var text string
	if json.Unmarshal(s[name], &text) != nil || len(text) > maxWord || strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
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
		if !strings.HasSuffix(name, weightsSuffix) || strings.Contains(name, "/") {
			return malformed("%s names %.80q, which is not a safetensors file beside it", indexName, name)
		}
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
	if err := json.Unmarshal(finite(raw), into); err != nil {
		return malformed("%s is not valid JSON of the expected form", name)
	}
	return nil
}

// pythonNumber matches a text, or a number that Python writes into JSON although JSON does not have it.
var pythonNumber = regexp.MustCompile(`"(?:[^"\\]|\\.)*"|-?Infinity\b|\bNaN\b`)

// finite replaces the numbers that JSON does not have by null.
func finite(raw []byte) []byte {
	return pythonNumber.ReplaceAllFunc(raw, func(token []byte) []byte {
		if token[0] == '"' {
			return token
		}
		return []byte("null")
	})
}

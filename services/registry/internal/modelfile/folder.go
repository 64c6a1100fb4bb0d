package modelfile

import (
	"archive/tar"
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/textfile"
)

const (
	// maxEntries is the maximum number of files in a folder, and maxConfig the maximum size of its config.json in
	// bytes.
	maxEntries = 10000
	maxConfig  = 1 << 20
)

// Folder reads a tar file of a Hugging Face folder: config.json and the header of every safetensors file. It stops
// reading once it has read config.json and a file that contains the whole model.
func Folder(r io.Reader, size int64) (Facts, error) {
	f := &folder{shards: shards{held: map[string]uint64{}}}
	in := tar.NewReader(io.LimitReader(r, size))
	for n := 0; ; n++ {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Facts{}, notTar(err)
		}
		if n == maxEntries {
			return Facts{}, malformed("the folder has more than %d files", maxEntries)
		}
		if h.Size > size {
			// A sparse entry can claim more bytes than the tar file has.
			return Facts{}, malformed("file %.80q has %d bytes, but the whole folder has %d", h.Name, h.Size, size)
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := f.entry(path.Base(h.Name), in, h.Size); err != nil {
			return Facts{}, err
		}
		if f.config && f.whole {
			break
		}
	}
	switch {
	case !f.config:
		return Facts{}, malformed("the folder has no config.json")
	case f.files == 0:
		return Facts{}, malformed("the folder has no safetensors file")
	}
	return f.sum(), nil
}

// folder is the state of reading a folder.
type folder struct {
	shards

	config, whole bool
	files         int
}

func (f *folder) entry(name string, r io.Reader, size int64) error {
	switch {
	case name == "config.json":
		return f.configuration(r, size)
	case strings.HasSuffix(name, ".safetensors"):
		f.files++
		f.whole = name == "model.safetensors" // A file of another name may be one of several parts.
		if err := f.add(r, size); err != nil {
			return fmt.Errorf("%.80q: %w", name, err) // %q because the name may contain any bytes.
		}
	}
	return nil
}

func (f *folder) configuration(r io.Reader, size int64) error {
	if size > maxConfig {
		return malformed("config.json has %d bytes; at most %d are allowed", size, maxConfig)
	}
	text := bufio.NewReader(io.LimitReader(r, maxConfig))
	textfile.SkipByteOrderMark(text)
	raw, err := io.ReadAll(text)
	if err != nil {
		return notTar(err)
	}
	var c struct {
		ModelType string `json:"model_type"`
		Context   int64  `json:"max_position_embeddings"`
		Width     int64  `json:"hidden_size"`
		Layers    int64  `json:"num_hidden_layers"`
		Vocab     int64  `json:"vocab_size"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return malformed("config.json is not a valid model configuration")
	}
	if len(c.ModelType) > maxWord {
		c.ModelType = ""
	}
	// Some configurations use negative values for "unknown".
	f.facts.Architecture, f.facts.ContextLength, f.facts.EmbeddingLength = c.ModelType, max(c.Context, 0), max(c.Width, 0)
	f.facts.BlockCount, f.facts.VocabSize = max(c.Layers, 0), max(c.Vocab, 0)
	f.config = true
	return nil
}

// notTar distinguishes an invalid tar file, which is malformed, from a failure of the object store.
func notTar(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrInsecurePath) {
		return malformed("not a complete tar file")
	}
	return fmt.Errorf("read a model file: %w", err)
}

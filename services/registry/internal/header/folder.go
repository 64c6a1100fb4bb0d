package header

import (
	"archive/tar"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"
)

const (
	// maxEntries bounds how many files a folder may have, maxConfig how long its configuration may be.
	maxEntries = 10000
	maxConfig  = 1 << 20
)

// Folder reads the headers in a tar file of a Hugging Face folder: config.json and every safetensors file.
// It reads no further than it must.
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
			return Facts{}, malformed("its folder has more than %d files", maxEntries)
		}
		if h.Size > size {
			// A sparse entry has more bytes than the file that holds it.
			return Facts{}, malformed("its file %.80q has %d bytes, the whole folder %d", h.Name, h.Size, size)
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
		return Facts{}, malformed("its folder has no config.json")
	case f.files == 0:
		return Facts{}, malformed("its folder has no safetensors file")
	}
	return f.sum(), nil
}

// folder is what has been seen of it.
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
		f.whole = name == "model.safetensors" // Else there may be more parts.
		if err := f.add(r, size); err != nil {
			return fmt.Errorf("%.80q: %w", name, err) // The name may be of any bytes.
		}
	}
	return nil
}

func (f *folder) configuration(r io.Reader, size int64) error {
	if size > maxConfig {
		return malformed("its config.json has %d bytes", size)
	}
	raw, err := io.ReadAll(io.LimitReader(r, maxConfig))
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
		return malformed("its config.json is not one")
	}
	if len(c.ModelType) > maxWord {
		c.ModelType = ""
	}
	// Less than none is how some write that they do not say.
	f.facts.Architecture, f.facts.ContextLength, f.facts.EmbeddingLength = c.ModelType, max(c.Context, 0), max(c.Width, 0)
	f.facts.BlockCount, f.facts.VocabSize = max(c.Layers, 0), max(c.Vocab, 0)
	f.config = true
	return nil
}

// notTar tells bytes that are no tar file from a store that failed.
func notTar(err error) error {
	if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) ||
		errors.Is(err, tar.ErrFieldTooLong) || errors.Is(err, tar.ErrInsecurePath) {
		return malformed("it is not a whole tar file")
	}
	return fmt.Errorf("read a model file: %w", err)
}

package modelfile

import (
	"archive/tar"
	"cmp"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// maxEntries is the maximum number of files in a folder.
const maxEntries = 10000

// Packed reads a tar file of a folder in the format safetensors or peft: its configuration and the header of every
// safetensors file. It stops reading once it has read the configuration and a file that contains the whole model.
func Packed(r io.Reader, size int64, format string) (Facts, error) {
	f := newFolder(format)
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
		name := path.Base(h.Name)
		f.present[name] = true
		if err := f.entry(name, in, h.Size); err != nil {
			return Facts{}, err
		}
		if f.config && f.whole {
			break
		}
	}
	return f.end()
}

// File is a file of a folder. Its path is relative to the folder.
type File struct {
	Path string
	Size int64
}

// Files reads the headers of the files of a folder, or of a single file, in a format that Format returned. It opens only
// the files that it reads.
func Files(files []File, format string, open func(File) (io.ReadCloser, error)) (Facts, error) {
	f := newFolder(format)
	f.single = format == FormatGGUF || len(files) == 1
	for _, file := range files {
		f.present[file.Path] = true
	}
	f.whole = f.present[wholeName]
	// The index states which of the other files belong to the model.
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return cmp.Compare(later(a), later(b)) })
	for _, file := range files {
		if !f.reads(file.Path) {
			continue
		}
		if err := f.open(file, open); err != nil {
			return Facts{}, err
		}
	}
	return f.end()
}

// later orders the index before the other files.
func later(file File) int {
	if file.Path == indexName {
		return 0
	}
	return 1
}

// folder is the state of reading a folder.
type folder struct {
	shards

	format string
	// single means that the model is one file without a configuration.
	single bool
	// config means that the configuration was read, and whole that the folder has a file with the whole model.
	config, whole bool
	files         int
	// parts is the number of files that the model has by their names.
	parts int
	// indexed are the files that the index of the parts names, and present those of the folder, each at most maxEntries.
	indexed []string
	present map[string]bool
}

// partName matches the name of a part of a model.
var partName = regexp.MustCompile(`-\d{5}-of-(\d{5})\.safetensors$`)

func newFolder(format string) *folder {
	return &folder{shards: shards{held: map[string]uint64{}}, format: format, present: map[string]bool{}}
}

// names returns the names of the configuration and of the file that contains all weights.
func (f *folder) names() (config, whole string) {
	if f.format == FormatPEFT {
		return adapterConfigName, adapterName
	}
	return configName, wholeName
}

// reads reports whether a file of the folder is read. Of a folder with all weights in one file, the others are copies or
// belong to other models.
func (f *folder) reads(name string) bool {
	config, whole := f.names()
	switch {
	case f.format == FormatGGUF:
		return strings.HasSuffix(name, ggufSuffix)
	case strings.Contains(name, "/"):
		return false
	case strings.HasSuffix(name, weightsSuffix):
		return name == whole || f.format == FormatSafetensors && !f.whole && (len(f.indexed) == 0 || slices.Contains(f.indexed, name))
	}
	return name == config || name == templateName || name == tokenizerName || name == indexName && !f.whole && f.format == FormatSafetensors
}

func (f *folder) open(file File, open func(File) (io.ReadCloser, error)) error {
	body, err := open(file)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if f.format == FormatGGUF {
		f.facts, err = GGUF(body, file.Size)
		return err
	}
	return f.entry(file.Path, body, file.Size)
}

// end returns the facts, or what the folder lacks.
func (f *folder) end() (Facts, error) {
	config, _ := f.names()
	switch {
	case f.format == FormatGGUF:
		return f.facts, nil
	case !f.config && !f.single:
		return Facts{}, malformed("the folder has no %s", config)
	case f.files == 0 && f.format == FormatPEFT:
		return Facts{}, malformed("the folder has no %s", adapterName)
	case f.files == 0:
		return Facts{}, malformed("the folder has no safetensors file")
	}
	for _, name := range f.indexed {
		if !f.present[name] && !f.whole {
			return Facts{}, malformed("%s names the file %.80q, which is missing", indexName, name)
		}
	}
	if f.parts > 0 && f.files < f.parts && !f.whole {
		return Facts{}, malformed("the folder has %d of the %d parts of the model", f.files, f.parts)
	}
	return f.sum(), nil
}

func (f *folder) entry(name string, r io.Reader, size int64) error {
	config, whole := f.names()
	switch {
	case name == config && f.format == FormatPEFT:
		return f.adapter(r, size)
	case name == config:
		return f.configuration(r, size)
	case name == indexName:
		return f.index(r, size)
	case name == tokenizerName || name == templateName:
		return f.template(name, r, size)
	case strings.HasSuffix(name, weightsSuffix) && (f.format == FormatSafetensors || name == whole):
		f.files++
		if of := partName.FindStringSubmatch(name); of != nil && !f.single {
			f.parts, _ = strconv.Atoi(of[1]) // five digits
		}
		f.whole = f.whole || name == whole // A file of another name may be one of several parts.
		if err := f.add(r, size); err != nil {
			return fmt.Errorf("%.80q: %w", name, err) // %q because the name may contain any bytes.
		}
	}
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

package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/output"
	"github.com/signalbox-dev/signalbox/cmd/signalbox/internal/session"
)

const (
	// maxModelFiles is the maximum number of files that the server accepts in a version of a model.
	maxModelFiles = 500
	// maxModelEntries bounds what is looked at in a folder.
	maxModelEntries = 100_000
	weightsExt      = ".safetensors"
	ggufExt         = ".gguf"
)

// modelFolder are the files of a model on this machine, without their digests, and the entries that are left out.
type modelFolder struct {
	path  string
	files []localFile
	left  []leftOut
	seen  int
}

// leftOut is an entry of a folder that is not part of the model. The name of a folder ends in a slash.
type leftOut struct{ name, why string }

// findModelFiles returns the files of a model: one file, or those of a folder that a model consists of.
func findModelFiles(path string) (*modelFolder, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, session.Usage("%s", err)
	}
	m := &modelFolder{path: path}
	switch {
	case info.Mode().IsRegular():
		m.files = []localFile{{name: filepath.Base(path), path: path, size: info.Size()}}
		return m, nil
	case !info.IsDir():
		return nil, session.Usage("%s is neither a file nor a folder", path)
	}
	top, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, session.Usage("%s", err)
	}
	err = filepath.WalkDir(top, func(at string, entry fs.DirEntry, err error) error {
		if err != nil {
			return session.Usage("%s", err)
		}
		name, err := filepath.Rel(top, at)
		if err != nil || name == "." {
			return err
		}
		return m.entry(filepath.ToSlash(name), at, entry)
	})
	if err != nil {
		return nil, err
	}
	m.leaveOutPickles()
	return m, nil
}

// entry adds a file of the folder, or leaves it out.
func (m *modelFolder) entry(name, at string, entry fs.DirEntry) error {
	if m.seen++; m.seen > maxModelEntries {
		return session.Usage("%s has more than %d files and folders; name the folder of one model", m.path, maxModelEntries)
	}
	if entry.IsDir() {
		if why := excludedFolder(entry.Name()); why != "" {
			m.left = append(m.left, leftOut{name + "/", why})
			return fs.SkipDir
		}
		return nil
	}
	if strings.HasPrefix(entry.Name(), ".") {
		m.left = append(m.left, leftOut{name, hidden})
		return nil
	}
	info, err := os.Stat(at) // the caches of downloads have symbolic links to the files
	if errors.Is(err, fs.ErrNotExist) {
		return session.Usage("%s is a link to a file that does not exist; complete the download of the model first", filepath.Join(m.path, filepath.FromSlash(name)))
	}
	switch {
	case err != nil:
		return session.Usage("%s", err)
	case info.IsDir():
		m.left = append(m.left, leftOut{name, "link to a folder"})
	case !info.Mode().IsRegular():
		m.left = append(m.left, leftOut{name, "not a regular file"})
	default:
		m.files = append(m.files, localFile{name: name, path: at, size: info.Size()})
	}
	return nil
}

const hidden = "hidden"

// excludedFolder returns why a folder is not a part of the model above it, or "".
func excludedFolder(name string) string {
	switch {
	case strings.HasPrefix(name, "."):
		return hidden
	case strings.HasPrefix(name, "checkpoint-"):
		return "checkpoint of a training"
	case name == "original":
		return "weights in their original format"
	case name == "__pycache__":
		return "compiled Python"
	}
	return ""
}

// leaveOutPickles leaves out the pickles that a training leaves beside weights in safetensors, and copies of these weights. Other
// pickles stay, and the server refuses them.
func (m *modelFolder) leaveOutPickles() {
	if !slices.ContainsFunc(m.files, func(f localFile) bool { return path.Ext(f.name) == weightsExt }) {
		return
	}
	m.files = slices.DeleteFunc(m.files, func(f localFile) bool {
		why := leftover(path.Base(f.name))
		if why != "" {
			m.left = append(m.left, leftOut{f.name, why})
		}
		return why != ""
	})
}

// leftover returns why a file beside weights in safetensors is not needed, or "".
func leftover(name string) string {
	matches := func(patterns ...string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			ok, _ := path.Match(pattern, name)
			return ok
		})
	}
	switch {
	case matches("training_args.bin", "optimizer.pt", "scheduler.pt", "scaler.pt", "rng_state*.pth"):
		return "pickle with the state of a training"
	case matches("pytorch_model*.bin", "pytorch_model*.bin.index.json", "consolidated*.pth", "adapter_model.bin"):
		return "pickle beside the same weights in safetensors"
	}
	return ""
}

var partName = regexp.MustCompile(`-\d{5}-of-\d{5}\.(safetensors|gguf)$`)

// check returns an error if the files cannot be one version, as far as that shows before large files are read.
func (m *modelFolder) check(model string) error {
	if len(m.files) == 0 {
		return session.Usage("there are no files of a model in %s", m.path)
	}
	if len(m.files) > maxModelFiles {
		return session.Usage("%s has %d files of a model; a version has at most %d, so name the folder of one model", m.path, len(m.files), maxModelFiles)
	}
	var ggufs []string
	for _, f := range m.files {
		if path.Ext(f.name) == ggufExt {
			ggufs = append(ggufs, f.name)
		}
	}
	switch {
	case slices.ContainsFunc(ggufs, partName.MatchString):
		return session.Usage("%s is a part of a GGUF file; merge the parts first: llama-gguf-split --merge", ggufs[slices.IndexFunc(ggufs, partName.MatchString)])
	case len(ggufs) > 1:
		return session.Usage("%s has %d GGUF files, and a version has one; name it: signalbox models import %s %s", m.path, len(ggufs), model,
			filepath.Join(m.path, filepath.FromSlash(ggufs[0])))
	case len(m.files) == 1 && partName.MatchString(m.files[0].name):
		return session.Usage("%s is a part of a model; name its folder", m.files[0].name)
	}
	return nil
}

// leftOutText returns a line that names the entries that are left out with the reasons, or "".
func (m *modelFolder) leftOutText() string {
	const most = 8
	var texts []string
	for _, l := range m.left[:min(len(m.left), most)] {
		texts = append(texts, output.Printable(l.name)+" ("+l.why+")")
	}
	if len(m.left) > most {
		texts = append(texts, fmt.Sprintf("and %d more, which --list-files lists", len(m.left)-most))
	}
	if texts == nil {
		return ""
	}
	return "left out: " + strings.Join(texts, ", ")
}

// listModel prints what an import would send and what it would leave out.
func (t *tool) listModel(m *modelFolder) error {
	type row struct {
		Path     string `json:"path"`
		Size     *int64 `json:"size_bytes"` // null for what is left out
		Excluded string `json:"excluded"`
	}
	rows := make([]row, 0, len(m.files)+len(m.left))
	for _, f := range m.files {
		rows = append(rows, row{Path: f.name, Size: &f.size})
	}
	for _, l := range m.left {
		rows = append(rows, row{Path: l.name, Excluded: l.why})
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Path, b.Path) })
	raws := make([]json.RawMessage, len(rows))
	for i, r := range rows {
		raw, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("print a file: %w", err)
		}
		raws[i] = raw
	}
	p, err := t.Printer()
	if err != nil {
		return err
	}
	return p.Rows([]output.Column{{Name: "path"}, {Name: "size", Path: "size_bytes", Right: true, As: output.Bytes}, {Name: "excluded"}}, raws)
}

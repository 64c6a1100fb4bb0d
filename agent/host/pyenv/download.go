package pyenv

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// download downloads the requirements with pip, except wheels that are cached, and adds the new wheels to the cache. It
// returns the options with which the installer finds the files. If the cache is off, if the interpreter has no pip that
// can do this, or if the download fails, it returns no options: the installer then downloads everything itself, and
// reports what is wrong.
func (i installer) download(ctx context.Context) (options []string, err error) {
	w := i.builder.wheels
	if w.max <= 0 || len(i.sums) == 0 || i.ownIndexes() || !i.basePip() {
		return nil, nil
	}
	cached := w.offer(i.sums, i.builder.clock.Now())
	index, dir := filepath.Join(i.temp, "index"), filepath.Join(i.temp, "wheels")
	if err := writeIndex(index, cached); err != nil {
		return nil, err
	}
	s := i.describe([]string{
		i.python.Path, "-m", "pip", "download", "--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-deps",
		"--require-hashes", "--only-binary", ":all:", "--extra-index-url", "file://" + index, "--dest", dir, "-r", i.list,
	}, i.pipSettings())
	for _, c := range cached {
		s.Readable = append(s.Readable, filepath.Dir(c.path))
	}
	if _, err := i.builder.runStep(ctx, s); err != nil {
		if err := nodeFailure(ctx, err); err != nil {
			return nil, err
		}
		return nil, w.verify(cached)
	}
	if err := w.keep(dir, i.sums, cached); err != nil {
		return nil, err
	}
	return findLinks(dir)
}

// findLinks returns the options with which an installer takes files from dir. To build a source distribution, the
// installer may need packages from an index; if there are only wheels, it needs no index.
func findLinks(dir string) ([]string, error) {
	files, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list the downloaded files: %w", err)
	}
	options := []string{"--find-links", dir}
	if !slices.ContainsFunc(files, func(f os.DirEntry) bool { return !strings.HasSuffix(f.Name(), ".whl") }) {
		options = append(options, "--no-index")
	}
	return options, nil
}

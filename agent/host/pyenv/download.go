package pyenv

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// download is how a build downloads the wheels that are not cached.
type download struct {
	wheels wheels
	// command downloads all packages into dir. It is empty if nothing is to be cached.
	command []string
	dir     string
	sums    []string
	cached  []offered
}

// planDownload returns the download of the requirements with pip. The command takes cached wheels from the cache. There
// is no download if the cache is off, if the user has configured indexes that pip does not know, or if the interpreter
// has no pip that can do this.
func (i installer) planDownload() (download, error) {
	d := download{wheels: i.builder.wheels, sums: i.sums, dir: filepath.Join(i.temp, "wheels")}
	if d.wheels.max <= 0 || len(d.sums) == 0 || i.ownIndexes() || !i.basePip().usable {
		return d, nil
	}
	d.cached = d.wheels.offer(d.sums, i.builder.clock.Now())
	index := filepath.Join(i.temp, "index")
	if err := writeIndex(index, d.cached); err != nil {
		return d, err
	}
	d.command = []string{
		i.python.Path, "-m", "pip", "download", "--no-input", "--progress-bar", "off", "--disable-pip-version-check", "--no-deps",
		"--require-hashes", "--only-binary", ":all:", "--extra-index-url", "file://" + index, "--dest", d.dir, "-r", i.list,
	}
	return d, nil
}

func (d download) on() bool { return len(d.command) > 0 }

// cachedFolders returns the folders of the cached wheels that the build may use.
func (d download) cachedFolders() []string {
	folders := make([]string, 0, len(d.cached))
	for _, c := range d.cached {
		folders = append(folders, filepath.Dir(c.path))
	}
	return folders
}

// keep adds the new wheels to the cache after the build has ended. Without the folder of downloaded files, the download
// has failed. A damaged wheel in the cache may be the reason, so keep then removes such wheels.
func (d download) keep() error {
	if !d.on() {
		return nil
	}
	if _, err := os.Lstat(d.dir); errors.Is(err, fs.ErrNotExist) {
		return d.wheels.verify(d.cached)
	}
	return d.wheels.keep(d.dir, d.sums, d.cached)
}

// Package pysdk carries the Python reporter, the package `signalbox` that training code imports,
// inside the Go binaries: the agent lays it out beside a run and puts that folder on PYTHONPATH,
// so that the reporter always speaks the dialect of the control plane it came with. It owns no
// behaviour; the Python sources next to this file are the truth.
package pysdk

import (
	"embed"
	"io/fs"
)

//go:embed src/signalbox/*.py src/signalbox/py.typed
var files embed.FS

// Files is the tree to put on PYTHONPATH: it holds the folder signalbox/ with the package.
func Files() (fs.FS, error) {
	return fs.Sub(files, "src")
}

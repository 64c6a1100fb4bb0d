// Package pysdk embeds the Python reporter, the package `signalbox` that training code imports, in the Go binaries.
// The agent writes it to a folder of each run and adds that folder to PYTHONPATH, so that the reporter always has the
// version of its control plane. The package has no behaviour of its own; the Python sources next to this file are the
// reporter.
package pysdk

import (
	"embed"
	"io/fs"
)

//go:embed src/signalbox/*.py src/signalbox/py.typed
var files embed.FS

// Files returns the tree for PYTHONPATH: the folder signalbox/ with the package.
func Files() (fs.FS, error) {
	return fs.Sub(files, "src")
}

// Package pysdk embeds the Python reporter, the package `signalbox` that training code imports, in the Go binaries.
// The agent writes the reporter to a folder and adds that folder to the PYTHONPATH of each run, so that the reporter
// always has the version of the agent. The package has no behaviour of its own; the Python sources next to this file
// are the reporter.
package pysdk

import (
	"embed"
	"io/fs"
)

//go:embed src/signalbox/*.py src/signalbox/hf/*.py src/signalbox/py.typed
var files embed.FS

// Files returns the tree for PYTHONPATH: the folder signalbox/ with the package.
func Files() (fs.FS, error) {
	return fs.Sub(files, "src")
}

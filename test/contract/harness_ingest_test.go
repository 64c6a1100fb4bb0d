package contract

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/test/fixtures"
)

// addBroken creates a run with an uploaded object and an artifact that the object store can no longer read.
func (b *builder) addBroken() {
	b.Helper()
	r := b.train()
	r.lifecycle("running")
	const name = "broken.gguf"
	uri := r.uploadObject(name, fixtures.GGUF(r.run))
	folders := 0
	require.NoError(b, filepath.WalkDir(b.Dir, func(path string, d fs.DirEntry, err error) error {
		// The store represents an object as a folder with one file. A second file makes the object unreadable.
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), name) && strings.Contains(path, r.run) {
			folders++
			return os.WriteFile(filepath.Join(path, "another"), nil, 0o600)
		}
		return nil
	}))
	require.Equal(b, 1, folders)
	artifact := fixtures.GGUF(r.run + "-registered")
	b.set("broken_artifact", r.upload("registered.gguf", artifact))
	b.breakObject(digestOf(artifact))
	b.set("broken_run", r.run)
	b.set("broken_ingest", r.token)
	b.set("broken_object", uri)
}

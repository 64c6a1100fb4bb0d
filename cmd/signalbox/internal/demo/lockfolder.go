package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// occupy locks the data folder for this demo before anything in it is changed. If another demo or a server holds
// the folder, the error names the holder, its address and the remedy.
func occupy(data string) (*localfile.FolderLock, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("create the data folder: %w", err)
	}
	held, err := localfile.LockFolder(filepath.Join(data, "demo.lock"))
	if err != nil {
		return nil, occupied(data, "signalbox demo or dev", err)
	}
	// A server may use the folder without a demo, or may still run after its demo was killed.
	if err := localfile.CheckFolderFree(filepath.Join(data, "lock")); err != nil {
		return nil, errors.Join(occupied(data, "signalboxd", err), held.Close())
	}
	// The folder has passwords and keys, and is often in a working copy.
	if err := os.WriteFile(filepath.Join(data, ".gitignore"), []byte("*\n"), localfile.PrivateMode); err != nil {
		return nil, errors.Join(fmt.Errorf("exclude the data folder from version control: %w", err), held.Close())
	}
	return held, nil
}

func occupied(data, by string, err error) error {
	taken, ok := errors.AsType[*localfile.FolderLockedError](err)
	if !ok {
		return fmt.Errorf("lock the data folder: %w", err)
	}
	return fmt.Errorf("the data folder %s is in use by another %s%s; use that one, stop it (Ctrl-C in its terminal), "+
		"or run this one beside it with --data ANOTHER_FOLDER --listen 127.0.0.1:0", data, by, taken.Holder)
}

package demo

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/internal/boot/hold"
)

// occupy takes the data folder for this demo, before anything in it is touched. Where another demo or a
// server has it, nothing is changed and the error says who, where and what can be done.
func occupy(data string) (*hold.Hold, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, fmt.Errorf("make the data folder: %w", err)
	}
	held, err := hold.Take(filepath.Join(data, "demo.lock"))
	if err != nil {
		return nil, occupied(data, "demo", err)
	}
	// A server that nobody's demo started, or that outlives one that was killed.
	if err := hold.Free(filepath.Join(data, "lock")); err != nil {
		return nil, errors.Join(occupied(data, "signalboxd", err), held.Close())
	}
	return held, nil
}

func occupied(data, by string, err error) error {
	taken, ok := errors.AsType[*hold.TakenError](err)
	if !ok {
		return fmt.Errorf("take the data folder: %w", err)
	}
	return fmt.Errorf("the data folder %s is in use by another %s%s: use that one, or stop it (Ctrl-C where it runs), "+
		"or run this one beside it: signalbox demo --data ANOTHER_FOLDER --listen 127.0.0.1:0", data, by, taken.Holder)
}

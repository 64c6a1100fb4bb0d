package boot

import (
	"fmt"

	"github.com/signalbox-dev/signalbox/platform/blob/objectstore"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/process"
)

// OpenBlobs opens the object store and sets e.Blobs. If the store needs an HTTP handler, the gateway must serve the
// Handler of the result.
func (e *Env) OpenBlobs(closers *process.Closers, c conf.Blob) (objectstore.Opened, error) {
	opened, err := objectstore.Open(c, objectstore.Deps{PublicURL: e.PublicURL, Clock: e.Clock, IDs: e.IDs, Log: e.Log})
	if err != nil {
		return objectstore.Opened{}, fmt.Errorf("open the object store: %w", err)
	}
	if opened.Close != nil {
		closers.Add("object store", opened.Close)
	}
	e.Blobs = opened.Store
	return opened, nil
}

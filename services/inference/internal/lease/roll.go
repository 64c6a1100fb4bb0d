package lease

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/flock"
	"github.com/signalbox-dev/signalbox/platform/id"
)

// Roll is the file that tells a process which replicas have served from its folder before it. Whoever
// serves holds the file's lock, which the kernel keeps until the process is dead, frozen or not: whoever
// gets the lock therefore knows that all the others of the file serve no more.
type Roll struct {
	// Path is the file; the folder must be there.
	Path string

	file *flock.File
}

// errTaken is a roll that another living process holds.
var errTaken = errors.New("another process serves from this folder")

// maxGone bounds the predecessors that are remembered: with the replica itself no more than one request to
// the registry takes.
const maxGone = 99

// Enter writes the replica into the roll and answers its predecessors, which are dead.
func (r *Roll) Enter(replicaID string) (gone []string, err error) {
	if err := r.take(); err != nil {
		return nil, err
	}
	gone, err = r.read()
	if err != nil {
		return nil, err
	}
	return gone, r.Keep(append(slices.Clone(gone), replicaID)...)
}

// take gets the lock, once.
func (r *Roll) take() error {
	if r.file != nil {
		return nil
	}
	file, err := flock.Try(r.Path)
	if errors.Is(err, flock.ErrTaken) {
		return errTaken
	}
	if err != nil {
		return fmt.Errorf("take the roll of replicas: %w", err)
	}
	r.file = file
	return nil
}

// read answers the ids of the file, the oldest first. What a crash of the machine left unreadable is left
// out: that lease runs out by itself.
func (r *Roll) read() ([]string, error) {
	raw, err := io.ReadAll(io.NewSectionReader(r.file, 0, maxGone*2*64))
	if err != nil {
		return nil, fmt.Errorf("read the roll of replicas: %w", err)
	}
	ids := slices.DeleteFunc(strings.Fields(string(raw)), func(s string) bool { return id.Check(id.Replica, s) != nil })
	return ids[max(0, len(ids)-maxGone):], nil
}

// Keep makes these the replicas of the roll, which must be entered.
func (r *Roll) Keep(replicaIDs ...string) error {
	text := strings.Join(append(replicaIDs, ""), "\n")
	if _, err := r.file.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("write the roll of replicas: %w", err)
	}
	if err := r.file.Truncate(int64(len(text))); err != nil {
		return fmt.Errorf("write the roll of replicas: %w", err)
	}
	return nil
}

// Close lets the lock go.
func (r *Roll) Close() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}

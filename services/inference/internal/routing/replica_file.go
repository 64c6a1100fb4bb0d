package routing

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// ReplicaFile is the file that lists the replicas that have served from a folder and whose leases are not released
// yet. A process locks the file while it serves. The kernel holds the lock until the process has ended, even if it is
// frozen. A process that gets the lock therefore knows that the listed replicas no longer serve.
type ReplicaFile struct {
	// Path is the file; its folder must exist.
	Path string

	file *localfile.LockedFile
}

// errTaken means that another running process holds the lock.
var errTaken = errors.New("another process serves from this folder")

// maxGone is the maximum number of predecessors in the file. Together with the replica itself, they fit into one
// release request to the registry.
const maxGone = 99

// Enter adds the replica to the file and returns its predecessors: at most maxGone ids that the file already listed.
// None of them serves any more. Enter returns errTaken if another process serves from the folder.
func (r *ReplicaFile) Enter(replicaID string) (gone []string, err error) {
	if err := r.take(); err != nil {
		return nil, err
	}
	gone, err = r.read()
	if err != nil {
		return nil, err
	}
	return gone, r.Keep(append(slices.Clone(gone), replicaID)...)
}

// take opens and locks the file, unless an earlier call has done so.
func (r *ReplicaFile) take() error {
	if r.file != nil {
		return nil
	}
	file, err := localfile.TryLock(r.Path)
	if errors.Is(err, localfile.ErrLocked) {
		return errTaken
	}
	if err != nil {
		return fmt.Errorf("lock the list of replicas: %w", err)
	}
	r.file = file
	return nil
}

// read returns the ids in the file, oldest first. It skips ids that a crash of the machine has made unreadable; their
// leases expire by themselves.
func (r *ReplicaFile) read() ([]string, error) {
	raw, err := io.ReadAll(io.NewSectionReader(r.file, 0, maxGone*2*64))
	if err != nil {
		return nil, fmt.Errorf("read the list of replicas: %w", err)
	}
	ids := slices.DeleteFunc(strings.Fields(string(raw)), func(s string) bool { return id.Check(id.Replica, s) != nil })
	return ids[max(0, len(ids)-maxGone):], nil
}

// Keep replaces the ids in the file. Enter must have succeeded before.
func (r *ReplicaFile) Keep(replicaIDs ...string) error {
	text := strings.Join(append(replicaIDs, ""), "\n")
	if _, err := r.file.WriteAt([]byte(text), 0); err != nil {
		return fmt.Errorf("write the list of replicas: %w", err)
	}
	if err := r.file.Truncate(int64(len(text))); err != nil {
		return fmt.Errorf("write the list of replicas: %w", err)
	}
	return nil
}

// Close releases the lock.
func (r *ReplicaFile) Close() error {
	if r.file == nil {
		return nil
	}
	file := r.file
	r.file = nil
	return file.Close()
}

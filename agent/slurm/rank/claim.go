package rank

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// claim is the content of claim.json: the Slurm job that runs the attempt. Restart is not zero if Slurm has started the
// job again.
type claim struct {
	Job string `json:"job"`
}

func claimFile(dir string) string { return filepath.Join(dir, "claim.json") }

// Take claims the attempt in the folder for a Slurm job. It returns false if another job has claimed the attempt before.
// All ranks of a job call it. The link makes the claim appear with its content and at most once, on network file systems
// too.
func Take(dir, job string) (bool, error) {
	own := filepath.Join(dir, "claim-"+strings.ReplaceAll(job, "/", "-")+"-"+randomName())
	if err := localfile.WriteJSON(own, claim{Job: job}, localfile.PrivateMode); err != nil {
		return false, err
	}
	err := os.Link(own, claimFile(dir))
	if removed := os.Remove(own); removed != nil {
		return false, fmt.Errorf("remove the file of the claim: %w", removed)
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return false, fmt.Errorf("claim the attempt: %w", err)
	}
	var c claim
	if err := localfile.ReadJSON(claimFile(dir), &c); err != nil {
		return false, err
	}
	return c.Job == job, nil
}

// Claimed returns the id of the Slurm job that runs the attempt in the folder, or "" if no job has claimed it yet.
func Claimed(dir string) (job string, err error) {
	var c claim
	err = localfile.ReadJSON(claimFile(dir), &c)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	job, _, _ = strings.Cut(c.Job, "/")
	return job, err
}

// Refresh makes a network file system request the state of the folder from its server, so that the files which other
// machines have created there are found at once. NFS may otherwise miss them for a minute.
func Refresh(dir string) {
	var s unix.Statx_t
	_ = unix.Statx(unix.AT_FDCWD, dir, unix.AT_STATX_FORCE_SYNC, unix.STATX_MTIME, &s) // reading the files shows an error
}

// Node returns the name of the node of a rank, or "" if the rank has not started yet.
func Node(rankDir string) (string, error) {
	var n node
	err := localfile.ReadJSON(nodeFile(rankDir), &n)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	return n.Name, err
}

// node is the content of node.json.
type node struct {
	Name string `json:"name"`
}

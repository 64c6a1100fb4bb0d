package host

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/signalbox-dev/signalbox/agent/host/boundary"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// spoolName is the folder of the reports that are not delivered yet. It has a disk of its own, so that a work that fills
// its other folders can still report.
const spoolName = "spool"

// diskOf returns the disk that contains the folder, if the work has disks.
func (w *work) diskOf(folder string) boundary.Disk {
	name, purpose := "disk", boundary.Scratch
	if folder == spoolName {
		name, purpose = "spool-disk", boundary.Reports
	}
	return boundary.Disk{Image: w.path(name + ".img"), Dir: w.path(name), Purpose: purpose}
}

// disks returns the disks of the folders, or none if the work has no disks.
func (w *work) disks(folders []string) []boundary.Disk {
	var all []boundary.Disk
	for _, name := range folders {
		if d := w.diskOf(name); exists(d.Image) && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// mounted returns the path that a writable folder of a rank has while the boundary is created, see boundary.Disk.
func (w *work) mounted(rank int, folder string) string {
	if d := w.diskOf(folder); exists(d.Image) {
		return filepath.Join(d.Dir, folder)
	}
	return w.folder(rank, folder)
}

// inFolder calls the function fn with a path of a writable folder of a rank. The path is valid only during the call.
func (w *work) inFolder(rank int, folder string, fn func(dir string) error) error {
	d := w.diskOf(folder)
	if !exists(d.Image) {
		return fn(w.folder(rank, folder))
	}
	root, err := d.Open()
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	return fn(filepath.Join(root.Name(), folder))
}

// why returns a message that describes the exit of a command and names the causes that the agent knows, or "" if it
// knows none.
func (w *work) why(ended End) string {
	exit, causes := ended.Exit, w.fullDisks()
	if lost := w.notInSight(ended); lost != "" {
		causes = append(causes, lost)
	}
	if len(causes) == 0 {
		return ""
	}
	end := fmt.Sprintf("the command ended with exit code %d", exit.Code)
	if exit.Signal != 0 {
		end = fmt.Sprintf("the command was killed by signal %d", exit.Signal)
	}
	return strings.Join(append([]string{end}, causes...), "; ")
}

// notInSight names the first path of the command line that does not exist inside the boundary and that the end of the
// log names: programs and interpreters name a file that they cannot open. It returns "" if
// the log names none of the missing paths. A missing path alone proves nothing: the command may have been meant to create
// it.
func (w *work) notInSight(ended End) string {
	exit := ended.Exit
	if len(exit.Missing) == 0 {
		return ""
	}
	log := logTail(w.folder(ended.Rank, "log"))
	i := slices.IndexFunc(exit.Missing, func(path string) bool { return strings.Contains(log, path) })
	if i < 0 {
		return ""
	}
	return shim.NotInSight(exit.Missing[i])
}

// fullDisks names the full disks of the work.
func (w *work) fullDisks() (full []string) {
	for _, d := range w.disks([]string{"work", spoolName}) {
		u, err := d.Usage()
		if err != nil || !u.Full() {
			continue // The message is only a hint, so ignore the error.
		}
		what := "disk space"
		if d.Purpose == boundary.Reports {
			what = "disk space for undelivered reports"
		}
		full = append(full, fmt.Sprintf("the %s of the work was full: %d of %d bytes and %d of %d files were in use",
			what, u.Bytes-u.FreeBytes, u.Bytes, u.Files-u.FreeFiles, u.Files))
	}
	return full
}

// createFolders creates the writable folders of a work before its processes are started for the first time. If the
// machine can create disks, the folders are on new disks.
func (w *work) createFolders(ctx context.Context, folders ...string) error {
	for rank := range w.ranks() {
		for _, name := range folders {
			if err := os.MkdirAll(w.folder(rank, name), 0o700); err != nil {
				return fmt.Errorf("create the folder %s: %w", name, err)
			}
		}
	}
	// Disks are for one machine only, so the ranks of a batched attempt have none.
	if <-w.host.tried; w.host.mkfs == "" || w.batched() {
		// Remove disks that an earlier agent may have created for the work.
		return errors.Join(os.RemoveAll(w.diskOf("work").Image), os.RemoveAll(w.diskOf(spoolName).Image))
	}
	w.host.allotting.Lock()
	defer w.host.allotting.Unlock()
	rest, reports, err := w.diskSizes()
	if err != nil {
		return err
	}
	scratch := slices.DeleteFunc(slices.Clone(folders), func(name string) bool { return name == spoolName })
	if len(scratch) < len(folders) {
		if err := w.diskOf(spoolName).Create(ctx, w.host.mkfs, reports, spoolName); err != nil {
			return err
		}
	}
	return w.diskOf(scratch[0]).Create(ctx, w.host.mkfs, rest, scratch...)
}

// diskBounds limits what the work may write to the folders, or returns a zero value if the folders are on disks.
func (w *work) diskBounds(folders ...string) (b shim.DiskBounds, err error) {
	if exists(w.diskOf(folders[0]).Image) {
		return b, nil
	}
	w.host.allotting.Lock()
	defer w.host.allotting.Unlock()
	if b.Bytes, _, err = w.diskSizes(); err != nil {
		return b, err
	}
	for _, name := range folders {
		b.Folders = append(b.Folders, w.folder(0, name))
	}
	b.Files = b.Bytes / boundary.BytesPerInode
	return b, nil
}

// MinDisk is the smallest disk of a work in bytes.
const MinDisk = 16 << 20

// The size of the disk for reports is a sixteenth of the other disk's size, within these bounds.
const (
	minReports = 8 << 20
	maxReports = 256 << 20
)

// diskSizes returns the sizes of new disks of the work. All disks together are never larger than the free space, and
// each new work leaves nearly half of the free space or more to other works. The caller holds h.allotting.
func (w *work) diskSizes() (scratch, reports int64, err error) {
	images, err := filepath.Glob(filepath.Join(w.host.worksDir(), "*", "*.img"))
	if err != nil {
		return 0, 0, fmt.Errorf("list the disks of works: %w", err)
	}
	promised, err := boundary.Promised(slices.DeleteFunc(images, func(path string) bool { return filepath.Dir(path) == w.dir }))
	if err != nil {
		return 0, 0, err
	}
	available, err := localfile.Available(w.dir)
	if err != nil {
		return 0, 0, err
	}
	const half, eighth, reportPart, page = 2, 8, 16, 4096
	free := available - promised
	if scratch = free / eighth; w.host.cfg.WorkDisk > 0 {
		scratch = min(w.host.cfg.WorkDisk, free/half)
	}
	if scratch < MinDisk {
		return 0, 0, fmt.Errorf("%d bytes of the disk are free and not promised to other works, which is too little for another work; "+
			"free disk space on the node", max(free, 0))
	}
	return scratch / page * page, min(max(scratch/reportPart, minReports), maxReports) / page * page, nil
}

package slurm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host"
	"github.com/signalbox-dev/signalbox/agent/slurm/rank"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// order is the content of batch.json: what to submit. It is the last file that Launch writes.
type order struct {
	Key     executor.Key       `json:"key"`
	JobID   string             `json:"job_id"`
	Attempt int                `json:"attempt"`
	Batch   executor.BatchSpec `json:"batch"`
	Grace   time.Duration      `json:"grace"`
}

// record is the content of slurm.json: the Slurm job that runs the attempt.
type record struct {
	Job string `json:"job"`
}

// submitting is the content of submitting.json. While it exists, sbatch may have been called without a known result.
type submitting struct {
	At time.Time `json:"at"`
}

// stop is the content of stop.json: a requested stop. At is the time from which the grace period counts.
type stop struct {
	Grace time.Duration `json:"grace"`
	At    time.Time     `json:"at"`
}

// finished is the content of end.json.
type finished struct {
	End host.End  `json:"end"`
	At  time.Time `json:"at"`
}

func orderFile(dir string) string      { return filepath.Join(dir, "batch.json") }
func recordFile(dir string) string     { return filepath.Join(dir, "slurm.json") }
func submittingFile(dir string) string { return filepath.Join(dir, "submitting.json") }
func stopFile(dir string) string       { return filepath.Join(dir, "stop.json") }
func endFile(dir string) string        { return filepath.Join(dir, "end.json") }
func scriptFile(dir string) string     { return filepath.Join(dir, "batch.sh") }

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// missing reports whether the file certainly does not exist. An error of the shared file system, such as a stale handle,
// does not count.
func missing(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func markFile(folder string) string { return filepath.Join(folder, "agent") }

// Mark marks the agent's folder on the shared file system. Without the mark, the folder may be one of the local disk, on
// which the shared file system is not mounted.
func Mark(folder string) error {
	return localfile.Write(markFile(folder), nil, localfile.PrivateMode)
}

// Marked reports whether the folder has the mark.
func Marked(folder string) bool { return exists(markFile(folder)) }

func launched(dir string) bool { return exists(orderFile(dir)) }
func ended(dir string) bool    { return exists(endFile(dir)) }

// recorded returns the id of the Slurm job, or "" if it is not known.
func recorded(dir string) string {
	var rec record
	if localfile.ReadJSON(recordFile(dir), &rec) != nil {
		return ""
	}
	return rec.Job
}

// claimed returns the id of the Slurm job that has claimed the attempt, or "".
func claimed(dir string) string {
	job, err := rank.Claimed(dir)
	if err != nil {
		return ""
	}
	return job
}

// save writes the id of the Slurm job.
func save(dir, job string) error {
	if err := localfile.WriteJSON(recordFile(dir), record{Job: job}, localfile.PrivateMode); err != nil {
		return err
	}
	if err := os.Remove(submittingFile(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &os.PathError{Op: "remove", Path: submittingFile(dir), Err: err}
	}
	return nil
}

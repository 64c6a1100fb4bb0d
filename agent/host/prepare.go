package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/signalbox-dev/signalbox/agent/executor"
	"github.com/signalbox-dev/signalbox/agent/host/objcache"
	"github.com/signalbox-dev/signalbox/agent/host/pyenv"
	"github.com/signalbox-dev/signalbox/agent/host/shim"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/localfile"
)

// endError is an error that ends the work with a given reason.
type endError struct {
	reason executor.Reason
	cause  error
}

func (e *endError) Error() string { return e.cause.Error() }
func (e *endError) Unwrap() error { return e.cause }

// ended adds a reason to an error that has none.
func ended(reason executor.Reason, err error) error {
	var own *endError
	if err == nil || errors.As(err, &own) {
		return err
	}
	return &endError{reason: reason, cause: err}
}

// refusal returns the exit to report for an error of the preparation. It returns nil if ctx has ended, because the
// next agent continues the work. It also returns nil for errors of the node itself.
func (w *work) refusal(ctx context.Context, err error) *executor.Exit {
	if ctx.Err() != nil {
		return nil
	}
	exit := executor.Exit{Code: -1, Reason: executor.ReasonStart, Message: executor.Tail(err.Error(), executor.MaxMessage)}
	var build *pyenv.BuildError
	var own *endError
	switch {
	case closed(w.stopping) || closed(w.host.shutdown):
		return &executor.Exit{Code: -1, Reason: executor.ReasonStopped}
	case errors.As(err, &build):
		exit.Reason = executor.ReasonEnvBuild
	case errors.As(err, &own):
		exit.Reason = own.reason
	default:
		return nil
	}
	return &exit
}

// retry calls the function fn until fn succeeds or fails permanently, ctx ends, or FetchTimeout has passed. An error with a
// reason to end the work is permanent.
func (w *work) retry(ctx context.Context, fn func(context.Context) error) error {
	deadline := w.host.deps.Clock.Now().Add(w.host.cfg.FetchTimeout)
	for try := 0; ; try++ {
		err := fn(ctx)
		var own *endError
		if err == nil || errors.Is(err, executor.ErrPermanent) || errors.As(err, &own) || ctx.Err() != nil || w.host.deps.Clock.Now().After(deadline) {
			return err
		}
		if clock.Sleep(ctx, w.host.deps.Clock, w.host.retry.Wait(try)) != nil {
			return err
		}
	}
}

// fetchInputs downloads the recipe's package and the inputs. It also writes the files that describe the
// inputs to the training.
func (w *work) fetchInputs(ctx context.Context, spec executor.AttemptSpec) error {
	for _, dir := range []string{"package", "inputs"} {
		// A killed agent may have left incomplete folders.
		if err := os.RemoveAll(w.path(dir)); err != nil {
			return fmt.Errorf("remove the folder %s: %w", dir, err)
		}
	}
	for _, dir := range []string{"inputs", "run"} {
		if err := os.MkdirAll(w.path(dir), 0o700); err != nil {
			return fmt.Errorf("create the folder %s: %w", dir, err)
		}
	}
	if err := w.createFolders(ctx, "work", "tmp", "package", spoolName); err != nil {
		return err
	}
	if spec.Package != nil {
		err := w.inFolder(0, "package", func(dir string) error {
			return w.fetch(ctx, []executor.ObjectRef{*spec.Package}, dir, w.host.objects.Copy)
		})
		if err != nil {
			return err
		}
	}
	bound := bindings{Datasets: map[string]binding{}}
	for _, d := range spec.Datasets {
		if !plain(d.Name) {
			return fmt.Errorf("dataset input %q must be a file name without path separators", d.Name)
		}
		dir := w.path("inputs", "datasets", d.Name)
		bound.Datasets[d.Name] = binding{Ref: d.Ref, Digest: d.Digest, Path: dir}
		if err := w.fetch(ctx, d.Files, dir, w.host.objects.CopyReadable); err != nil {
			return err
		}
	}
	if m := spec.Model; m != nil {
		dir := w.path("inputs", "model")
		bound.Model = &binding{Ref: m.Ref, Digest: m.Digest, Path: dir}
		if err := w.fetch(ctx, m.Files, dir, w.host.objects.CopyReadable); err != nil {
			return err
		}
	}
	if r := spec.Resume; r != nil {
		if err := w.fetch(ctx, []executor.ObjectRef{r.File}, w.resumeDir(), w.host.objects.CopyReadable); err != nil {
			return err
		}
	}
	if err := localfile.WriteJSON(w.bindingsFile(), bound, localfile.PrivateMode); err != nil {
		return err
	}
	hparams := spec.Hparams
	if len(hparams) == 0 {
		hparams = []byte("{}")
	}
	if err := localfile.Write(w.hparamsFile(), hparams, localfile.PrivateMode); err != nil {
		return err
	}
	return w.saveEndpoint()
}

// plain reports whether the name is a valid file name: a single path element other than . and ..
func plain(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "."
}

// bindings is the content of the file that the variable SERVICE_JOB_BINDINGS_FILE names.
type bindings struct {
	Datasets map[string]binding `json:"datasets"`
	Model    *binding           `json:"model"`
}

type binding struct {
	Ref    string `json:"ref"`
	Digest string `json:"digest"`
	Path   string `json:"path"`
}

// resumeDir returns the folder of the checkpoint that the training resumes from.
func (w *work) resumeDir() string { return w.path("inputs", "resume") }

// resumeFrom returns the value of SERVICE_JOB_RESUME_FROM: the folder if the checkpoint is unpacked,
// otherwise the path of the checkpoint's file.
func (w *work) resumeFrom(r *executor.ResumePoint) string {
	if r.File.Unpack {
		return w.resumeDir()
	}
	return filepath.Join(w.resumeDir(), filepath.FromSlash(r.File.Path))
}

func (w *work) bindingsFile() string { return w.path("inputs", "bindings.json") }
func (w *work) hparamsFile() string  { return w.path("inputs", "hparams.json") }

// usesSDK reports whether the attempt uses the Python reporter.
func (w *work) usesSDK() bool {
	return w.assignment.Work.Attempt.Environment.SDK && w.host.deps.SDK != nil
}

// sdkDir returns the folder of the Python reporter. Each version is written only once.
func (w *work) sdkDir() (string, error) {
	return objcache.WriteTree(w.host.deps.SDK, filepath.Join(w.host.cfg.Data, "sdk"))
}

// groupName returns the name of the work's cgroup. The works of all agents on this machine have different names.
func (w *work) groupName() string {
	return w.host.groupOf(w.key.String())
}

// groupOf returns the name of the cgroup of a work or a build of this agent.
func (h *Host) groupOf(key string) string {
	sum := sha256.Sum256([]byte(h.cfg.Data))
	return key + "-" + hex.EncodeToString(sum[:4])
}

// endedAt returns the time at which the command in the folder ended. The parameter running is the time at which it was
// running.
func (w *work) endedAt(dir string, running time.Time) (at time.Time) {
	var exit shim.Exit
	if w.batched() {
		// The clock of the node may be behind.
		if shim.ReadExit(w.runDir(0), &exit) == nil && exit.EndedAt.After(running) {
			return exit.EndedAt
		}
		return w.host.deps.Clock.Now()
	}
	if shim.ReadExit(dir, &exit) == nil && !exit.EndedAt.IsZero() {
		return exit.EndedAt
	}
	return w.host.deps.Clock.Now()
}

type placeFunc func(ctx context.Context, key executor.Key, ref executor.ObjectRef, dir string) error

const (
	// parallelFetches is the number of groups of objects that a work fetches at a time.
	parallelFetches = 8
	// Objects of at most smallObject bytes are downloaded in groups, because a separate request for each of many small
	// files would take most of the time. A group has at most groupObjects objects and groupBytes bytes, which is less
	// than the control plane allows in one request.
	smallObject  = 256 << 10
	groupObjects = 250
	groupBytes   = 8 << 20
)

// fetch puts the objects into the folder. It retries temporary failures.
func (w *work) fetch(ctx context.Context, refs []executor.ObjectRef, dir string, put placeFunc) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the objects: %w", err)
	}
	defer w.host.deps.Downloader.Expect(w.key, refs)()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelFetches)
	for _, some := range grouped(refs) {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error { return w.fetchGroup(ctx, some, dir, put) })
	}
	return group.Wait()
}

// grouped divides objects into groups. Small objects share groups and keep their order; each larger object has a group
// of its own.
func grouped(refs []executor.ObjectRef) (groups [][]executor.ObjectRef) {
	var some []executor.ObjectRef
	var size int64
	for _, ref := range refs {
		if ref.SizeBytes > smallObject {
			groups = append(groups, []executor.ObjectRef{ref})
			continue
		}
		if len(some) == groupObjects || size+ref.SizeBytes > groupBytes {
			groups, some, size = append(groups, some), nil, 0
		}
		some, size = append(some, ref), size+ref.SizeBytes
	}
	if len(some) > 0 {
		groups = append(groups, some)
	}
	return groups
}

// fetchGroup puts a group of objects into the folder. If they could not be downloaded together, it fetches
// parallelFetches of them at a time, each with a request of its own.
func (w *work) fetchGroup(ctx context.Context, refs []executor.ObjectRef, dir string, put placeFunc) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(1)
	if err := w.host.objects.Prefetch(ctx, w.key, refs); err != nil {
		group.SetLimit(parallelFetches)
		if !errors.Is(err, executor.ErrApart) && ctx.Err() == nil {
			w.host.deps.Log.WarnContext(ctx, "cannot download objects together; downloading them one by one",
				"work", w.key.String(), "objects", len(refs), "error", err.Error())
		}
	}
	for _, ref := range refs {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			err := w.retry(ctx, func(ctx context.Context) error { return put(ctx, w.key, ref, dir) })
			if err != nil {
				return fmt.Errorf("fetch %s: %w", ref.URI, err)
			}
			return nil
		})
	}
	return group.Wait()
}

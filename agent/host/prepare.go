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

// refusal returns the exit for an error of the preparation. It returns nil if ctx has ended, because the
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

// retry calls fn until it succeeds or fails permanently, ctx ends, or FetchTimeout has passed.
func (w *work) retry(ctx context.Context, fn func(context.Context) error) error {
	deadline := w.host.deps.Clock.Now().Add(w.host.cfg.FetchTimeout)
	for try := 0; ; try++ {
		err := fn(ctx)
		if err == nil || errors.Is(err, executor.ErrPermanent) || ctx.Err() != nil || w.host.deps.Clock.Now().After(deadline) {
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
	for _, dir := range []string{"package", "inputs", "work", "tmp", "spool", "run"} {
		if err := os.MkdirAll(w.path(dir), 0o700); err != nil {
			return fmt.Errorf("create the folder %s: %w", dir, err)
		}
	}
	if spec.Package != nil {
		if err := w.fetch(ctx, []executor.ObjectRef{*spec.Package}, w.path("package"), w.host.objects.Copy); err != nil {
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
		if err := w.fetch(ctx, d.Files, dir, w.host.objects.Copy); err != nil {
			return err
		}
	}
	if m := spec.Model; m != nil {
		dir := w.path("inputs", "model")
		bound.Model = &binding{Ref: m.Ref, Digest: m.Digest, Path: dir}
		if err := w.fetch(ctx, m.Files, dir, w.host.objects.Copy); err != nil {
			return err
		}
	}
	if r := spec.Resume; r != nil {
		if err := w.fetch(ctx, []executor.ObjectRef{r.File}, w.resumeDir(), w.host.objects.Copy); err != nil {
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

// plain reports whether name is a valid file name: a single path element other than . and ..
func plain(name string) bool {
	return filepath.IsLocal(name) && filepath.Base(name) == name && name != "."
}

// bindings is the content of SERVICE_JOB_BINDINGS_FILE.
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
// otherwise the path of its file.
func (w *work) resumeFrom(r *executor.ResumePoint) string {
	if r.File.Unpack {
		return w.resumeDir()
	}
	return filepath.Join(w.resumeDir(), filepath.FromSlash(r.File.Path))
}

func (w *work) bindingsFile() string { return w.path("inputs", "bindings.json") }
func (w *work) hparamsFile() string  { return w.path("inputs", "hparams.json") }

type placeFunc func(ctx context.Context, key executor.Key, ref executor.ObjectRef, dir string) error

// fetch puts the objects into the folder. It retries temporary failures.
func (w *work) fetch(ctx context.Context, refs []executor.ObjectRef, dir string, put placeFunc) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("create the folder of the objects: %w", err)
	}
	for _, ref := range refs {
		err := w.retry(ctx, func(ctx context.Context) error { return put(ctx, w.key, ref, dir) })
		if err != nil {
			return fmt.Errorf("fetch %s: %w", ref.URI, err)
		}
	}
	return nil
}

// usesSDK reports whether the attempt uses the Python reporter.
func (w *work) usesSDK() bool {
	return w.assignment.Work.Attempt.Environment.SDK && w.host.deps.SDK != nil
}

// sdkDir returns the folder of the Python reporter. Each version is written only once.
func (w *work) sdkDir() (string, error) {
	return objcache.WriteTree(w.host.deps.SDK, filepath.Join(w.host.cfg.Data, "sdk"))
}

// groupName returns a name that identifies the work among the works of all agents on this machine.
func (w *work) groupName() string {
	sum := sha256.Sum256([]byte(w.host.cfg.Data))
	return w.key.String() + "-" + hex.EncodeToString(sum[:4])
}

func (w *work) endedAt(dir string) (at time.Time) {
	var exit shim.Exit
	if shim.ReadExit(dir, &exit) == nil && !exit.EndedAt.IsZero() {
		return exit.EndedAt
	}
	return w.host.deps.Clock.Now()
}

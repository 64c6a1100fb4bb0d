package artifact

import (
	"context"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
)

// CodeNotStored is the error code of the download of an artifact that is a path on a host.
const CodeNotStored = "artifact_not_stored"

const codeProtected = "dataset_protected"

// Name returns the name of the stored file: the last part of the path that the client gave.
func (a *Artifact) Name() string {
	if given := path.Base(strings.ReplaceAll(a.Given, `\`, "/")); strings.Trim(given, "./") != "" {
		return given
	}
	return path.Base(a.Path)
}

// Downloads signs downloads of artifacts.
type Downloads struct {
	Pool  *pgxpool.Pool
	Blobs interface {
		SignKnown(ctx context.Context, info blob.Info, expires time.Duration) (blob.Signed, error)
	}
	Audit *audit.Log
}

// Sign returns a signed request that downloads the file of an artifact. The outputs of a protected run may contain
// records of its datasets, so Sign refuses their download to everyone and records the refusal in the audit log.
func (d *Downloads) Sign(ctx context.Context, a *Artifact) (blob.Signed, error) {
	if a.Withheld {
		return blob.Signed{}, d.refuse(ctx, a)
	}
	if err := a.Available(); err != nil {
		return blob.Signed{}, err
	}
	key, ok := blob.ParseURI(a.URI())
	if !ok {
		return blob.Signed{}, fault.New(fault.Refused, CodeNotStored,
			"artifact %s is a path on the host of the run, not an uploaded file; copy it from the host", a.ID)
	}
	signed, err := d.Blobs.SignKnown(ctx, blob.Info{Key: key, Size: a.Size, SHA256: a.SHA256, Name: a.Name()}, 0)
	if err != nil {
		return blob.Signed{}, fmt.Errorf("sign the download of artifact %s: %w", a.ID, err)
	}
	return signed, nil
}

func (d *Downloads) refuse(ctx context.Context, a *Artifact) error {
	if err := d.record(ctx, "artifact", a.ID, map[string]any{"run_id": a.RunID, "what": "download"}); err != nil {
		return err
	}
	return fault.New(fault.Forbidden, codeProtected,
		"artifact %s comes from a protected run: it can be registered as a model and deployed, but not downloaded", a.ID)
}

// record writes a refused download to the audit log.
func (d *Downloads) record(ctx context.Context, kind, target string, details map[string]any) error {
	err := pg.InTx(ctx, d.Pool, func(ctx context.Context, tx pgx.Tx) error {
		return d.Audit.Record(ctx, tx, audit.Entry{Action: "artifact.access.refuse", TargetKind: kind, TargetID: target, After: details})
	})
	if err != nil {
		return fmt.Errorf("record a refused download: %w", err)
	}
	return nil
}

package dataset

import (
	"context"
	"fmt"
	"sort"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
)

// shown returns a committed version whose files the caller may view. It refuses access to protected datasets and
// records the refusal in the audit log. what is the kind of access that the audit entry states.
func (s *Server) shown(ctx context.Context, datasetID, version, what string) (*Dataset, *Version, error) {
	d, err := s.get(ctx, datasetID)
	if err != nil {
		return nil, nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, d.ID, version)
	if err != nil {
		return nil, nil, err
	}
	if refusal := d.CheckViewable(); refusal != nil {
		err := pg.InTx(ctx, s.Pool, func(ctx context.Context, tx pgx.Tx) error {
			return s.Audit.Record(ctx, tx, audit.Entry{
				Action: "dataset.access.refuse", TargetKind: SubjectKind, TargetID: d.ID, After: map[string]any{"version": v.Version, "what": what},
			})
		})
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, refusal
	}
	if v.State == StateUploading {
		return nil, nil, notReady(d, v)
	}
	return d, v, nil
}

// ListDatasetFiles lists the files of a version by path.
func (s *Server) ListDatasetFiles(ctx context.Context, in *registryv1.ListDatasetFilesRequest) (*registryv1.ListDatasetFilesResponse, error) {
	p, err := request.ReadPage(in.Limit, in.Offset)
	if err != nil {
		return nil, err
	}
	_, v, err := s.shown(ctx, in.GetDatasetId(), in.GetVersion(), "files")
	if err != nil {
		return nil, err
	}
	from := min(p.Offset, len(v.Manifest))
	files, more := request.CutPage(v.Manifest[from:min(from+p.FetchLimit(), len(v.Manifest))], p)
	if err := request.SetTotal(ctx, len(v.Manifest)); err != nil {
		return nil, err
	}
	return &registryv1.ListDatasetFilesResponse{Files: filesToProto(files)}, request.SetMore(ctx, more)
}

// SignDatasetDownload returns a signed URL of one file.
func (s *Server) SignDatasetDownload(ctx context.Context, in *registryv1.SignDatasetDownloadRequest) (*registryv1.DatasetDownload, error) {
	d, v, err := s.shown(ctx, in.GetDatasetId(), in.GetVersion(), "download")
	if err != nil {
		return nil, err
	}
	f, ok := v.file(in.GetPath())
	if !ok {
		return nil, fault.Absentf("dataset file", in.GetPath())
	}
	signed, err := s.Blobs.SignGet(ctx, v.key(d, f.SHA256), 0)
	if err != nil {
		return nil, fmt.Errorf("sign a download: %w", err)
	}
	return &registryv1.DatasetDownload{
		Path: f.Path, Url: signed.URL, Method: signed.Method, SizeBytes: f.Size, Sha256: f.SHA256, ExpiresAt: timestamppb.New(signed.ExpiresAt),
	}, nil
}

// file finds a file in the manifest, which is sorted by path.
func (v *Version) file(path string) (File, bool) {
	i := sort.Search(len(v.Manifest), func(i int) bool { return v.Manifest[i].Path >= path })
	if i == len(v.Manifest) || v.Manifest[i].Path != path {
		return File{}, false
	}
	return v.Manifest[i], true
}

// defaultRows is the number of rows in a preview without a limit.
const defaultRows = 20

// PreviewDatasetVersion returns the first rows of a jsonl version.
func (s *Server) PreviewDatasetVersion(ctx context.Context, in *registryv1.PreviewDatasetVersionRequest) (*registryv1.DatasetPreview, error) {
	d, v, err := s.shown(ctx, in.GetDatasetId(), in.GetVersion(), "preview")
	if err != nil {
		return nil, err
	}
	if d.Format != DefaultFormat {
		return nil, fault.New(fault.Refused, "dataset_preview", "datasets in format %s cannot be previewed; only %s datasets can", d.Format, DefaultFormat)
	}
	limit := defaultRows
	if in.Limit != nil {
		limit = int(in.GetLimit())
	}
	rows, more, err := s.rows(ctx, d, v, v.Manifest[0], limit)
	if err != nil {
		return nil, err
	}
	out := &registryv1.DatasetPreview{Path: v.Manifest[0].Path, Truncated: more}
	for i, row := range rows {
		shown := &registryv1.DatasetRow{Line: int32(i) + 1, Value: row.value}
		if row.wrong != "" {
			shown.Error = &row.wrong
		}
		out.Rows = append(out.Rows, shown)
	}
	return out, nil
}

// GetDatasetSchema returns the schema of a version's rows, also for protected datasets.
func (s *Server) GetDatasetSchema(ctx context.Context, in *registryv1.GetDatasetSchemaRequest) (*registryv1.DatasetSchema, error) {
	d, err := s.get(ctx, in.GetDatasetId())
	if err != nil {
		return nil, err
	}
	v, err := s.Store.Version(ctx, s.Pool, d.ID, in.GetVersion())
	if err != nil {
		return nil, err
	}
	return &registryv1.DatasetSchema{
		DatasetId: d.ID, Version: v.Version, Digest: v.Digest, Format: d.Format, Source: v.SchemaSource, Schema: v.Schema, SampledRows: int32(v.SampledRows),
	}, nil
}

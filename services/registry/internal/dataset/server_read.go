package dataset

import (
	"context"
	"fmt"
	"sort"
	"strings"

	"github.com/jackc/pgx/v5"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "github.com/signalbox-dev/signalbox/gen/signalbox/common/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/audit"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/pg"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/manifest"
)

// shown returns a committed version whose files the caller may view. It refuses access to protected datasets and
// records the refusal in the audit log. The argument what is the kind of access, for the audit entry.
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
	_, _, files, err := s.files(ctx, in, in.Limit, in.Offset, "files")
	if err != nil {
		return nil, err
	}
	return &registryv1.ListDatasetFilesResponse{Files: manifest.ToProto(files)}, nil
}

// ListDatasetDownloads lists the files of a version by path, each with a signed URL.
func (s *Server) ListDatasetDownloads(
	ctx context.Context, in *registryv1.ListDatasetDownloadsRequest,
) (*registryv1.ListDatasetDownloadsResponse, error) {
	d, v, files, err := s.files(ctx, in, in.Limit, in.Offset, "download")
	if err != nil {
		return nil, err
	}
	out := &registryv1.ListDatasetDownloadsResponse{}
	for _, f := range files {
		one, err := Download(ctx, s.Blobs, f.Path, blob.Info{Key: v.key(d, f.SHA256), Size: f.Size, SHA256: f.SHA256})
		if err != nil {
			return nil, err
		}
		out.Files = append(out.Files, one)
	}
	return out, nil
}

// selection is a request for files of a version.
type selection interface {
	GetDatasetId() string
	GetVersion() string
}

// files returns a page of the files of a version whose files the caller may view. The argument what is the kind of
// access, for the audit entry of a refusal.
func (s *Server) files(ctx context.Context, in selection, limit, offset *int32, what string) (*Dataset, *Version, []File, error) {
	p, err := request.ReadPage(limit, offset)
	if err != nil {
		return nil, nil, nil, err
	}
	d, v, err := s.shown(ctx, in.GetDatasetId(), in.GetVersion(), what)
	if err != nil {
		return nil, nil, nil, err
	}
	from := min(p.Offset, len(v.Manifest))
	files, more := request.CutPage(v.Manifest[from:min(from+p.FetchLimit(), len(v.Manifest))], p)
	if err := request.SetTotal(ctx, len(v.Manifest)); err != nil {
		return nil, nil, nil, err
	}
	return d, v, files, request.SetMore(ctx, more)
}

// fileName returns the last part of a path, under which clients save a download. Keys of objects have digests instead.
func fileName(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// Download returns the signed download of a file whose size and digest are known. It does not check that the object
// exists.
func Download(ctx context.Context, blobs blob.Store, path string, info blob.Info) (*commonv1.Download, error) {
	info.Name = fileName(path)
	signed, err := blobs.SignKnown(ctx, info, 0)
	if err != nil {
		return nil, fmt.Errorf("sign the download of %s: %w", path, err)
	}
	return &commonv1.Download{
		Path: path, Url: signed.URL, Method: signed.Method, SizeBytes: info.Size, Sha256: info.SHA256, ExpiresAt: timestamppb.New(signed.ExpiresAt),
	}, nil
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
	info, err := s.Blobs.Stat(ctx, v.key(d, f.SHA256))
	if err != nil {
		return nil, fmt.Errorf("sign a download: %w", err)
	}
	info.Name = fileName(f.Path)
	signed, err := s.Blobs.SignKnown(ctx, info, 0)
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

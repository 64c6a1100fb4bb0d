package catalog

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registrypeerv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/peer/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
)

const (
	// inlineBytes is the maximum size of resolved bindings that contain their files. The response that contains them
	// has at most 4 MiB and also contains the versions of a recipe.
	inlineBytes = 1 << 20
	// pageFiles is the number of files in a message of ListBindingFiles.
	pageFiles = 1000
)

// apart removes all files from a response that is larger than inlineBytes, provided that the caller can fetch the files
// with ListBindingFiles.
func apart(in *registrypeerv1.ResolveBindingsRequest, out *registrypeerv1.ResolveBindingsResponse) *registrypeerv1.ResolveBindingsResponse {
	if !in.GetFilesApart() || proto.Size(out) <= inlineBytes {
		return out
	}
	out.FilesApart = true
	for _, d := range out.GetDatasets() {
		d.Files = nil
	}
	if out.GetModel() != nil {
		out.Model.Files = nil
	}
	return out
}

// ListBindingFiles sends the files of the bound versions in pages.
func (s *Server) ListBindingFiles(
	in *registrypeerv1.ListBindingFilesRequest, stream grpc.ServerStreamingServer[registrypeerv1.BindingFiles],
) error {
	out, _, err := s.resolve(stream.Context(), &registrypeerv1.ResolveBindingsRequest{Datasets: in.GetDatasets(), Model: in.GetModel()})
	if err != nil {
		return err
	}
	if lost := slices.Concat(out.GetUnknown(), out.GetUnreadable()); len(lost) > 0 {
		return fault.New(fault.Conflict, "binding_changed", "%s can no longer be read; submit the job again", lost[0])
	}
	for _, d := range out.GetDatasets() {
		if err := sendFiles(stream, d.GetName(), d.GetDigest(), d.GetFiles()); err != nil {
			return err
		}
	}
	return sendFiles(stream, "", out.GetModel().GetDigest(), out.GetModel().GetFiles())
}

func sendFiles(
	stream grpc.ServerStreamingServer[registrypeerv1.BindingFiles], name, digest string, files []*jobsv1.ObjectRef,
) error {
	for page := range slices.Chunk(files, pageFiles) {
		if err := stream.Send(&registrypeerv1.BindingFiles{Name: name, Digest: digest, Files: page}); err != nil {
			return fmt.Errorf("send the files of a binding: %w", err)
		}
	}
	return nil
}

const (
	// lookWithin is the time limit for looking up the packs of an input. lookAtOnce is the number of concurrent
	// lookups.
	lookWithin = 3 * time.Second
	lookAtOnce = 16
)

// input converts a version into an input of a job. The input contains the packs of the version and the files that are
// in no pack. If a pack is missing, it contains all files instead.
func (s *Server) input(ctx context.Context, name string, d *dataset.Dataset, v *dataset.Version) (*jobsv1.DatasetInput, error) {
	if err := s.Datasets.LoadInputs(ctx, s.Pool, v, true); err != nil {
		return nil, err
	}
	in := dataset.ToInput(name, d, v)
	if err := s.look(ctx, in.GetFiles()[:len(v.Packs)]); fault.Is(err, fault.Absent) {
		s.missingPacks.Add(ctx, 1)
		s.Log.WarnContext(ctx, "a pack of a dataset is missing; the job downloads the files one by one",
			"dataset", d.ID, "version", v.Version, "error", err.Error())
		if err := s.Datasets.LoadInputs(ctx, s.Pool, v, false); err != nil {
			return nil, err
		}
		return dataset.ToInput(name, d, v), nil
	} else if err != nil && ctx.Err() != nil {
		return nil, err
	}
	return in, nil
}

// look returns an error if a pack is missing, or if the object store does not respond in time.
func (s *Server) look(ctx context.Context, packs []*jobsv1.ObjectRef) error {
	ctx, cancel := context.WithTimeout(ctx, lookWithin)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(lookAtOnce)
	for _, p := range packs {
		key, _ := blob.ParseURI(p.GetUri())
		group.Go(func() error {
			_, err := s.Blobs.Stat(ctx, key)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("look for the packs of a dataset: %w", err)
	}
	return nil
}

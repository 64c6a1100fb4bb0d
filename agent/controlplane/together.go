package controlplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// togetherWithin is the time limit for one call of DownloadTogether.
const togetherWithin = 2 * time.Minute

// DownloadTogether implements executor.Downloader.
func (l *Link) DownloadTogether(
	ctx context.Context, key executor.Key, objects []executor.ObjectRef, visit func(executor.ObjectRef, io.Reader) error,
) error {
	client := l.client()
	if client == nil {
		return errNoLine
	}
	ctx, cancel := context.WithTimeout(ctx, togetherWithin)
	defer cancel() // ends the stream if it was not read to its end
	req := &jobsv1.FetchObjectsRequest{WorkId: key.WorkID, Generation: key.Generation, Fence: key.Fence}
	for _, o := range objects {
		req.Uris = append(req.Uris, o.URI)
	}
	stream, err := client.FetchObjects(ctx, req)
	if err != nil {
		return together(err)
	}
	in := &chunkReader{stream: stream}
	for _, o := range objects {
		if err := visit(o, io.LimitReader(in, o.SizeBytes)); err != nil {
			return together(err)
		}
	}
	if _, err := in.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		return together(errors.Join(errors.New("the control plane sent more bytes than the objects have"), err))
	}
	return nil
}

// together wraps an error of DownloadTogether. It adds executor.ErrApart if the control plane cannot send objects,
// because it is of the previous version or does not store objects in a folder. Both cases have the same error kind.
func together(err error) error {
	if fault.Is(err, fault.Unconfigured) {
		err = errors.Join(executor.ErrApart, err)
	}
	return fmt.Errorf("download objects together: %w", err)
}

// chunkReader reads the data of all chunks of a stream.
type chunkReader struct {
	stream grpc.ServerStreamingClient[jobsv1.ObjectsChunk]
	left   []byte
}

// Read implements io.Reader.
func (r *chunkReader) Read(p []byte) (int, error) {
	for len(r.left) == 0 {
		chunk, err := r.stream.Recv()
		if err != nil {
			return 0, err // io.EOF at the end of the stream
		}
		r.left = chunk.GetData()
	}
	n := copy(p, r.left)
	r.left = r.left[n:]
	return n, nil
}

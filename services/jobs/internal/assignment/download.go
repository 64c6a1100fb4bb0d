package assignment

import (
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/jobs/internal/fleet"
)

// chunkBytes is the size of a chunk of FetchWork.
const chunkBytes = 256 << 10

// FetchWork sends a work with its spec. It is called once for each execution, because the node keeps the spec.
func (s *AgentServer) FetchWork(req *jobsv1.FetchWorkRequest, stream grpc.ServerStreamingServer[jobsv1.WorkChunk]) error {
	ctx := stream.Context()
	key := Key{ID: req.GetWorkId(), Generation: req.GetGeneration(), Fence: req.GetFence()}
	w, err := s.Agents.Works.Get(ctx, s.Agents.Pool, key.ID)
	if err != nil {
		return err
	}
	if err := checkExecution(ctx, w, key); err != nil {
		return err
	}
	if err := s.checkIsolation(ctx, w); err != nil {
		return err
	}
	m, err := toProto(w, s.Agents.IngestEndpoint())
	if err != nil {
		return err
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		return fmt.Errorf("encode work %s: %w", key.ID, err)
	}
	for chunk := range slices.Chunk(raw, chunkBytes) {
		if err := stream.Send(&jobsv1.WorkChunk{Data: chunk}); err != nil {
			return fmt.Errorf("send work %s: %w", key.ID, err)
		}
	}
	return nil
}

// downloadTime is how long a signed URL can be used to start a download.
const downloadTime = 15 * time.Minute

// SignDownload signs the download of an object that the work's spec refers to.
func (s *AgentServer) SignDownload(ctx context.Context, req *jobsv1.SignDownloadRequest) (*jobsv1.SignedDownload, error) {
	key := Key{ID: req.GetWorkId(), Generation: req.GetGeneration(), Fence: req.GetFence()}
	signed, err := s.sign(ctx, key, []string{req.GetUri()})
	if err != nil {
		return nil, err
	}
	return signed[0], nil
}

// SignDownloads signs the downloads of a page of objects.
func (s *AgentServer) SignDownloads(ctx context.Context, req *jobsv1.SignDownloadsRequest) (*jobsv1.SignDownloadsResponse, error) {
	key := Key{ID: req.GetWorkId(), Generation: req.GetGeneration(), Fence: req.GetFence()}
	signed, err := s.sign(ctx, key, req.GetUris())
	if err != nil {
		return nil, err
	}
	return &jobsv1.SignDownloadsResponse{Downloads: signed}, nil
}

func (s *AgentServer) sign(ctx context.Context, key Key, uris []string) ([]*jobsv1.SignedDownload, error) {
	objects, err := s.listed(ctx, key)
	if err != nil {
		return nil, err
	}
	out := make([]*jobsv1.SignedDownload, 0, len(uris))
	for _, uri := range uris {
		info, err := objects.info(uri)
		if err != nil {
			return nil, err
		}
		signed, err := s.Blobs.SignKnown(ctx, info, downloadTime)
		if err != nil {
			return nil, err
		}
		out = append(out, &jobsv1.SignedDownload{Url: signed.URL, ExpiresAt: timestamppb.New(signed.ExpiresAt)})
	}
	return out, nil
}

// checkIsolation refuses to send a work to an agent that would not isolate it as its pool requires: the agent may have
// been started again with other settings, or the pool changed, after the work was placed.
func (s *AgentServer) checkIsolation(ctx context.Context, w *Work) error {
	if w.Batch {
		return nil // see Batch.NotIsolated
	}
	withheld, err := s.Pools.Withholds(ctx, s.Agents.Pool, w.NodeID, w.Pool)
	if err == nil && withheld {
		return fault.New(fault.Forbidden, fleet.CodeIsolation, "node %s does not isolate works, but pool %s requires it, so the node does not get work %s; "+
			"repair what the node reports as boundary.problem", w.NodeID, w.Pool, w.ID)
	}
	return err
}

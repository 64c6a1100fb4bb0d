package assignment

import (
	"bufio"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// maxFetched is the maximum total size of the objects in one call of FetchObjects, so that large objects do not occupy
// the agents' connections.
const maxFetched = 16 << 20

// FetchObjects sends the bytes of small objects that the work's spec refers to.
func (s *AgentServer) FetchObjects(req *jobsv1.FetchObjectsRequest, stream grpc.ServerStreamingServer[jobsv1.ObjectsChunk]) error {
	ctx := stream.Context()
	reader, ok := s.Blobs.(blob.Local)
	if !ok {
		return fault.New(fault.Unconfigured, "objects_not_here", "the objects are on another server; use signed URLs")
	}
	key := Key{ID: req.GetWorkId(), Generation: req.GetGeneration(), Fence: req.GetFence()}
	listed, err := s.listed(ctx, key)
	if err != nil {
		return err
	}
	infos := make([]blob.Info, 0, len(req.GetUris()))
	var total int64
	for _, uri := range req.GetUris() {
		info, err := listed.info(uri)
		if err != nil {
			return err
		}
		if total += info.Size; info.Size > maxFetched || total > maxFetched {
			return fault.New(fault.TooLarge, "objects_too_large", "the objects have more than %d bytes together; request fewer of them", maxFetched)
		}
		infos = append(infos, info)
	}
	out := bufio.NewWriterSize(chunkWriter{stream}, chunkBytes)
	for _, info := range infos {
		if err := copyObject(ctx, out, reader, info); err != nil {
			return fmt.Errorf("send object %s: %w", info.Key, err)
		}
	}
	return out.Flush()
}

func copyObject(ctx context.Context, to io.Writer, from blob.Local, info blob.Info) error {
	body, err := from.OpenKnown(ctx, info)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, body)
	return errors.Join(err, body.Close())
}

// chunkWriter sends the bytes that are written to it as chunks of a stream.
type chunkWriter struct {
	stream grpc.ServerStreamingServer[jobsv1.ObjectsChunk]
}

// Write implements io.Writer.
func (w chunkWriter) Write(p []byte) (int, error) {
	if err := w.stream.Send(&jobsv1.ObjectsChunk{Data: p}); err != nil {
		return 0, err
	}
	return len(p), nil
}

// object is the size and the digest of an object in a spec.
type object struct {
	size   int64
	digest [32]byte
}

// objects are the objects of a spec by their URI.
type objects map[string]object

// info returns an object of the spec.
func (o objects) info(uri string) (blob.Info, error) {
	path, ok := blob.ParseURI(uri)
	known, listed := o[uri]
	if !ok || !listed {
		return blob.Info{}, fault.Absentf("object", uri)
	}
	return blob.Info{Key: path, Size: known.size, SHA256: hex.EncodeToString(known.digest[:])}, nil
}

// listed returns the objects of an execution that the calling node runs.
func (s *AgentServer) listed(ctx context.Context, key Key) (objects, error) {
	w, err := s.Agents.Works.Head(ctx, s.Agents.Pool, key.ID)
	if err != nil {
		return nil, err
	}
	if err := checkExecution(ctx, w, key); err != nil {
		return nil, err
	}
	return s.objects(ctx, key)
}

// objects returns the objects that the spec of an execution refers to. It loads a spec once for many pages.
func (s *AgentServer) objects(ctx context.Context, key Key) (objects, error) {
	if known, ok := s.named.get(key); ok {
		return known, nil
	}
	w, err := s.Agents.Works.Get(ctx, s.Agents.Pool, key.ID)
	if err != nil {
		return nil, err
	}
	if err := checkExecution(ctx, w, key); err != nil {
		return nil, err
	}
	all, err := objectsOf(w)
	if err != nil {
		return nil, err
	}
	s.named.put(key, all)
	return all, nil
}

func objectsOf(w *Work) (objects, error) {
	m, err := toProto(w, "")
	if err != nil {
		return nil, err
	}
	var refs []*jobsv1.ObjectRef
	if a := m.GetAttempt(); a != nil {
		refs = append(refs, a.GetPackage())
		for _, d := range a.GetDatasets() {
			refs = append(refs, d.GetFiles()...)
		}
		refs = append(refs, a.GetModel().GetFiles()...)
		refs = append(refs, a.GetResume().GetFile())
	}
	refs = append(refs, m.GetEngine().GetModel()...)
	all := make(objects, len(refs))
	for _, r := range refs {
		o := object{size: r.GetSizeBytes()}
		if digest, err := hex.DecodeString(r.GetSha256()); err == nil {
			copy(o.digest[:], digest) // an invalid digest matches no object
		}
		all[r.GetUri()] = o
	}
	return all, nil
}

// maxNamed is the maximum number of objects in memory. They take about 50 MB and suffice for ten works that each have
// the largest dataset. maxExecutions is the maximum number of executions, because get searches them one by one.
const (
	maxNamed      = 200_000
	maxExecutions = 256
)

// named remembers the objects in the specs of the executions that were used last. The spec of an execution never
// changes, so an entry is never out of date.
type named struct {
	mu    sync.Mutex
	specs map[Key]objects
	order []Key // the most recently used key is last
	total int
}

func (n *named) get(key Key) (objects, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	all, ok := n.specs[key]
	if ok {
		n.order = append(slices.DeleteFunc(n.order, func(k Key) bool { return k == key }), key)
	}
	return all, ok
}

// put adds an entry and removes the least recently used ones until the rest is within the bounds.
func (n *named) put(key Key, all objects) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.specs == nil {
		n.specs = map[Key]objects{}
	}
	if _, ok := n.specs[key]; ok {
		return
	}
	n.specs[key], n.order, n.total = all, append(n.order, key), n.total+len(all)
	for (n.total > maxNamed || len(n.order) > maxExecutions) && len(n.order) > 1 {
		n.total -= len(n.specs[n.order[0]])
		delete(n.specs, n.order[0])
		n.order = n.order[1:]
	}
}

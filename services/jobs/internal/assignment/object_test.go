package assignment_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// folder is an object store that can be read directly.
type folder struct {
	signer
	texts map[string]string // by key
}

func (f *folder) Local() {}

func (f *folder) OpenKnown(_ context.Context, info blob.Info) (io.ReadCloser, error) {
	text, ok := f.texts[info.Key]
	if !ok {
		return nil, blob.Absent(info.Key)
	}
	return blob.VerifyBody(io.NopCloser(strings.NewReader(text)), info), nil
}

// objectChunks is the stream of FetchObjects.
type objectChunks struct {
	grpc.ServerStream
	ctx     context.Context
	data    strings.Builder
	largest int
	number  int
}

func (c *objectChunks) Context() context.Context { return c.ctx }

func (c *objectChunks) Send(m *jobsv1.ObjectsChunk) error {
	c.data.Write(m.GetData())
	c.largest, c.number = max(c.largest, len(m.GetData())), c.number+1
	return nil
}

// withTexts stores an attempt on nod_1 whose dataset has these texts, and returns the store and the URIs.
func (b *harness) withTexts(id string, texts ...string) (*folder, []string) {
	b.t.Helper()
	b.attempt(id)
	store, uris := &folder{texts: map[string]string{}}, make([]string, len(texts))
	data := &jobsv1.DatasetInput{Name: "train"}
	for i, text := range texts {
		sum := sha256.Sum256([]byte(text))
		uris[i] = fileURI(i)
		key, _ := blob.ParseURI(uris[i])
		store.texts[key] = text
		data.Files = append(data.Files, &jobsv1.ObjectRef{
			Path: fmt.Sprint(i), Uri: uris[i], SizeBytes: int64(len(text)), Sha256: hex.EncodeToString(sum[:]),
		})
	}
	raw, err := proto.Marshal(&jobsv1.AttemptSpec{JobId: "job_1", RunId: "run_1", Datasets: []*jobsv1.DatasetInput{data}})
	require.NoError(b.t, err)
	b.exec(`UPDATE work SET spec = $2 WHERE id = $1`, id, raw)
	return store, uris
}

func fetchOf(id string, uris ...string) *jobsv1.FetchObjectsRequest {
	return &jobsv1.FetchObjectsRequest{WorkId: id, Generation: 1, Fence: 1, Uris: uris}
}

func TestFetchObjects_bytesInOrderOfRequest(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	large := strings.Repeat("large ", 100_000)
	store, uris := b.withTexts("wrk_1", "first", "", large, "last")
	s, _, _ := b.agents()
	s.Blobs = store
	out := &objectChunks{ctx: asNode(t.Context(), "nod_1")}
	require.NoError(t, s.FetchObjects(fetchOf("wrk_1", uris[3], uris[2], uris[1], uris[0], uris[0]), out))
	require.True(t, "last"+large+"firstfirst" == out.data.String(), "the objects must arrive in the order of the request, but %d other bytes arrived", out.data.Len())
	require.LessOrEqual(t, out.largest, 256<<10)
	require.Less(t, out.number, 5, "small objects must share chunks")
}

func TestFetchObjects_refusals(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	store, uris := b.withTexts("wrk_1", "first", strings.Repeat("x", 9<<20), strings.Repeat("y", 9<<20))
	s, _, signs := b.agents()
	s.Blobs = store
	for name, c := range map[string]struct {
		node, id string
		uris     []string
		want     fault.Kind
	}{
		"other node":               {"nod_2", "wrk_1", uris[:1], fault.Absent},
		"unknown work":             {"nod_1", "wrk_9", uris[:1], fault.Absent},
		"object of another work":   {"nod_1", "wrk_1", []string{uris[0], fileURI(7)}, fault.Absent},
		"more bytes than the size": {"nod_1", "wrk_1", uris[1:], fault.TooLarge},
	} {
		out := &objectChunks{ctx: asNode(t.Context(), c.node)}
		err := s.FetchObjects(fetchOf(c.id, c.uris...), out)
		require.True(t, fault.Is(err, c.want), "%s: %v", name, err)
		require.Zero(t, out.number, name)
	}
	require.NoError(t, s.FetchObjects(fetchOf("wrk_1", uris[1]), &objectChunks{ctx: asNode(t.Context(), "nod_1")}))
	s.Blobs = signs
	err := s.FetchObjects(fetchOf("wrk_1", uris[0]), &objectChunks{ctx: asNode(t.Context(), "nod_1")})
	require.True(t, fault.HasCode(err, "objects_not_here"), "a store on another server must be refused: %v", err)
	b.exec(`UPDATE work SET fence = 2`)
	s.Blobs = store
	err = s.FetchObjects(fetchOf("wrk_1", uris[0]), &objectChunks{ctx: asNode(t.Context(), "nod_1")})
	require.True(t, fault.Is(err, fault.Conflict), "an execution that is over must be refused: %v", err)
}

func TestFetchObjects_changedBytesEndStream(t *testing.T) {
	t.Parallel()
	b := newHarness(t)
	store, uris := b.withTexts("wrk_1", "first", "second")
	s, _, _ := b.agents()
	s.Blobs = store
	key, _ := blob.ParseURI(uris[1])
	store.texts[key] = "SECOND"
	err := s.FetchObjects(fetchOf("wrk_1", uris...), &objectChunks{ctx: asNode(t.Context(), "nod_1")})
	require.True(t, fault.HasCode(err, blob.CodeStore), "%v", err)
	delete(store.texts, key)
	err = s.FetchObjects(fetchOf("wrk_1", uris...), &objectChunks{ctx: asNode(t.Context(), "nod_1")})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

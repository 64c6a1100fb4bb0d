package controlplane

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"github.com/signalbox-dev/signalbox/agent/executor"
	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// FetchObjects sends the texts of the objects in chunks of three bytes. The text of an object is the part of its URI
// after blob://.
func (p *fakeControlPlane) FetchObjects(r *jobsv1.FetchObjectsRequest, s grpc.ServerStreamingServer[jobsv1.ObjectsChunk]) error {
	all := ""
	for _, uri := range r.GetUris() {
		if uri == "blob://elsewhere" {
			return fault.New(fault.Unconfigured, "objects_not_here", "the objects are on another server")
		}
		all += strings.TrimPrefix(uri, "blob://")
	}
	for chunk := range slices.Chunk([]byte(all), 3) {
		if err := s.Send(&jobsv1.ObjectsChunk{Data: chunk}); err != nil {
			return err
		}
	}
	return nil
}

func texts(list ...string) (refs []executor.ObjectRef) {
	for _, text := range list {
		refs = append(refs, executor.ObjectRef{URI: "blob://" + text, SizeBytes: int64(len(text))})
	}
	return refs
}

// received collects the bodies of objects.
type received []string

func (r *received) take(_ executor.ObjectRef, body io.Reader) error {
	raw, err := io.ReadAll(body)
	*r = append(*r, string(raw))
	return err
}

func TestLink_DownloadTogether(t *testing.T) {
	t.Parallel()
	p := newFakeControlPlane(t)
	m := p.link(filepath.Join(t.TempDir(), "node"))
	p.session()
	refused := errors.New("the disk is full")
	longer, shorter := texts("a", "bcd"), texts("a", "bcd")
	longer[1].SizeBytes, shorter[1].SizeBytes = 4, 2
	for name, c := range map[string]struct {
		refs []executor.ObjectRef
		each func(executor.ObjectRef, io.Reader) error
		want []string
		err  string
		is   error
	}{
		"all":                   {refs: texts("a", "", "bcdefgh", "i"), want: []string{"a", "", "bcdefgh", "i"}},
		"error of the receiver": {refs: texts("a", "b"), each: func(executor.ObjectRef, io.Reader) error { return refused }, err: "disk is full", is: refused},
		"fewer bytes":           {refs: longer, want: []string{"a", "bcd"}, err: ""},
		"more bytes":            {refs: shorter, want: []string{"a", "bc"}, err: "more bytes"},
		"store elsewhere":       {refs: texts("a", "elsewhere"), want: []string{""}, err: "one by one", is: executor.ErrApart},
	} {
		var got received
		each := c.each
		if each == nil {
			each = got.take
		}
		err := m.DownloadTogether(t.Context(), key(), c.refs, each)
		if c.err == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, c.err, name)
		}
		if c.is != nil {
			require.ErrorIs(t, err, c.is, name)
		}
		require.Equal(t, c.want, []string(got), name)
	}
	m.stop()
}

func TestLink_DownloadTogether_notConnected(t *testing.T) {
	t.Parallel()
	l := New(Deps{HTTP: &http.Client{}, Clock: clock.NewFake(time.Unix(0, 0))})
	err := l.DownloadTogether(context.Background(), key(), texts("a"), nil)
	require.ErrorIs(t, err, errNoLine)
}

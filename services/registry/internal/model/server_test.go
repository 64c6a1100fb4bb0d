package model

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/metadata"

	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

func TestUpdateModel_ifMatch(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 1)
	text := "what it is for"
	update := func(tag string) error {
		ctx, _ := as(t, "usr_1", authn.ProjectEditor, "")
		if tag != "" {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("if-match", tag))
		}
		_, err := s.UpdateModel(ctx, &registryv1.UpdateModelRequest{ModelId: s.m.GetId(), Description: &text})
		return err
	}
	require.True(t, fault.HasCode(update(`"9"`), "stale"))
	require.NoError(t, update(`"1"`))
	require.Equal(t, text, s.now().GetDescription())
	require.NoError(t, update(`"2"`), "the same description changes nothing")
	require.NoError(t, update(``))
	_, err := s.UpdateModel(ann(t), &registryv1.UpdateModelRequest{ModelId: s.m.GetId()})
	require.NoError(t, err)
	require.Equal(t, text, s.now().GetDescription(), "a request without a description keeps the old description")
}

func TestModelServer_viewerCannotWrite(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 1)
	id := s.m.GetId()
	writes := map[string]func(ctx context.Context, id string) error{
		"update": func(ctx context.Context, id string) error {
			_, err := s.UpdateModel(ctx, &registryv1.UpdateModelRequest{ModelId: id})
			return err
		},
		"delete": func(ctx context.Context, id string) error {
			_, err := s.DeleteModel(ctx, &registryv1.DeleteModelRequest{ModelId: id})
			return err
		},
		"promote": func(ctx context.Context, id string) error {
			_, err := s.PromoteModelVersion(ctx, &registryv1.PromoteModelVersionRequest{ModelId: id, Version: 1})
			return err
		},
		"archive": func(ctx context.Context, id string) error {
			_, err := s.ArchiveModelVersion(ctx, &registryv1.ArchiveModelVersionRequest{ModelId: id, Version: 1})
			return err
		},
		"unarchive": func(ctx context.Context, id string) error {
			_, err := s.UnarchiveModelVersion(ctx, &registryv1.UnarchiveModelVersionRequest{ModelId: id, Version: 1})
			return err
		},
		"alias": func(ctx context.Context, id string) error {
			_, err := s.SetModelAlias(ctx, &registryv1.SetModelAliasRequest{ModelId: id, Alias: "a", Version: 1})
			return err
		},
		"card": func(ctx context.Context, id string) error {
			_, err := s.PutModelCard(ctx, &registryv1.PutModelCardRequest{ModelId: id, Version: 1, Content: "x"})
			return err
		},
	}
	viewer, _ := as(t, "usr_3", authn.ProjectViewer, "")
	stranger, _ := as(t, "usr_4", "", "")
	for name, write := range writes {
		require.True(t, fault.Is(write(viewer, id), fault.Forbidden), name)
		require.True(t, fault.Is(write(stranger, id), fault.Absent), name)
		require.True(t, fault.Is(write(viewer, "mdl_x"), fault.Invalid), name)
	}
	files, err := s.ListModelFiles(viewer, &registryv1.ListModelFilesRequest{ModelId: id, Version: 1})
	require.NoError(t, err)
	require.Len(t, files.GetFiles(), 1)
	require.Equal(t, "model.safetensors", files.GetFiles()[0].GetPath())
	require.Len(t, files.GetFiles()[0].GetSha256(), 64)
	offset := int32(1)
	files, err = s.ListModelFiles(viewer, &registryv1.ListModelFilesRequest{ModelId: id, Version: 1, Offset: &offset})
	require.NoError(t, err)
	require.Empty(t, files.GetFiles())
	links, err := s.ListModelDownloads(viewer, &registryv1.ListModelDownloadsRequest{ModelId: id, Version: 1})
	require.NoError(t, err)
	rec := httptest.NewRecorder()
	s.blobs.Handler().ServeHTTP(rec, httptest.NewRequest(http.MethodGet, links.GetFiles()[0].GetUrl(), nil))
	require.Equal(t, []any{http.StatusOK, "model.safetensors"}, []any{rec.Code, links.GetFiles()[0].GetPath()})
	require.Equal(t, links.GetFiles()[0].GetSha256(), fmt.Sprintf("%x", sha256.Sum256(rec.Body.Bytes())))
	links, err = s.ListModelDownloads(viewer, &registryv1.ListModelDownloadsRequest{ModelId: id, Version: 1, Offset: &offset})
	require.NoError(t, err)
	require.Empty(t, links.GetFiles())
	_, err = s.ListModelDownloads(stranger, &registryv1.ListModelDownloadsRequest{ModelId: id, Version: 1})
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
}

func TestPutModelCard_keepsRevisions(t *testing.T) {
	t.Parallel()
	s := newModelHarness(t, 1)
	get := func(revision *int32) (*registryv1.ModelCard, error) {
		return s.GetModelCard(ann(t), &registryv1.GetModelCardRequest{ModelId: s.m.GetId(), Version: 1, Revision: revision})
	}
	put := func(content, tag string) (*registryv1.ModelCard, *headers, error) {
		ctx, sent := as(t, "usr_1", authn.ProjectEditor, "")
		if tag != "" {
			ctx = metadata.NewIncomingContext(ctx, metadata.Pairs("if-match", tag))
		}
		c, err := s.PutModelCard(ctx, &registryv1.PutModelCardRequest{ModelId: s.m.GetId(), Version: 1, Content: content})
		return c, sent, err
	}
	_, err := get(nil)
	require.True(t, fault.Is(err, fault.Absent), "%v", err)
	const first = "---\nlicense: mit\ntags: [a, b]\n---\n# what it is\n"
	c, sent, err := put(first, `"0"`)
	require.NoError(t, err)
	require.Equal(t, []string{`"1"`}, sent.sent.Get("etag"))
	require.Equal(t, []any{int32(1), first, "# what it is\n", "usr_1"}, []any{c.GetRevision(), c.GetContent(), c.GetBody(), c.GetAuthor()})
	require.JSONEq(t, `{"license": "mit", "tags": ["a", "b"]}`, string(c.GetFrontMatter()))
	_, _, err = put("other", `"0"`)
	require.True(t, fault.HasCode(err, "stale"), "%v", err)
	again, _, err := put(first, "")
	require.NoError(t, err)
	require.Equal(t, int32(1), again.GetRevision(), "the same text adds no revision")
	c, _, err = put("plain", `"1"`)
	require.NoError(t, err)
	require.Equal(t, []any{int32(2), "plain"}, []any{c.GetRevision(), c.GetBody()})
	require.Empty(t, c.GetFrontMatter())
	one := int32(1)
	old, err := get(&one)
	require.NoError(t, err)
	require.Equal(t, first, old.GetContent())
	newest, err := get(nil)
	require.NoError(t, err)
	require.Equal(t, "plain", newest.GetContent())
	v, err := s.GetModelVersion(ann(t), &registryv1.GetModelVersionRequest{ModelId: s.m.GetId(), Version: 1})
	require.NoError(t, err)
	require.Equal(t, newest.GetDigest(), v.GetCardDigest())
	_, _, err = put("---\na: [\n---\n", "")
	require.True(t, fault.Is(err, fault.Invalid), "%v", err)
	require.Equal(t, []any{"content"}, fault.From(err).Fields[0].Loc)
}

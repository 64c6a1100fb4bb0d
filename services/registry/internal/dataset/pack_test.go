package dataset_test

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	jobsv1 "github.com/signalbox-dev/signalbox/gen/signalbox/jobs/v1"
	registryv1 "github.com/signalbox-dev/signalbox/gen/signalbox/registry/v1"
	"github.com/signalbox-dev/signalbox/platform/authn"
	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/services/registry/internal/dataset"
	"github.com/signalbox-dev/signalbox/services/registry/internal/ref"
)

// filesOf returns the manifest of files by path.
func filesOf(texts map[string]string) (files []*registryv1.ManifestFile) {
	for path, text := range texts {
		files = append(files, of(path, text)...)
	}
	return files
}

// upload creates a version with the given texts as files and uploads them, but does not commit the version.
func (d *harness) upload(s *registryv1.Dataset, version string, texts map[string]string) {
	d.t.Helper()
	made, err := d.begin("usr_1", s, version, filesOf(texts))
	require.NoError(d.t, err)
	for _, u := range made.GetUploads() {
		require.Less(d.t, d.put(u, texts[u.GetPath()]), 300)
	}
}

// input returns the input of a job that reads the version.
func (d *harness) input(name, version string, packed bool) *jobsv1.DatasetInput {
	d.t.Helper()
	c := &authn.Caller{Kind: authn.KindUser, Subject: "usr_1", Role: authn.RoleAdmin}
	r := ref.Ref{Kind: ref.Dataset, Project: "team", Name: name, Version: version}
	s, v, err := d.Store.Resolve(d.t.Context(), d.Pool, c.Reads(), r)
	require.NoError(d.t, err)
	require.NotNil(d.t, v)
	require.NoError(d.t, d.Store.LoadInputs(d.t.Context(), d.Pool, v, packed))
	return dataset.ToInput("train", s, v)
}

// contents returns the files of an input, including those in packs, and the number of packs.
func (d *harness) contents(in *jobsv1.DatasetInput) (texts map[string]string, packs int) {
	d.t.Helper()
	texts = map[string]string{}
	for _, f := range in.GetFiles() {
		key, ok := blob.ParseURI(f.GetUri())
		require.True(d.t, ok)
		body, err := d.blobs.OpenKnown(d.t.Context(), blob.Info{Key: key, Size: f.GetSizeBytes(), SHA256: f.GetSha256()})
		require.NoError(d.t, err)
		raw, err := io.ReadAll(body)
		require.NoError(d.t, errors.Join(err, body.Close()))
		if !f.GetUnpack() {
			texts[f.GetPath()] = string(raw)
			continue
		}
		packs++
		archive := tar.NewReader(strings.NewReader(string(raw)))
		for {
			h, err := archive.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			require.NoError(d.t, err)
			text, err := io.ReadAll(archive)
			require.NoError(d.t, err)
			require.NotContains(d.t, texts, h.Name)
			texts[h.Name] = string(text)
		}
	}
	return texts, packs
}

// smallFiles returns n files with different texts.
func smallFiles(n int) map[string]string {
	texts := map[string]string{}
	for i := range n {
		texts[fmt.Sprintf("part/%03d.txt", i)] = fmt.Sprintf("text %d", i)
	}
	return texts
}

func TestCommitDatasetVersion_smallFilesInPacks(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("many", "team")
	texts := smallFiles(40)
	texts["empty"], texts["same"] = "", "text 1"
	texts["größe/"+strings.Repeat("x", 200)+".txt"] = "a name that takes two headers"
	deep, large := strings.Repeat("d/", 32)+"file", "large"
	texts[deep], texts[large] = "deeper than agents unpack", strings.Repeat("x", 256<<10+1)
	d.upload(s, "v1", texts)
	_, err := d.commit("usr_1", s, "v1")
	require.NoError(t, err)

	in := d.input("many", "v1", true)
	got, packs := d.contents(in)
	require.Equal(t, texts, got)
	require.Equal(t, 1, packs)
	require.Len(t, in.GetFiles(), 3, "the pack and the files %s and %s", deep, large)
	require.True(t, strings.HasPrefix(in.GetFiles()[0].GetUri(), "blob://projects/prj_team/packs/"+s.GetId()+"/"))
	got, packs = d.contents(d.input("many", "v1", false))
	require.Equal(t, texts, got)
	require.Zero(t, packs, "the single files remain")
}

func TestCommitDatasetVersion_fewFilesWithoutPacks(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("few", "team")
	texts := smallFiles(31)
	d.upload(s, "v1", texts)
	_, err := d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	got, packs := d.contents(d.input("few", "v1", true))
	require.Equal(t, texts, got)
	require.Zero(t, packs)
}

func TestCommitDatasetVersion_uploadsOfPackedFilesVerified(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("many", "team")
	texts := smallFiles(40)
	d.upload(s, "v1", texts)
	key := dataset.Key("prj_team", sum("text 7"))
	path := filepath.Join(d.root, key+"@", sum("text 7"))

	require.NoError(t, os.WriteFile(path, []byte("TEXT 7"), 0o600))
	_, err := d.commit("usr_1", s, "v1")
	require.True(t, fault.HasCode(err, blob.CodeStore), "changed bytes: %v", err)
	require.NoError(t, d.blobs.Delete(t.Context(), key))
	_, err = d.commit("usr_1", s, "v1")
	require.True(t, fault.HasCode(err, "object_missing"), "%v", err)
	require.ErrorContains(t, err, "file part/007.txt has not been uploaded")

	d.upload(s, "v1", texts)
	v, err := d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	require.Equal(t, "ready", v.GetState())
	got, _ := d.contents(d.input("many", "v1", true))
	require.Equal(t, texts, got)
}

// slowStore is an object store whose objects take seconds to open.
type slowStore struct {
	blob.Store

	wait func()
	// opened counts how often each object was opened.
	opened map[string]int
	mu     *sync.Mutex
}

func (s slowStore) OpenKnown(ctx context.Context, info blob.Info) (io.ReadCloser, error) {
	s.mu.Lock()
	s.opened[info.Key]++
	s.mu.Unlock()
	s.wait()
	return s.Store.OpenKnown(ctx, info)
}

func TestCommitDatasetVersion_slowStoreEndsPacking(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	slow := slowStore{Store: d.blobs, wait: func() { d.clock.Advance(21 * time.Second) }, opened: map[string]int{}, mu: &sync.Mutex{}}
	const small = 64 << 10 // the maximum size of a pack here, so that there are several
	d.Packer = dataset.NewPacker(d.Pool, slow, d.clock, small, time.Hour)
	s := d.make("many", "team")
	texts := smallFiles(200)
	d.upload(s, "v1", texts)
	_, err := d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	in := d.input("many", "v1", true)
	got, packs := d.contents(in)
	require.Equal(t, texts, got)
	require.Positive(t, packs)
	require.LessOrEqual(t, packs, 2, "two packs are built at a time, and no other one is begun after twenty seconds")
	require.Greater(t, len(in.GetFiles()), 100, "the other files remain outside of packs")
}

func TestCommitDatasetVersion_repeatContinuesPacking(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("many", "team")
	texts := smallFiles(200)
	d.upload(s, "v1", texts)
	last := dataset.Key("prj_team", sum("text 199"))
	opened := map[string]int{}
	slow := slowStore{Store: d.blobs, wait: func() { d.clock.Advance(time.Second) }, opened: opened, mu: &sync.Mutex{}}
	const small = 64 << 10
	d.Packer = dataset.NewPacker(d.Pool, slow, d.clock, small, time.Hour)
	require.NoError(t, d.blobs.Delete(t.Context(), last))
	_, err := d.commit("usr_1", s, "v1")
	require.True(t, fault.HasCode(err, "object_missing"), "the commit must fail if a file that is in no pack yet is missing: %v", err)
	require.NotEmpty(t, opened)

	slow.wait = func() {}
	d.Packer = dataset.NewPacker(d.Pool, slow, d.clock, small, time.Hour)
	d.upload(s, "v1", texts)
	_, err = d.commit("usr_1", s, "v1")
	require.NoError(t, err)
	got, packs := d.contents(d.input("many", "v1", true))
	require.Equal(t, texts, got)
	require.Greater(t, packs, 3)
	require.Len(t, opened, len(texts))
	for key, times := range opened {
		require.Equal(t, 1, times, key)
	}
}

func TestCreateDatasetVersion_takenOverUploadHasNoPacks(t *testing.T) {
	t.Parallel()
	d := newHarness(t)
	s := d.make("many", "team")
	texts := smallFiles(40)
	d.upload(s, "v1", texts)
	large := strings.Repeat("x", 256<<10+1)
	d.upload(s, "v2", map[string]string{"large": large})
	require.NoError(t, d.blobs.Delete(t.Context(), dataset.Key("prj_team", sum(large))))
	_, err := d.begin("usr_1", s, "v3", append(of("large", large), filesOf(texts)...))
	require.NoError(t, err)
	_, err = d.commit("usr_1", s, "v3")
	require.True(t, fault.HasCode(err, "object_missing"), "the commit must fail after packing, because the large file is missing: %v", err)
	d.clock.Advance(blob.MaxExpires + time.Second)
	_, err = d.begin("usr_2", s, "v3", of("part/000.txt", texts["part/000.txt"]))
	require.NoError(t, err)
	_, err = d.commit("usr_2", s, "v3")
	require.NoError(t, err)
	got, packs := d.contents(d.input("many", "v3", true))
	require.Equal(t, map[string]string{"part/000.txt": texts["part/000.txt"]}, got)
	require.Zero(t, packs)
}

func TestGrouped_packsWithinBoundsAndStable(t *testing.T) {
	t.Parallel()
	const limit = 8 << 20
	var files []dataset.File
	for i := range 10_000 {
		text := fmt.Sprint(i)
		files = append(files, dataset.File{Path: fmt.Sprintf("part-%05d", i), Size: int64(i % 50_000), SHA256: sum(text)})
	}
	all, alone := dataset.Grouped(files, limit)
	require.Empty(t, alone)
	number := 0
	known := map[string]bool{}
	for _, group := range all {
		var size int64
		for _, f := range group {
			size += f.Size
		}
		require.LessOrEqual(t, size, int64(limit))
		number += len(group)
		known[fmt.Sprint(group)] = true
	}
	require.Equal(t, len(files), number)
	require.Less(t, len(all), 40)

	changed := append([]dataset.File{{Path: "a first file", Size: 9, SHA256: sum("first")}}, files...)
	again, _ := dataset.Grouped(changed, limit)
	other := 0
	for _, group := range again {
		if !known[fmt.Sprint(group)] {
			other++
		}
	}
	require.LessOrEqual(t, other, 4, "of %d packs", len(again))
}

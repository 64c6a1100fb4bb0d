package recipe

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/signalbox-dev/signalbox/platform/access"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/request"
	"github.com/signalbox-dev/signalbox/services/registry/internal/db"
	"github.com/signalbox-dev/signalbox/test/pgtest"
)

func TestLess(t *testing.T) {
	t.Parallel()
	cases := []struct {
		a, b string
		less bool
	}{
		{"1.2", "1.10", true},
		{"1.10", "1.2", false},
		{"1", "1.0", true},
		{"1.0", "1", false},
		{"1.0", "1.0", false},
		{"2.0.0", "10.0.0", true},
		{"1.0-rc", "1.0-rd", true},
		{"1.a", "1.2", false},
		{"1.2", "1.a", true},
		{"", "1", true},
	}
	for _, c := range cases {
		require.Equal(t, c.less, less(c.a, c.b), "%s < %s", c.a, c.b)
	}
}

func of(version, state string) *Version {
	return &Version{Manifest: Manifest{Name: "sft/tiny", Version: version, State: state}}
}

func TestNewest(t *testing.T) {
	t.Parallel()
	require.Nil(t, Newest(nil))
	require.Nil(t, Newest([]*Version{of("1", StateWithdrawn)}))
	got := Newest([]*Version{of("1.9", StateActive), of("1.10", StateActive), of("2.0", StateWithdrawn), of("1.2", StateActive)})
	require.Equal(t, "1.10", got.Manifest.Version)
}

func TestRequiredDatasets(t *testing.T) {
	t.Parallel()
	cases := map[string][]string{
		``:   nil,
		`[]`: nil,
		`[{"name":"train","kind":"dataset","required":true},{"name":"eval","kind":"dataset"},{"name":"base","kind":"model","required":true}]`: {"train"},
	}
	for inputs, want := range cases {
		v := of("1", StateActive)
		v.Inputs = []byte(inputs)
		got, err := v.RequiredDatasets()
		require.NoError(t, err)
		require.Equal(t, want, got, inputs)
	}
	v := of("1", StateActive)
	v.Inputs = []byte(`{"name":1}`)
	_, err := v.RequiredDatasets()
	require.ErrorContains(t, err, "sft/tiny")
	_, err = ToCatalog(v)
	require.Error(t, err)
}

// catalog returns a folder of recipes.
func catalog() fstest.MapFS {
	file := func(s string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte(s), ModTime: time.Unix(99, 0), Mode: 0o755}
	}
	return fstest.MapFS{
		"sft/tiny/recipe.json":      file(`{"api":"v1","name":"sft/tiny","version":"1.0","state":"active","requirements":"requirements.txt","params_schema":{}}`),
		"sft/tiny/requirements.txt": file("numpy==2\n"),
		"sft/tiny/src/main.py":      file("print()\n"),
		"rl/big/recipe.json":        file(`{"api":"v1","name":"rl/big","version":"2","state":"withdrawn","params_schema":{}}`),
		"rl/README.md":              file("no recipe"),
		"deep/er/still/recipe.json": file(`{"name":"none"}`),
	}
}

func TestReadAll_ordersByName(t *testing.T) {
	t.Parallel()
	all, err := readAll(catalog(), "recipe.json")
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, []string{"rl/big", "sft/tiny"}, []string{all[0].Name, all[1].Name})
	require.Empty(t, all[0].RequirementsText)
	require.Equal(t, "numpy==2\n", all[1].RequirementsText)
	require.EqualValues(t, len(all[1].tree), all[1].TreeBytes)
	var names []string
	for r := tar.NewReader(bytes.NewReader(all[1].tree)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		require.NoError(t, err)
		require.EqualValues(t, 0, h.ModTime.Unix())
		names = append(names, h.Name)
	}
	require.Equal(t, []string{"recipe.json", "requirements.txt", "src/main.py"}, names)
}

func TestReadAll_digestCoversFiles(t *testing.T) {
	t.Parallel()
	digestOf := func(change func(fstest.MapFS)) string {
		files := catalog()
		change(files)
		all, err := readAll(files, "recipe.json")
		require.NoError(t, err)
		return all[1].Digest
	}
	plain := digestOf(func(fstest.MapFS) {})
	require.Equal(t, plain, digestOf(func(f fstest.MapFS) { f["sft/tiny/src/main.py"].ModTime = time.Unix(7, 0) }), "modification times do not affect the digest")
	require.NotEqual(t, plain, digestOf(func(f fstest.MapFS) { f["sft/tiny/src/main.py"].Data = []byte("print(1)\n") }))
	require.NotEqual(t, plain, digestOf(func(f fstest.MapFS) { f["sft/tiny/more.py"] = &fstest.MapFile{} }))
}

func TestReadAll_charts(t *testing.T) {
	t.Parallel()
	readWith := func(charts ...string) (packed, error) {
		encoded, err := json.Marshal(charts)
		require.NoError(t, err)
		files := catalog()
		files["sft/tiny/recipe.json"].Data = fmt.Appendf(nil, `{"api":"v1","name":"sft/tiny","version":"1.0","charts":%s}`, encoded)
		all, err := readAll(files, "recipe.json")
		if err != nil {
			return packed{}, err
		}
		return all[1], nil
	}
	twelve := slices.Repeat([]string{strings.Repeat("é", 256)}, 12)
	most, err := readWith(twelve...)
	require.NoError(t, err)
	require.Equal(t, twelve, ToProto(most.Version).GetCharts())
	one, err := readWith("train/*")
	require.NoError(t, err)
	other, err := readWith("train/loss")
	require.NoError(t, err)
	require.NotEqual(t, one.Digest, other.Digest, "the digest covers the charts")

	_, err = readWith(append(twelve, "loss")...)
	require.ErrorContains(t, err, "read recipe sft/tiny: charts has 13 entries; name at most 12 keys or patterns")
	_, err = readWith("loss", "")
	require.ErrorContains(t, err, "charts[1] has 0 characters; a key or pattern has 1 to 256")
	_, err = readWith(strings.Repeat("é", 257))
	require.ErrorContains(t, err, "charts[0] has 257 characters")
}

func TestReadAll_errors(t *testing.T) {
	t.Parallel()
	broken := catalog()
	broken["sft/tiny/recipe.json"].Data = []byte(`{`)
	_, err := readAll(broken, "recipe.json")
	require.ErrorContains(t, err, "recipe sft/tiny")
	unpinned := catalog()
	delete(unpinned, "sft/tiny/requirements.txt")
	_, err = readAll(unpinned, "recipe.json")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestStore_catalog(t *testing.T) {
	t.Parallel()
	files, err := db.Migrations()
	require.NoError(t, err)
	pool := pgtest.New(t, pgtest.Schema{Name: "registry", Migrations: files}).Pool("registry")
	all, err := readAll(catalog(), "recipe.json")
	require.NoError(t, err)
	s := Store{}
	first := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	for _, p := range all {
		p.LockedAt = first
		did, err := s.Ship(t.Context(), pool, p.Version)
		require.NoError(t, err)
		require.Equal(t, added, did)
	}
	p := all[1]
	p.LockedAt = first.Add(time.Hour)
	did, err := s.Ship(t.Context(), pool, p.Version)
	require.NoError(t, err)
	require.Equal(t, unchanged, did, "storing the same version again changes nothing")
	got, err := s.Get(t.Context(), pool, access.ServiceScope(), "sft/tiny", "1.0")
	require.NoError(t, err)
	require.True(t, first.Equal(got.LockedAt), "LockedAt changes only with the digest")
	require.Equal(t, p.Text, got.Text)
	before, err := CatalogDigest([]*Version{all[0].Version, got})
	require.NoError(t, err)
	p.Digest = "sha256:other"
	did, err = s.Ship(t.Context(), pool, p.Version)
	require.NoError(t, err)
	require.Equal(t, replaced, did)
	kept, err := s.Shipped(t.Context(), pool)
	require.NoError(t, err)
	after, err := CatalogDigest(kept)
	require.NoError(t, err)
	require.NotEqual(t, before, after)
	require.Equal(t, "sha256:other", kept[1].Digest)
	_, err = s.Get(t.Context(), pool, access.ServiceScope(), "sft/tiny", "9")
	require.True(t, fault.Is(err, fault.Absent))
	some, err := s.List(t.Context(), pool, access.ServiceScope(), Filter{}, request.Page{Limit: 1, Offset: 1}, &Contents{})
	require.NoError(t, err)
	require.Equal(t, "sft/tiny", some[0].Name)
	none, err := s.Heads(t.Context(), pool, access.ServiceScope(), "none")
	require.NoError(t, err)
	require.Empty(t, none)
}

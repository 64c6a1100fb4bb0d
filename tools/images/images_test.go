package main

import (
	"archive/tar"
	"bytes"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/match"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/stretchr/testify/require"
)

func testRelease() release {
	return release{
		repository: "localhost/signalbox", version: "v9.8.7", revision: strings.Repeat("ab", 20), created: time.Date(2026, 11, 28, 3, 4, 5, 0, time.UTC),
	}
}

// staticProgram builds a static program for this machine and returns its path.
func staticProgram(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "authd")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", path, "./testdata/program")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return path
}

func authd(t *testing.T) program {
	t.Helper()
	require.Equal(t, "authd", programs()[0].name)
	return programs()[0]
}

// unpack extracts a tar archive.
func unpack(t *testing.T, path, dir string) {
	t.Helper()
	f, err := os.Open(path)
	require.NoError(t, err)
	defer func() { _ = f.Close() }()
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err)
		to := filepath.Join(dir, h.Name)
		if h.Typeflag == tar.TypeDir {
			require.NoError(t, os.MkdirAll(to, 0o750))
			continue
		}
		raw, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(to, raw, 0o600))
	}
}

// headers returns the headers of all files of an image by name.
func headers(t *testing.T, img v1.Image) (all map[string]*tar.Header, data map[string][]byte) {
	t.Helper()
	all, data = map[string]*tar.Header{}, map[string][]byte{}
	in := mutate.Extract(img)
	defer func() { _ = in.Close() }()
	for r := tar.NewReader(in); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all, data
		}
		require.NoError(t, err)
		all[h.Name] = h
		data[h.Name], err = io.ReadAll(r)
		require.NoError(t, err)
	}
}

func TestImage_configuration(t *testing.T) {
	t.Parallel()
	b, err := build(testRelease(), authd(t), staticProgram(t), runtime.GOARCH)
	require.NoError(t, err)
	require.Less(t, b.size, int64(maxBytes))
	file, err := b.image.ConfigFile()
	require.NoError(t, err)
	require.Equal(t, "linux", file.OS)
	require.Equal(t, runtime.GOARCH, file.Architecture)
	require.Equal(t, []string{"/usr/bin/authd"}, file.Config.Entrypoint)
	require.Equal(t, "65532:65532", file.Config.User)
	require.Empty(t, file.Config.Env)
	require.Equal(t, "Signalbox auth", file.Config.Labels["org.opencontainers.image.title"])
	require.Equal(t, "v9.8.7", file.Config.Labels["org.opencontainers.image.version"])
	require.Equal(t, testRelease().revision, file.Config.Labels["org.opencontainers.image.revision"])
	require.Equal(t, "2026-11-28T03:04:05Z", file.Config.Labels["org.opencontainers.image.created"])
	manifest, err := b.image.Manifest()
	require.NoError(t, err)
	require.Equal(t, file.Config.Labels, manifest.Annotations)
}

func TestImage_files(t *testing.T) {
	t.Parallel()
	path := staticProgram(t)
	b, err := build(testRelease(), authd(t), path, runtime.GOARCH)
	require.NoError(t, err)
	all, data := headers(t, b.image)
	var files []string
	for name, h := range all {
		require.Equal(t, testRelease().created, h.ModTime.UTC(), name)
		if h.Typeflag == tar.TypeReg {
			files = append(files, name)
		}
	}
	// No shell and no other program.
	require.ElementsMatch(t, []string{"etc/group", "etc/passwd", "etc/ssl/certs/ca-certificates.crt", "usr/bin/authd"}, files)
	raw, err := os.ReadFile(path)
	require.NoError(t, err)
	require.True(t, bytes.Equal(raw, data["usr/bin/authd"]))
	require.Equal(t, int64(0o755), all["usr/bin/authd"].Mode)
	require.Equal(t, int64(0o1777), all["tmp"].Mode)
	require.Equal(t, [3]int64{0o700, nonroot, nonroot}, owner(all["var/lib/signalbox"]))
	require.Equal(t, [3]int64{0o750, 0, nonroot}, owner(all["etc/signalbox"]))
	require.Contains(t, string(data["etc/passwd"]), "signalbox:x:65532:65532:")
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(data["etc/ssl/certs/ca-certificates.crt"]))
	require.Greater(t, bytes.Count(data["etc/ssl/certs/ca-certificates.crt"], []byte("BEGIN CERTIFICATE")), 100)
}

func owner(h *tar.Header) [3]int64 { return [3]int64{h.Mode, int64(h.Uid), int64(h.Gid)} }

func TestArchive_isReproducible(t *testing.T) {
	t.Parallel()
	path, r, dir := staticProgram(t), testRelease(), t.TempDir()
	digests, archives := map[v1.Hash]bool{}, map[string]bool{}
	for _, name := range []string{"one.tar", "two.tar"} {
		b, err := build(r, authd(t), path, runtime.GOARCH)
		require.NoError(t, err)
		digest, err := writeArchive(r, authd(t), []built{b}, filepath.Join(dir, name))
		require.NoError(t, err)
		digests[digest] = true
		raw, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		archives[string(raw)] = true
	}
	require.Len(t, digests, 1)
	require.Len(t, archives, 1)
	left, err := filepath.Glob(filepath.Join(dir, ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}

func TestArchive_containsImageAndDocument(t *testing.T) {
	t.Parallel()
	r, dir := testRelease(), t.TempDir()
	b, err := build(r, authd(t), staticProgram(t), runtime.GOARCH)
	require.NoError(t, err)
	digest, err := writeArchive(r, authd(t), []built{b}, filepath.Join(dir, "authd.tar"))
	require.NoError(t, err)
	unpack(t, filepath.Join(dir, "authd.tar"), filepath.Join(dir, "layout"))
	files, err := layout.FromPath(filepath.Join(dir, "layout"))
	require.NoError(t, err)
	top, err := files.ImageIndex()
	require.NoError(t, err)
	list, err := top.IndexManifest()
	require.NoError(t, err)
	require.Len(t, list.Manifests, 1, "podman load accepts one image in an archive")
	require.Equal(t, digest, list.Manifests[0].Digest)
	require.Equal(t, "localhost/signalbox/authd:v9.8.7", list.Manifests[0].Annotations["io.containerd.image.name"])
	index, err := top.ImageIndex(digest)
	require.NoError(t, err)
	images, err := index.IndexManifest()
	require.NoError(t, err)
	require.Len(t, images.Manifests, 2)
	require.True(t, match.Platforms(v1.Platform{OS: "linux", Architecture: runtime.GOARCH})(images.Manifests[0]))
	document, err := index.Image(images.Manifests[1].Digest)
	require.NoError(t, err)
	manifest, err := document.Manifest()
	require.NoError(t, err)
	require.Equal(t, b.digest, manifest.Subject.Digest)
	require.Equal(t, spdxType, string(manifest.Config.MediaType))
	layers, err := document.Layers()
	require.NoError(t, err)
	in, err := layers[0].Uncompressed()
	require.NoError(t, err)
	raw, err := io.ReadAll(in)
	require.NoError(t, err)
	require.Equal(t, string(b.sbom), string(raw))
}

func TestDocument_listsModules(t *testing.T) {
	t.Parallel()
	b, err := build(testRelease(), authd(t), staticProgram(t), runtime.GOARCH)
	require.NoError(t, err)
	var d document
	require.NoError(t, json.Unmarshal(b.sbom, &d))
	require.Equal(t, "SPDX-2.3", d.Version)
	require.Equal(t, "authd", d.Packages[0].Name)
	var purls []string
	ids := map[string]bool{}
	for _, p := range d.Packages {
		ids[p.ID] = true
		for _, ref := range p.Refs {
			purls = append(purls, ref.Locator)
		}
	}
	require.Len(t, ids, len(d.Packages), "two packages have the same identifier")
	require.True(t, slices.ContainsFunc(purls, func(p string) bool { return strings.HasPrefix(p, "pkg:golang/stdlib@1.") }))
	require.True(t, slices.ContainsFunc(purls, func(p string) bool { return strings.HasPrefix(p, "pkg:golang/golang.org/x/mod@v0.") }), purls)
	require.Len(t, d.Relationships, len(d.Packages))
}

func TestBuild_refusesUnsuitablePrograms(t *testing.T) {
	t.Parallel()
	other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[runtime.GOARCH]
	_, err := build(testRelease(), authd(t), staticProgram(t), other)
	require.ErrorContains(t, err, "the program is for")
	shell, err := exec.LookPath("sh")
	require.NoError(t, err)
	_, err = build(testRelease(), authd(t), shell, runtime.GOARCH)
	require.ErrorContains(t, err, "build it with CGO_ENABLED=0")
}

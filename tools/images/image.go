package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// built is the image of a program for one architecture.
type built struct {
	arch   string
	image  v1.Image
	digest v1.Hash
	size   int64 // of the compressed layers, in bytes
	sbom   []byte
}

// build returns the image of the program at path.
func build(r release, p program, path, arch string) (built, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return built{}, err
	}
	info, err := read(raw, arch)
	if err != nil {
		return built{}, fmt.Errorf("%s: %w", path, err)
	}
	b := built{arch: arch}
	if b.sbom, err = sbom(r, p, arch, raw, info); err != nil {
		return built{}, fmt.Errorf("write the SPDX document: %w", err)
	}
	base, err := baseEntries()
	if err != nil {
		return built{}, err
	}
	// The first layer is the same in all images, so a host stores it only once.
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
	for _, entries := range [][]entry{base, {{name: "usr/bin/" + p.name, mode: 0o755, data: raw}}} {
		layer, size, err := compressed(entries, r.created)
		if err != nil {
			return built{}, err
		}
		b.size += size
		history := v1.History{Created: v1.Time{Time: r.created}, CreatedBy: "tools/images"}
		if img, err = mutate.Append(img, mutate.Addendum{Layer: layer, History: history}); err != nil {
			return built{}, err
		}
	}
	if b.image, err = configured(img, r, p, arch); err != nil {
		return built{}, err
	}
	b.digest, err = b.image.Digest()
	return b, err
}

// compressed returns the entries as a layer, with its compressed size in bytes.
func compressed(entries []entry, at time.Time) (v1.Layer, int64, error) {
	raw, err := archived(entries, at)
	if err != nil {
		return nil, 0, err
	}
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil }
	layer, err := tarball.LayerFromOpener(open, tarball.WithMediaType(types.OCILayer),
		tarball.WithCompressionLevel(gzip.BestCompression), tarball.WithCompressedCaching)
	if err != nil {
		return nil, 0, err
	}
	size, err := layer.Size()
	return layer, size, err
}

// configured returns the image with its configuration and annotations.
func configured(img v1.Image, r release, p program, arch string) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.OS, file.Architecture, file.Created = "linux", arch, v1.Time{Time: r.created}
	file.Config = v1.Config{
		Entrypoint: []string{"/usr/bin/" + p.name}, User: strconv.Itoa(nonroot) + ":" + strconv.Itoa(nonroot),
		WorkingDir: "/var/lib/signalbox", Labels: r.labels(p),
	}
	if img, err = mutate.ConfigFile(img, file); err != nil {
		return nil, err
	}
	return mutate.Annotations(img, r.labels(p)).(v1.Image), nil
}

// labels returns the labels of an image, which are also its annotations.
func (r release) labels(p program) map[string]string {
	const prefix = "org.opencontainers.image."
	return map[string]string{
		prefix + "title": p.title, prefix + "description": p.description, prefix + "version": r.version,
		prefix + "revision": r.revision, prefix + "created": r.created.Format(time.RFC3339),
		prefix + "source": "https://github.com/signalbox-dev/signalbox", prefix + "licenses": "Apache-2.0",
	}
}

// attached returns the SPDX document as an artifact that refers to the image. Registries list it among the image's
// referrers.
func (b built) attached() (v1.Image, error) {
	size, err := b.image.Size()
	if err != nil {
		return nil, err
	}
	// The media type of the configuration is the type of an artifact.
	img := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdxType)
	if img, err = mutate.AppendLayers(img, static.NewLayer(b.sbom, spdxType)); err != nil {
		return nil, err
	}
	return mutate.Subject(img, v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: b.digest, Size: size}).(v1.Image), nil
}

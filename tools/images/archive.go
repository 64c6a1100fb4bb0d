package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// indexOf returns the index of the images of a program and of their SPDX documents.
func indexOf(r release, p program, all []built) (v1.ImageIndex, error) {
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, b := range all {
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: b.image, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: b.arch}},
		})
	}
	for _, b := range all {
		document, err := b.attached()
		if err != nil {
			return nil, err
		}
		// With this platform, no host chooses the document as its image.
		index = mutate.AppendManifests(index, mutate.IndexAddendum{
			Add: document, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "unknown", Architecture: "unknown"}, ArtifactType: spdxType},
		})
	}
	return mutate.Annotations(index, r.labels(p)).(v1.ImageIndex), nil
}

// writeArchive writes the images of a program into an archive with the layout of OCI, and returns the digest of their
// index.
func writeArchive(r release, p program, all []built, path string) (v1.Hash, error) {
	index, err := indexOf(r, p, all)
	if err != nil {
		return v1.Hash{}, err
	}
	dir, err := os.MkdirTemp(filepath.Dir(path), ".layout-")
	if err != nil {
		return v1.Hash{}, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a leftover folder does no harm
	files, err := layout.Write(dir, mutate.IndexMediaType(empty.Index, types.OCIImageIndex))
	if err != nil {
		return v1.Hash{}, err
	}
	// Podman and Docker take the name of the loaded image from the second annotation, other programs from the first.
	names := map[string]string{"org.opencontainers.image.ref.name": r.version, "io.containerd.image.name": r.name(p)}
	if err := files.AppendIndex(index, layout.WithAnnotations(names)); err != nil {
		return v1.Hash{}, err
	}
	if err := archive(r, dir, path); err != nil {
		return v1.Hash{}, err
	}
	return index.Digest()
}

// archive writes the files of a folder into a tar archive, in the order of their names and with the time of the release.
func archive(r release, dir, path string) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	w := tar.NewWriter(out)
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || file == dir {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		h := &tar.Header{Typeflag: tar.TypeDir, Name: filepath.ToSlash(name) + "/", Mode: 0o755, ModTime: r.created}
		if d.IsDir() {
			return w.WriteHeader(h)
		}
		return add(w, h, file)
	})
	return errors.Join(err, w.Close(), out.Close())
}

// add writes a regular file into the archive.
func add(w *tar.Writer, h *tar.Header, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // only read
	info, err := in.Stat()
	if err != nil {
		return err
	}
	h.Typeflag, h.Name, h.Mode, h.Size = tar.TypeReg, h.Name[:len(h.Name)-1], 0o644, info.Size()
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	_, err = io.Copy(w, in)
	return err
}

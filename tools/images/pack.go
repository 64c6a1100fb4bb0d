package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// release is what all images of one build share.
type release struct {
	repository, version, revision string
	created                       time.Time
}

// architectures are the architectures of each image, as Go and OCI name them.
func architectures() []string { return []string{"amd64", "arm64"} }

// maxBytes is the largest compressed size of an image for one architecture.
const maxBytes = 60_000_000

// packAll writes the images of all programs.
func packAll(r release, from, out string, report io.Writer) error {
	if err := os.MkdirAll(out, 0o750); err != nil {
		return err
	}
	for _, p := range programs() {
		if err := pack(r, p, from, out, report); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// pack writes the archive of one program, and its SPDX documents.
func pack(r release, p program, from, out string, report io.Writer) error {
	var all []built
	for _, arch := range architectures() {
		b, err := build(r, p, filepath.Join(from, arch, p.name), arch)
		if err != nil {
			return fmt.Errorf("%s: %w", arch, err)
		}
		if b.size > maxBytes {
			return fmt.Errorf("%s: the image has %d bytes; at most %d are allowed", arch, b.size, maxBytes)
		}
		if err := os.WriteFile(filepath.Join(out, p.name+"-"+arch+".spdx.json"), b.sbom, 0o600); err != nil {
			return err
		}
		fmt.Fprintf(report, "%s linux/%s %.1f MB %s\n", r.name(p), arch, float64(b.size)/1e6, b.digest)
		all = append(all, b)
	}
	digest, err := writeArchive(r, p, all, filepath.Join(out, p.name+".tar"))
	if err != nil {
		return fmt.Errorf("write the archive: %w", err)
	}
	fmt.Fprintf(report, "%s index %s\n", r.name(p), digest)
	return nil
}

// name returns the name of a program's image with its tag.
func (r release) name(p program) string { return r.repository + "/" + p.name + ":" + r.version }

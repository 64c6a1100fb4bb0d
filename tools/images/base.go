package main

import (
	"archive/tar"
	"bytes"
	"embed"
	"encoding/pem"
	"errors"
	"strings"
	"time"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// nonroot is the user id of the services, and the id of the group that they share.
const nonroot = 65532

// accounts contains the account files of the images. The names of the groups are those of deploy/sysusers.d. The ids
// are in deploy/compose/compose.yaml and in the volumes of running installations, so they never change.
//
//go:embed etc/group etc/passwd
var accounts embed.FS

// rootCertificates returns the root certificates of Mozilla as PEM, from the pinned module. It leaves out the roots with
// constraints that PEM cannot express.
func rootCertificates() []byte {
	var out bytes.Buffer
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			_ = pem.Encode(&out, &pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}) // cannot fail: the buffer grows
		}
	}
	return out.Bytes()
}

// entry is a file or, if its name ends in a slash, a folder of a layer.
type entry struct {
	name     string
	mode     int64
	uid, gid int
	data     []byte
}

// baseEntries returns what all images contain. An empty volume that is mounted on one of the folders gets the
// folder's owner and mode.
func baseEntries() ([]entry, error) {
	group, err := accounts.ReadFile("etc/group")
	if err != nil {
		return nil, err
	}
	passwd, err := accounts.ReadFile("etc/passwd")
	if err != nil {
		return nil, err
	}
	return []entry{
		{name: "etc/", mode: 0o755},
		{name: "etc/group", mode: 0o644, data: group},
		{name: "etc/passwd", mode: 0o644, data: passwd},
		{name: "etc/signalbox/", mode: 0o750, gid: nonroot},
		{name: "etc/ssl/", mode: 0o755},
		{name: "etc/ssl/certs/", mode: 0o755},
		{name: "etc/ssl/certs/ca-certificates.crt", mode: 0o644, data: rootCertificates()},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/bin/", mode: 0o755},
		{name: "var/", mode: 0o755},
		{name: "var/lib/", mode: 0o755},
		{name: "var/lib/signalbox/", mode: 0o700, uid: nonroot, gid: nonroot},
		{name: "var/lib/signalbox/audit/", mode: 0o700, uid: nonroot, gid: nonroot},
		{name: "var/lib/signalbox/objects/", mode: 0o700, uid: nonroot, gid: nonroot},
		{name: "var/lib/signalbox/spool/", mode: 0o700, uid: nonroot, gid: nonroot},
	}, nil
}

// archived returns the entries as a tar archive, with the given time.
func archived(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{
			Typeflag: tar.TypeReg, Name: e.name, Mode: e.mode, Uid: e.uid, Gid: e.gid, Size: int64(len(e.data)), ModTime: at, Format: tar.FormatPAX,
		}
		if strings.HasSuffix(e.name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, errors.Join(err, w.Close())
		}
		if _, err := w.Write(e.data); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	return out.Bytes(), w.Close()
}

// Package transfer owns downloads of files from signed addresses. A download that was interrupted continues where it
// stopped when the same command runs again, and a file appears under its name only when it is complete and its digest
// is right. The tar file of a folder is unpacked in the same way: its files appear when all are complete. Two commands never
// write the same file. Progress is shown on standard error: bars on a terminal, and otherwise a line for each tenth.
package transfer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// File is a file to download.
type File struct {
	// Path is where the file belongs in the folder of the download, with slashes.
	Path   string
	URL    string
	Size   int64
	SHA256 string // in hexadecimal; empty if it is unknown
}

var (
	// ErrDigest reports that the downloaded bytes are not those of the file.
	ErrDigest = errors.New("the downloaded file does not have the digest that the server states; it was removed, so download it again")
	// ErrBusy reports that another command downloads the same file into the same folder.
	ErrBusy = errors.New("another command is downloading it into this folder; run this one again when that one has ended")
	// errSize reports that the server sends more bytes than the file has.
	errSize = errors.New("the server sends more bytes than the file has")
)

// Exists reports whether a folder already has a file with the right size and digest.
func Exists(root *os.Root, f File) bool {
	info, err := root.Stat(local(f))
	if err != nil || !info.Mode().IsRegular() || info.Size() != f.Size {
		return false
	}
	file, err := root.Open(local(f))
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	h := sha256.New()
	_, err = io.Copy(h, file)
	return err == nil && hex.EncodeToString(h.Sum(nil)) == f.SHA256
}

func local(f File) string { return filepath.FromSlash(f.Path) }

// partOf returns the name of the part of a file. It contains the digest, so that it differs from all other files of the
// download, and from the part of another version.
func partOf(f File) string {
	const length = 16
	return local(f) + "." + f.SHA256[:min(len(f.SHA256), length)] + ".part"
}

// Download downloads a file into a folder, and never writes outside of it. It continues a part of an earlier download, if the
// digest of the file is known. Count receives the number of bytes that have arrived so far, with those of the earlier
// part. An error of the disk is not one that client.Retryable accepts.
func Download(ctx context.Context, send http.RoundTripper, root *os.Root, f File, count func(have int64)) error {
	if !filepath.IsLocal(local(f)) || filepath.Clean(local(f)) == "." {
		return fmt.Errorf("%q is not a path within a folder", f.Path)
	}
	if dir := filepath.Dir(local(f)); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("create the folder of %s: %w", f.Path, err)
		}
	}
	out, err := openPart(root, f)
	if err != nil {
		return err
	}
	d := &download{file: f, out: out, hash: sha256.New(), count: &counter{count: count}}
	err = d.fill(ctx, send)
	if err == nil && f.SHA256 != "" && hex.EncodeToString(d.hash.Sum(nil)) != f.SHA256 {
		err = errors.Join(fmt.Errorf("%s: %w", f.Path, ErrDigest), root.Remove(partOf(f)))
	} else if err == nil {
		// The lock ends with the file: another command finds no part under the name then.
		if err = root.Rename(partOf(f), local(f)); err != nil {
			err = fmt.Errorf("name %s: %w", f.Path, err)
		}
	}
	if closed := out.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write %s: %w", f.Path, closed)
	}
	return err
}

// openPart opens the part of a file and locks it. The lock ends when the file is closed.
func openPart(root *os.Root, f File) (*os.File, error) {
	name := partOf(f)
	for {
		out, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644)
		if err != nil {
			return nil, fmt.Errorf("create %s: %w", f.Path, err)
		}
		err = syscall.Flock(int(out.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case errors.Is(err, syscall.EWOULDBLOCK):
			return nil, errors.Join(fmt.Errorf("%s: %w", f.Path, ErrBusy), out.Close())
		case err != nil:
			return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), out.Close())
		}
		// Another command may have completed and renamed the part before it was locked here.
		opened, err := out.Stat()
		if err != nil {
			return nil, errors.Join(fmt.Errorf("open %s: %w", name, err), out.Close())
		}
		if named, err := root.Stat(name); err == nil && os.SameFile(opened, named) {
			return out, nil
		}
		if err := out.Close(); err != nil {
			return nil, fmt.Errorf("open %s: %w", name, err)
		}
	}
}

// download is one download into an open part.
type download struct {
	file  File
	out   *os.File
	hash  hash.Hash
	count *counter
}

// reset removes what the part has.
func (d *download) reset() error {
	d.hash.Reset()
	d.count.have = 0
	_, err := d.out.Seek(0, io.SeekStart)
	if err := errors.Join(err, d.out.Truncate(0)); err != nil {
		return fmt.Errorf("empty the part of %s: %w", d.file.Path, err)
	}
	return nil
}

// fill appends to the part what is missing, and hashes the whole file.
func (d *download) fill(ctx context.Context, send http.RoundTripper) error {
	f := d.file
	have, err := io.Copy(io.MultiWriter(d.hash, d.count), d.out)
	if err != nil {
		return fmt.Errorf("read the part of %s: %w", f.Path, err)
	}
	// Bytes without a digest cannot be trusted, and too many are not all of this file.
	if have > f.Size || f.SHA256 == "" && have > 0 {
		have = 0
		if err := d.reset(); err != nil {
			return err
		}
	}
	if have == f.Size {
		return nil
	}
	body, whole, err := open(ctx, send, f, have)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	if whole && have > 0 {
		have = 0
		if err := d.reset(); err != nil {
			return err
		}
	}
	written, err := io.Copy(io.MultiWriter(d.out, d.hash, d.count), io.LimitReader(body, f.Size-have))
	if err != nil {
		return fmt.Errorf("download %s: %w", f.Path, err)
	}
	if have+written < f.Size {
		return body.broken(fmt.Errorf("%d of %d bytes arrived", have+written, f.Size))
	}
	if n, _ := io.ReadFull(body, make([]byte, 1)); n > 0 {
		return errors.Join(fmt.Errorf("download %s: %w", f.Path, errSize), d.reset())
	}
	return nil
}

// received is the body of a response. Its errors are those of a connection, and not of the disk.
type received struct {
	io.ReadCloser

	file File
	base string
}

// Read implements io.Reader.
func (r received) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = r.broken(err)
	}
	return n, err
}

func (r received) broken(err error) error {
	return &client.UnreachableError{Base: r.base, Request: "download of " + r.file.Path, Err: err}
}

// open requests the bytes of a file from an offset on. Whole states that the server sends the whole file nevertheless.
func open(ctx context.Context, send http.RoundTripper, f File, from int64) (body received, whole bool, err error) {
	target, err := url.Parse(f.URL)
	if err != nil {
		return body, false, fmt.Errorf("the address of %s is not valid", f.Path) // a signed address is a secret
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return body, false, fmt.Errorf("the address of %s is not valid", f.Path)
	}
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
	}
	// A compressed response has no bytes to continue from.
	req.Header.Set("Accept-Encoding", "identity")
	body = received{file: f, base: client.Origin(target)}
	resp, err := (&http.Client{Transport: send}).Do(req)
	if err != nil {
		return body, false, body.broken(err)
	}
	body.ReadCloser = resp.Body
	switch {
	case resp.StatusCode == http.StatusOK:
		return body, true, nil
	case resp.StatusCode == http.StatusPartialContent && begins(resp.Header.Get("Content-Range"), from):
		return body, false, nil
	}
	defer func() { _ = resp.Body.Close() }()
	const enough = 4096
	raw, _ := io.ReadAll(io.LimitReader(resp.Body, enough))
	if resp.StatusCode == http.StatusPartialContent {
		return body, false, fmt.Errorf("download %s: the server sends another range than that from byte %d on", f.Path, from)
	}
	return body, false, (&client.Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}).StoreErr()
}

// begins reports whether a Content-Range begins at an offset.
func begins(contentRange string, from int64) bool {
	return from > 0 && strings.HasPrefix(contentRange, "bytes "+strconv.FormatInt(from, 10)+"-")
}

// counter calls a function with the number of bytes that were written so far.
type counter struct {
	have  int64
	count func(have int64)
}

func (c *counter) Write(p []byte) (int, error) {
	c.have += int64(len(p))
	c.count(c.have)
	return len(p), nil
}

// Root opens the folder of a download and creates it if it is missing.
func Root(dir string) (*os.Root, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:gosec // as mkdir does
		return nil, fmt.Errorf("create the folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	return root, nil
}

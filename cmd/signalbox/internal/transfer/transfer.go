// Package transfer owns downloads of files from signed addresses. A download that was interrupted continues where it
// stopped when the same command runs again, and a file appears under its name only when it is complete and its digest
// is right. Progress is shown on standard error: bars on a terminal, and otherwise a line for each tenth.
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
	"os"
	"path/filepath"

	"github.com/signalbox-dev/signalbox/internal/client"
)

// File is a file to download.
type File struct {
	// Path is where the file belongs in the folder of the download, with slashes.
	Path   string
	URL    string
	Size   int64
	SHA256 string // in hexadecimal
}

// part ends the name of a file that is not complete.
const part = ".part"

// ErrDigest reports that the downloaded bytes are not those of the file.
var ErrDigest = errors.New("the downloaded file does not have the digest that the server states; it was removed, so download it again")

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

// Download downloads a file into a folder, of which it cannot leave. It continues a part of an earlier download. Count
// receives the number of bytes that have arrived so far, with those of the earlier part.
func Download(ctx context.Context, send http.RoundTripper, root *os.Root, f File, count func(have int64)) error {
	if !filepath.IsLocal(local(f)) {
		return fmt.Errorf("%q is not a path within a folder", f.Path)
	}
	if dir := filepath.Dir(local(f)); dir != "." {
		if err := root.MkdirAll(dir, 0o755); err != nil { //nolint:mnd // as mkdir does
			return fmt.Errorf("create the folder of %s: %w", f.Path, err)
		}
	}
	name := local(f) + part
	out, err := root.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o644) //nolint:mnd // as cp does
	if err != nil {
		return fmt.Errorf("create %s: %w", f.Path, err)
	}
	h := sha256.New()
	err = fill(ctx, send, out, f, h, &counter{count: count})
	if closed := out.Close(); err == nil && closed != nil {
		err = fmt.Errorf("write %s: %w", f.Path, closed)
	}
	if err != nil {
		return err
	}
	if f.SHA256 != "" && hex.EncodeToString(h.Sum(nil)) != f.SHA256 {
		return errors.Join(fmt.Errorf("%s: %w", f.Path, ErrDigest), root.Remove(name))
	}
	if err := root.Rename(name, local(f)); err != nil {
		return fmt.Errorf("name %s: %w", f.Path, err)
	}
	return nil
}

// fill appends to the file what is missing, and hashes the whole file.
func fill(ctx context.Context, send http.RoundTripper, out *os.File, f File, h hash.Hash, c *counter) error {
	have, err := io.Copy(io.MultiWriter(h, c), out)
	if err != nil {
		return fmt.Errorf("read the part of %s: %w", f.Path, err)
	}
	if have > f.Size {
		return errors.Join(fmt.Errorf("the part of %s is larger than the file; it was removed, so download it again", f.Path),
			out.Truncate(0))
	}
	if have == f.Size {
		return nil
	}
	body, err := open(ctx, send, f, have)
	if err != nil {
		return err
	}
	defer func() { _ = body.Close() }()
	written, err := io.Copy(io.MultiWriter(out, h, c), io.LimitReader(body, f.Size-have+1))
	switch {
	case err != nil:
		return fmt.Errorf("download %s: %w", f.Path, err)
	case have+written != f.Size:
		return fmt.Errorf("download %s: %d of %d bytes arrived: %w", f.Path, have+written, f.Size, io.ErrUnexpectedEOF)
	}
	return nil
}

// open requests the bytes of a file from an offset on.
func open(ctx context.Context, send http.RoundTripper, f File, from int64) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("create the request for %s: %w", f.Path, err)
	}
	want := http.StatusOK
	if from > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", from))
		want = http.StatusPartialContent
	}
	// A compressed response has no bytes to continue from.
	req.Header.Set("Accept-Encoding", "identity")
	resp, err := (&http.Client{Transport: send}).Do(req)
	if err != nil {
		return nil, &client.UnreachableError{Base: req.URL.Scheme + "://" + req.URL.Host, Request: "download of " + f.Path, Err: err}
	}
	if resp.StatusCode != want {
		defer func() { _ = resp.Body.Close() }()
		const enough = 4096
		raw, _ := io.ReadAll(io.LimitReader(resp.Body, enough))
		return nil, (&client.Response{Status: resp.StatusCode, Header: resp.Header, Body: raw}).Err()
	}
	return resp.Body, nil
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
	if err := os.MkdirAll(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { //nolint:mnd,gosec // as mkdir does
		return nil, fmt.Errorf("create the folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open the folder: %w", err)
	}
	return root, nil
}

package blob

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Verifier is a reader that returns exactly the announced number of bytes with the announced digest, or an error. It
// returns the last bytes only after verifying the digest, so a consumer that has read all bytes can rely on them.
type Verifier struct {
	from   io.Reader
	want   string
	hash   hash.Hash
	left   int64
	err    error
	broken error // the error of the underlying reader, if it failed
}

// NewVerifier wraps r. size and sha256Hex must have passed CheckContent.
func NewVerifier(r io.Reader, size int64, sha256Hex string) *Verifier {
	v := &Verifier{from: r, want: sha256Hex, hash: sha256.New(), left: size}
	if size == 0 {
		v.finish()
	}
	return v
}

// Read implements io.Reader.
func (v *Verifier) Read(p []byte) (int, error) {
	if v.err != nil || len(p) == 0 {
		return 0, v.err
	}
	n, err := v.from.Read(p[:min(int64(len(p)), v.left)])
	v.hash.Write(p[:n])
	v.left -= int64(n)
	switch {
	case v.left == 0:
		// finish continues reading, to detect extra bytes before the last bytes are returned.
		if v.finish(); v.err != io.EOF { //nolint:errorlint // set by finish, never wrapped
			return 0, v.err
		}
		return n, nil
	case errors.Is(err, io.EOF):
		v.err = mismatch(CodeLength, fmt.Sprintf("%d bytes are missing", v.left))
	case err != nil:
		v.err, v.broken = fmt.Errorf("read the bytes to store: %w", err), err
	}
	if v.err != nil {
		return 0, v.err
	}
	return n, nil
}

// Err returns the error with which reading failed, or nil if it has not failed.
func (v *Verifier) Err() error {
	if v.err == io.EOF { //nolint:errorlint // set by finish, never wrapped
		return nil
	}
	return v.err
}

// Broken returns the error of the underlying reader, or nil if that reader has not failed.
func (v *Verifier) Broken() error { return v.broken }

func (v *Verifier) finish() {
	var more [1]byte
	for {
		n, err := v.from.Read(more[:])
		if n > 0 {
			v.err = mismatch(CodeLength, "more bytes than announced")
			return
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			v.err, v.broken = fmt.Errorf("read the bytes to store: %w", err), err
			return
		}
	}
	if hex.EncodeToString(v.hash.Sum(nil)) != v.want {
		v.err = mismatch(CodeDigest, "the bytes do not match the announced SHA-256")
		return
	}
	v.err = io.EOF
}

func mismatch(code, msg string) error {
	return fault.InvalidFields(fault.At(code, msg, "body")).WithCode(code)
}

// Changed returns the error for an object whose stored bytes have changed.
func Changed(key string, cause error) error {
	return fault.New(fault.Dependency, CodeStore, "the stored bytes of %s have changed", key).Wrap(cause)
}

// VerifyBody wraps the body of an object. Reading it to the end fails if the bytes do not match info.
func VerifyBody(body io.ReadCloser, info Info) io.ReadCloser {
	return &checked{verify: NewVerifier(body, info.Size, info.SHA256), body: body, key: info.Key}
}

type checked struct {
	verify *Verifier
	body   io.Closer
	key    string
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.verify.Read(p)
	if err != nil && !errors.Is(err, io.EOF) && c.verify.Broken() == nil {
		err = Changed(c.key, err)
	}
	return n, err
}

func (c *checked) Close() error { return c.body.Close() }

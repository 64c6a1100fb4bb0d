// Package blob defines the object store for datasets, artifacts and models. Each object has a key that the server
// derives from ids. An object is written once: its size and SHA-256 never change. A store returns only digests that
// it, or its S3 server, has computed from the bytes.
//
// Package objectstore implements the store on a folder and on an S3 server. Package test/blobtest is the test suite
// of both implementations. Errors are fault values.
package blob

import (
	"context"
	"encoding/hex"
	"io"
	"math"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/fault"
)

// MaxExpires is the maximum and the default lifetime of a signed URL.
const MaxExpires = 15 * time.Minute

// Error codes.
const (
	CodeAbsent   = "blob_absent"       // no object has this key
	CodeDiffers  = "blob_differs"      // a different object has this key
	CodeDigest   = "digest_mismatch"   // the bytes do not match the announced digest
	CodeLength   = "length_mismatch"   // the number of bytes differs from the announced one
	CodeTooLarge = "blob_too_large"    // the object exceeds the installation's limit
	CodeStore    = "blob_store_failed" // the disk or the S3 server failed
	CodeKey      = "blob_key"          // the key is invalid
)

// Info describes an object.
type Info struct {
	Key      string
	Size     int64
	SHA256   string // lower-case hex; empty in results of List
	Modified time.Time
	// Name is the file name under which clients save a download that SignKnown signs. If it is empty, that is the last
	// segment of the key. Stores do not know it.
	Name string
}

// SignOptions describes the only bytes that a signed upload may contain.
type SignOptions struct {
	Size    int64
	SHA256  string        // lower-case hex
	Expires time.Duration // values outside (0, MaxExpires] mean MaxExpires
}

// Signed is a request that needs no other credential. It must be sent with exactly these Headers.
type Signed struct {
	URL       string
	Method    string
	Headers   map[string]string
	ExpiresAt time.Time
}

// Store is an object store. Its errors are fault values.
type Store interface {
	// Put stores the bytes of r under the key if their number and their SHA-256 are the given ones. Putting the same
	// bytes again succeeds; different bytes under the same key are a conflict.
	Put(ctx context.Context, key string, r io.Reader, size int64, sha256 string) error
	// Get opens an object. Reading to the end returns an error if the stored bytes have changed.
	Get(ctx context.Context, key string) (io.ReadCloser, Info, error)
	// Stat returns the Info of an object.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes an object. Deleting a missing object succeeds.
	Delete(ctx context.Context, key string) error
	// List returns the objects whose keys begin with the given prefix and sort behind the given key, up to the given
	// limit. It compares and orders keys by their bytes.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// SignPut returns a request that uploads exactly the bytes described by o.
	SignPut(ctx context.Context, key string, o SignOptions) (Signed, error)
	// SignGet returns a request that downloads an existing object.
	SignGet(ctx context.Context, key string, expires time.Duration) (Signed, error)
	// SignKnown is SignGet for an object whose size and digest the caller knows. It does not check that the object
	// exists; the download of a missing object fails.
	SignKnown(ctx context.Context, info Info, expires time.Duration) (Signed, error)
	// OpenKnown opens an object whose size and digest the caller knows, with one request to the store. Reading to the end
	// returns an error if the stored bytes do not match that size and digest.
	OpenKnown(ctx context.Context, info Info) (io.ReadCloser, error)
}

// Local is implemented by stores in a shared folder: every process of the installation can read their objects without a
// request to another server.
type Local interface {
	OpenKnown(ctx context.Context, info Info) (io.ReadCloser, error)
	// Local does nothing. It only marks the type.
	Local()
}

// Expires returns the lifetime of a signed URL for the requested lifetime d.
func Expires(d time.Duration) time.Duration {
	if d <= 0 || d > MaxExpires {
		return MaxExpires
	}
	return d
}

const (
	scheme       = "blob://"
	maxKey       = 512
	maxSegment   = 200
	keyAlphabet  = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._=-"
	digestLength = 64
)

// URI returns the URI with which rows and jobs refer to an object.
func URI(key string) string { return scheme + key }

// ParseURI returns the key in a URI, and false if the URI is invalid.
func ParseURI(uri string) (key string, ok bool) {
	key, ok = strings.CutPrefix(uri, scheme)
	return key, ok && CheckKey(key) == nil
}

// CheckKey rejects invalid keys. A key consists of segments separated by slashes;
// a segment consists of letters, digits and "._=-" and does not begin with a dot.
func CheckKey(key string) error {
	if key == "" || len(key) > maxKey {
		return badKey(key)
	}
	for segment := range strings.SplitSeq(key, "/") {
		if segment == "" || segment[0] == '.' || len(segment) > maxSegment || strings.Trim(segment, keyAlphabet) != "" {
			return badKey(key)
		}
	}
	return nil
}

// CheckPrefix rejects a prefix that no key can begin with. The empty prefix matches all keys.
func CheckPrefix(prefix string) error {
	if prefix == "" || CheckKey(strings.TrimSuffix(prefix, "/")) == nil {
		return nil
	}
	return badKey(prefix)
}

// CheckContent validates an announced size and digest. It rejects a size over the limit.
func CheckContent(size int64, sha256 string, limit int64) error {
	if size < 0 {
		return fault.InvalidFields(fault.At(fault.TypeGreaterThanEqual, "the size must not be negative", "body", "size"))
	}
	if size > limit {
		return TooLarge(limit)
	}
	if raw, err := hex.DecodeString(sha256); err != nil || len(sha256) != digestLength || hex.EncodeToString(raw) != sha256 {
		return fault.InvalidFields(fault.At(fault.TypeStringPattern, "the digest must be 64 lower-case hex digits", "body", "sha256"))
	}
	return nil
}

// Limit converts a limit in MiB to bytes.
func Limit(mb int64) int64 { return min(mb, math.MaxInt64>>20) << 20 }

// TooLarge returns the error for an object that is larger than the given limit, which is in bytes.
func TooLarge(limit int64) error {
	return fault.New(fault.TooLarge, CodeTooLarge, "the object exceeds the limit of %d bytes", limit)
}

// Absent returns the error for a key without an object.
func Absent(key string) error {
	return fault.New(fault.Absent, CodeAbsent, "no such object: %s", key)
}

// Differs returns the error for a key that already has an object with different bytes.
func Differs(key string) error {
	return fault.New(fault.Conflict, CodeDiffers, "a different object is already stored as %s", key)
}

func badKey(key string) error {
	field := fault.At(fault.TypeStringPattern, "not a valid object key", "path", "key")
	field.Input = key[:min(len(key), maxKey)]
	return fault.InvalidFields(field).WithCode(CodeKey)
}

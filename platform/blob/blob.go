// Package blob is the object store: datasets, artifacts and models, each under a
// key that the server made from ids. An object is written once; its size and its
// SHA-256 are fixed with the write and stay true: a store answers only digests
// that it, or the S3 server behind it, has computed from the bytes.
//
// Package file keeps objects in a folder, package s3 on an S3 server, package
// driver chooses by the settings, and package blobtest is the contract that both
// pass. Errors are fault values.
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

// MaxExpires is the longest life of a signed URL, and the one it has by default.
const MaxExpires = 15 * time.Minute

// Codes of the errors.
const (
	CodeAbsent   = "blob_absent"       // no object under that key
	CodeDiffers  = "blob_differs"      // another object is there already
	CodeDigest   = "digest_mismatch"   // the bytes are not those that were announced
	CodeLength   = "length_mismatch"   // more or fewer bytes than announced
	CodeTooLarge = "blob_too_large"    // over the limit of the installation
	CodeStore    = "blob_store_failed" // the disk or the S3 server failed
	CodeKey      = "blob_key"          // not a key
)

// Info describes an object.
type Info struct {
	Key      string
	Size     int64
	SHA256   string // lower-case hex; empty in the answers of List
	Modified time.Time
}

// SignOptions is what a signed upload is bound to.
type SignOptions struct {
	Size    int64
	SHA256  string        // lower-case hex
	Expires time.Duration // 0 or more than MaxExpires: MaxExpires
}

// Signed is a request that needs no other credential. Headers must be sent as
// they are.
type Signed struct {
	URL       string
	Method    string
	Headers   map[string]string
	ExpiresAt time.Time
}

// Store keeps objects.
type Store interface {
	// Put stores size bytes of r if their SHA-256 is the given one. To put the
	// same bytes again is no error; other bytes under the same key are a conflict.
	Put(ctx context.Context, key string, r io.Reader, size int64, sha256 string) error
	// Get opens an object. Reading to the end fails if the bytes have changed.
	Get(ctx context.Context, key string) (io.ReadCloser, Info, error)
	// Stat describes an object.
	Stat(ctx context.Context, key string) (Info, error)
	// Delete removes an object; one that is not there is no error.
	Delete(ctx context.Context, key string) error
	// List gives up to limit objects whose keys begin with prefix and come after
	// the key after, in the order of the keys' bytes.
	List(ctx context.Context, prefix, after string, limit int) ([]Info, error)
	// SignPut makes a request that uploads exactly the named bytes.
	SignPut(ctx context.Context, key string, o SignOptions) (Signed, error)
	// SignGet makes a request that downloads an object that is there.
	SignGet(ctx context.Context, key string, expires time.Duration) (Signed, error)
}

// Expires is the life of a signed URL that was asked to live for d.
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

// URI is how an object is named in a row or in a job.
func URI(key string) string { return scheme + key }

// ParseURI gives the key of a URI.
func ParseURI(uri string) (key string, ok bool) {
	key, ok = strings.CutPrefix(uri, scheme)
	return key, ok && CheckKey(key) == nil
}

// CheckKey refuses what is no key: keys are segments of letters, digits and
// "._=-", none of which begins with a dot, with slashes between.
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

// CheckPrefix refuses what no key can begin with; empty is the prefix of all.
func CheckPrefix(prefix string) error {
	if prefix == "" || CheckKey(strings.TrimSuffix(prefix, "/")) == nil {
		return nil
	}
	return badKey(prefix)
}

// CheckContent refuses an announcement that no bytes can meet, or too many.
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

// Limit is a size in MiB as bytes.
func Limit(mb int64) int64 { return min(mb, math.MaxInt64>>20) << 20 }

// TooLarge is the error for an object over the limit in bytes.
func TooLarge(limit int64) error {
	return fault.New(fault.TooLarge, CodeTooLarge, "the limit is %d bytes", limit)
}

// Absent is the error for a key without an object.
func Absent(key string) error {
	return fault.New(fault.Absent, CodeAbsent, "there is no object %s", key)
}

// Differs is the error for a key that holds other bytes.
func Differs(key string) error {
	return fault.New(fault.Conflict, CodeDiffers, "another object is stored as %s", key)
}

func badKey(key string) error {
	field := fault.At(fault.TypeStringPattern, "not the key of an object", "path", "key")
	field.Input = key[:min(len(key), maxKey)]
	return fault.InvalidFields(field).WithCode(CodeKey)
}

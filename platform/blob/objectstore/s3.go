package objectstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/clock"
	"github.com/signalbox-dev/signalbox/platform/conf"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

const (
	maxPut      = 5 << 30
	checksum    = "X-Amz-Checksum-Sha256"
	rememberMax = 10_000
	// keptConnections is the number of connections that are kept for later requests. minio-go keeps only 16 by default,
	// but the commit of a dataset sends more requests than that at a time.
	keptConnections = 64
)

// S3Config configures an S3Store.
type S3Config struct {
	conf.S3
	Limit     int64 // maximum object size in bytes
	Clock     clock.Clock
	Transport http.RoundTripper // nil means minio-go's default with more connections
}

// S3Store implements blob.Store on a bucket.
//
// Each object is uploaded with a single PUT that carries its SHA-256, which the server checks and stores. If a server
// does not return the checksum later, the store reads the object once and computes it. S3 allows at most 5 GiB per
// PUT, so that is the maximum object size.
type S3Store struct {
	config S3Config
	core   minio.Core
	limit  int64

	mu   sync.Mutex
	seen map[string]string // maps "key etag size" to the computed digest
}

// OpenS3 creates the client. It does not connect to the server.
func OpenS3(cfg S3Config) (*S3Store, error) {
	lookup := minio.BucketLookupAuto
	if cfg.PathStyle {
		lookup = minio.BucketLookupPath
	}
	transport := cfg.Transport
	if transport == nil {
		own, err := minio.DefaultTransport(!cfg.Plaintext)
		if err != nil {
			return nil, fmt.Errorf("open S3 client: %w", err)
		}
		own.MaxIdleConnsPerHost = keptConnections
		transport = own
	}
	client, err := minio.New(cfg.Endpoint, &minio.Options{
		Creds:  credentials.NewStaticV4(cfg.AccessKey, cfg.SecretKey.Reveal(), ""),
		Secure: !cfg.Plaintext, Region: cfg.Region, BucketLookup: lookup, Transport: transport,
	})
	if err != nil {
		return nil, fmt.Errorf("open S3 client: %w", err)
	}
	return &S3Store{
		config: cfg, core: minio.Core{Client: client}, limit: min(cfg.Limit, maxPut), seen: map[string]string{},
	}, nil
}

// Ready returns nil if the bucket is reachable.
func (s *S3Store) Ready(ctx context.Context) error {
	exists, err := s.core.BucketExists(ctx, s.config.Bucket)
	if err != nil {
		return fmt.Errorf("check the bucket of the S3 server at %s: %w", s.config.Endpoint, err)
	}
	if !exists {
		return fmt.Errorf("the S3 server at %s has no bucket %s; create it first", s.config.Endpoint, s.config.Bucket)
	}
	return nil
}

// Put implements blob.Store.
func (s *S3Store) Put(ctx context.Context, key string, r io.Reader, size int64, sha256Hex string) error {
	if err := s.check(key, size, sha256Hex); err != nil {
		return err
	}
	verified := blob.NewVerifier(until{ctx, r}, size, sha256Hex)
	if info, err := s.Stat(ctx, key); err == nil {
		if info.SHA256 != sha256Hex {
			return blob.Differs(key)
		}
		_, err := io.Copy(io.Discard, verified)
		return err
	} else if !fault.HasCode(err, blob.CodeAbsent) {
		return err
	}
	var body io.Reader = verified
	if size == 0 {
		// The client would not read an empty body, so verify it here.
		if _, err := io.Copy(io.Discard, verified); err != nil {
			return err
		}
		body = strings.NewReader("")
	}
	_, err := s.core.PutObject(ctx, s.config.Bucket, key, body, size, "", sha256Hex, minio.PutObjectOptions{
		UserMetadata:         map[string]string{checksum: inBase64(sha256Hex)},
		DisableContentSha256: true, // the checksum of the whole body is sent instead
	})
	if wrong := verified.Err(); wrong != nil {
		return wrong
	}
	return s.failure("put", key, err)
}

// until is a reader that fails once ctx is done. The HTTP transport notices the end of ctx later, and might have sent
// the rest of the body by then.
type until struct {
	ctx context.Context //nolint:containedctx // lives for one call of Put.
	io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

// Get implements blob.Store.
func (s *S3Store) Get(ctx context.Context, key string) (io.ReadCloser, blob.Info, error) {
	info, err := s.Stat(ctx, key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	body, err := s.open(ctx, key)
	if err != nil {
		return nil, blob.Info{}, err
	}
	return blob.VerifyBody(body, info), info, nil
}

func (s *S3Store) open(ctx context.Context, key string) (io.ReadCloser, error) {
	body, _, _, err := s.core.GetObject(ctx, s.config.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return nil, s.failure("get", key, err)
	}
	return body, nil
}

// OpenKnown implements blob.Store. Unlike Get, it does not request the object's digest first.
func (s *S3Store) OpenKnown(ctx context.Context, info blob.Info) (io.ReadCloser, error) {
	if err := blob.CheckKey(info.Key); err != nil {
		return nil, err
	}
	if err := blob.CheckContent(info.Size, info.SHA256, math.MaxInt64); err != nil {
		return nil, err
	}
	body, err := s.open(ctx, info.Key)
	if err != nil {
		return nil, err
	}
	return blob.VerifyBody(body, info), nil
}

// Stat implements blob.Store.
func (s *S3Store) Stat(ctx context.Context, key string) (blob.Info, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Info{}, err
	}
	about, err := s.core.StatObject(ctx, s.config.Bucket, key, minio.StatObjectOptions{Checksum: true})
	if err != nil {
		return blob.Info{}, s.failure("stat", key, err)
	}
	digest, ok := inHex(about.ChecksumSHA256)
	if !ok {
		if digest, err = s.computed(ctx, about); err != nil {
			return blob.Info{}, err
		}
	}
	return blob.Info{Key: key, Size: about.Size, SHA256: digest, Modified: about.LastModified.UTC()}, nil
}

// computed returns the digest of an object for which the server has no checksum. It remembers up to rememberMax
// digests by key, ETag and size, so that it rarely reads an object twice.
func (s *S3Store) computed(ctx context.Context, about minio.ObjectInfo) (string, error) {
	name := fmt.Sprintf("%s %s %d", about.Key, about.ETag, about.Size)
	s.mu.Lock()
	digest, ok := s.seen[name]
	s.mu.Unlock()
	if ok {
		return digest, nil
	}
	body, err := s.open(ctx, about.Key)
	if err != nil {
		return "", err
	}
	hash := sha256.New()
	_, err = io.Copy(hash, body)
	if err = errors.Join(err, body.Close()); err != nil {
		return "", s.failure("read", about.Key, err)
	}
	digest = hex.EncodeToString(hash.Sum(nil))
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) >= rememberMax {
		clear(s.seen)
	}
	s.seen[name] = digest
	return digest, nil
}

// Delete implements blob.Store.
func (s *S3Store) Delete(ctx context.Context, key string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	err := s.failure("delete", key, s.core.RemoveObject(ctx, s.config.Bucket, key, minio.RemoveObjectOptions{}))
	if fault.HasCode(err, blob.CodeAbsent) {
		return nil
	}
	return err
}

// List implements blob.Store.
func (s *S3Store) List(ctx context.Context, prefix, after string, limit int) ([]blob.Info, error) {
	if err := blob.CheckPrefix(prefix); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // stops the goroutine that lists
	var found []blob.Info
	for object := range s.core.ListObjectsIter(ctx, s.config.Bucket, minio.ListObjectsOptions{
		Prefix: prefix, StartAfter: after, Recursive: true, MaxKeys: min(limit, 1000),
	}) {
		if object.Err != nil {
			return nil, s.failure("list", prefix, object.Err)
		}
		if len(found) == limit {
			break
		}
		found = append(found, blob.Info{Key: object.Key, Size: object.Size, Modified: object.LastModified.UTC()})
	}
	return found, nil
}

// SignPut implements blob.Store. The signature covers the headers with the length and the
// checksum.
func (s *S3Store) SignPut(ctx context.Context, key string, o blob.SignOptions) (blob.Signed, error) {
	if err := s.check(key, o.Size, o.SHA256); err != nil {
		return blob.Signed{}, err
	}
	headers := map[string]string{"Content-Length": strconv.FormatInt(o.Size, 10), checksum: inBase64(o.SHA256)}
	return s.sign(ctx, http.MethodPut, key, o.Expires, nil, headers)
}

// SignGet implements blob.Store.
func (s *S3Store) SignGet(ctx context.Context, key string, expires time.Duration) (blob.Signed, error) {
	if _, err := s.Stat(ctx, key); err != nil {
		return blob.Signed{}, err
	}
	return s.signGet(ctx, blob.Info{Key: key}, expires)
}

// SignKnown implements blob.Store. The server is not called: the signature is computed here.
func (s *S3Store) SignKnown(ctx context.Context, info blob.Info, expires time.Duration) (blob.Signed, error) {
	if err := blob.CheckKey(info.Key); err != nil {
		return blob.Signed{}, err
	}
	return s.signGet(ctx, info, expires)
}

func (s *S3Store) signGet(ctx context.Context, info blob.Info, expires time.Duration) (blob.Signed, error) {
	query := url.Values{
		"response-content-type":        {"application/octet-stream"},
		"response-content-disposition": {blob.Disposition(cmp.Or(info.Name, path.Base(info.Key)))},
		"response-cache-control":       {"private, no-store"},
	}
	return s.sign(ctx, http.MethodGet, info.Key, expires, query, map[string]string{})
}

func (s *S3Store) sign(
	ctx context.Context, method, key string, expires time.Duration, query url.Values, headers map[string]string,
) (blob.Signed, error) {
	lifetime := max(blob.Expires(expires).Truncate(time.Second), time.Second)
	bound := http.Header{}
	for name, value := range headers {
		bound.Set(name, value)
	}
	until := s.config.Clock.Now().Add(lifetime).Truncate(time.Second)
	u, err := s.core.PresignHeader(ctx, method, s.config.Bucket, key, lifetime, query, bound)
	if err != nil {
		return blob.Signed{}, s.failure("sign", key, err)
	}
	return blob.Signed{URL: u.String(), Method: method, Headers: headers, ExpiresAt: until}, nil
}

func (s *S3Store) check(key string, size int64, sha256Hex string) error {
	if err := blob.CheckKey(key); err != nil {
		return err
	}
	return blob.CheckContent(size, sha256Hex, s.limit)
}

func (s *S3Store) failure(doing, key string, err error) error {
	if err == nil {
		return nil
	}
	if code := minio.ToErrorResponse(err).Code; code == minio.NoSuchKey {
		return blob.Absent(key)
	}
	if ended := fault.FromContext(err); ended != nil {
		return ended
	}
	return fault.New(fault.Dependency, blob.CodeStore, "the object store failed").Wrap(fmt.Errorf("%s blob %s: %w", doing, key, err))
}

func inBase64(sha256Hex string) string {
	raw, _ := hex.DecodeString(sha256Hex)
	return base64.StdEncoding.EncodeToString(raw)
}

// inHex converts a base64 checksum to hex. It rejects the checksum of a multipart object,
// "<base64>-<parts>", which is not the digest of the bytes.
func inHex(sum string) (string, bool) {
	raw, err := base64.StdEncoding.DecodeString(sum)
	return hex.EncodeToString(raw), err == nil && len(raw) == sha256.Size
}

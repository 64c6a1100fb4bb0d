package objectstore

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
)

// Prefix is the path of all signed URLs that Handler serves.
const Prefix = "/api/blobs/"

// Error codes of rejected signatures.
const (
	CodeUnsigned  = "signature_missing"
	CodeSignature = "signature_invalid"
	CodeExpired   = "signature_expired"
)

const (
	keyFile   = ".signing-key"
	minSecret = 32 // characters
)

// signingKey returns the configured key. Without one it returns a key that all processes share through the folder.
// Storing a key there is safe, because anyone who can read the folder can already read the objects.
func (s *FileStore) signingKey() ([]byte, error) {
	if !s.config.SigningKey.IsZero() {
		key := []byte(s.config.SigningKey.Reveal())
		if len(key) < minSecret {
			return nil, fmt.Errorf("the signing key must have at least %d characters", minSecret)
		}
		return key, nil
	}
	key, err := s.root.ReadFile(keyFile)
	if errors.Is(err, fs.ErrNotExist) {
		if err := s.makeKey(); err != nil {
			return nil, err
		}
		key, err = s.root.ReadFile(keyFile)
	}
	if err == nil && len(key) < minSecret {
		return nil, fmt.Errorf("%s is damaged: it has %d bytes, but at least %d are required", keyFile, len(key), minSecret)
	}
	return key, err
}

func (s *FileStore) makeKey() error {
	var raw [32]byte
	_, _ = rand.Read(raw[:])
	name := path.Join(aside, "key-"+random())
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(hex.EncodeToString(raw[:]))
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		// Link never replaces a file. If another process was faster, its key is used.
		if err = s.root.Link(name, keyFile); errors.Is(err, fs.ErrExist) {
			err = nil
		}
	}
	return errors.Join(err, s.root.Remove(name))
}

// grant is what a signature permits: one method on one key, for a given size and digest, until it expires.
type grant struct {
	method, key, sha256 string
	size, expires       int64
	name                string // the file name of a download; empty means that of the key
}

func (s *FileStore) signature(g grant) string {
	mac := hmac.New(sha256.New, s.key)
	_, _ = fmt.Fprintf(mac, "signalbox blob v1\n%s\n%s\n%d\n%d\n%s", g.method, g.key, g.expires, g.size, g.sha256)
	if g.name != "" {
		_, _ = io.WriteString(mac, "\n"+g.name)
	}
	return hex.EncodeToString(mac.Sum(nil))
}

func (s *FileStore) sign(g grant, lifetime time.Duration) blob.Signed {
	until := s.config.Clock.Now().Add(blob.Expires(lifetime)).Truncate(time.Second)
	g.expires = until.Unix()
	query := url.Values{
		"expires": {strconv.FormatInt(g.expires, 10)}, "size": {strconv.FormatInt(g.size, 10)},
		"sha256": {g.sha256}, "signature": {s.signature(g)},
	}
	if g.name != "" {
		query.Set("name", g.name)
	}
	return blob.Signed{
		URL: s.config.PublicURL() + Prefix + g.key + "?" + query.Encode(), Method: g.method,
		Headers: map[string]string{}, ExpiresAt: until,
	}
}

// SignPut implements blob.Store.
func (s *FileStore) SignPut(_ context.Context, key string, o blob.SignOptions) (blob.Signed, error) {
	if err := blob.CheckKey(key); err != nil {
		return blob.Signed{}, err
	}
	if err := blob.CheckContent(o.Size, o.SHA256, s.config.Limit); err != nil {
		return blob.Signed{}, err
	}
	signed := s.sign(grant{method: http.MethodPut, key: key, size: o.Size, sha256: o.SHA256}, o.Expires)
	signed.Headers["Content-Length"] = strconv.FormatInt(o.Size, 10)
	return signed, nil
}

// SignGet implements blob.Store.
func (s *FileStore) SignGet(_ context.Context, key string, expires time.Duration) (blob.Signed, error) {
	info, err := s.stat(key)
	if err != nil {
		return blob.Signed{}, err
	}
	return s.sign(grant{method: http.MethodGet, key: key, size: info.Size, sha256: info.SHA256}, expires), nil
}

// SignKnown implements blob.Store.
func (s *FileStore) SignKnown(_ context.Context, info blob.Info, expires time.Duration) (blob.Signed, error) {
	if err := s.checkKnown(info); err != nil {
		return blob.Signed{}, err
	}
	g := grant{method: http.MethodGet, key: info.Key, size: info.Size, sha256: info.SHA256}
	if info.Name != path.Base(info.Key) {
		g.name = info.Name
	}
	return s.sign(g, expires), nil
}

// granted checks the signature of a request and returns what it permits. An expired signature is reported as such
// only if it is otherwise valid.
func (s *FileStore) granted(r *http.Request) (grant, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err == nil && !query.Has("signature") {
		return grant{}, fault.New(fault.Unauthenticated, CodeUnsigned, "this URL requires a signature")
	}
	refused := fault.New(fault.Forbidden, CodeSignature, "the signature does not match the request")
	key, ok := strings.CutPrefix(r.URL.EscapedPath(), Prefix)
	if err != nil || !ok || blob.CheckKey(key) != nil || len(query) != 4 && (len(query) != 5 || query.Get("name") == "") {
		return grant{}, refused
	}
	for _, values := range query {
		if len(values) != 1 {
			return grant{}, refused
		}
	}
	g := grant{method: r.Method, key: key, sha256: query.Get("sha256"), name: query.Get("name")}
	var bad [2]error
	g.expires, bad[0] = number(query.Get("expires"))
	g.size, bad[1] = number(query.Get("size"))
	if errors.Join(bad[:]...) != nil || !hmac.Equal([]byte(s.signature(g)), []byte(query.Get("signature"))) {
		return grant{}, refused
	}
	if s.config.Clock.Now().Unix() >= g.expires {
		return grant{}, fault.New(fault.Forbidden, CodeExpired, "the signature has expired")
	}
	return g, nil
}

// number parses a number in the form that sign writes. It rejects a plus sign and leading zeros.
func number(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err == nil && strconv.FormatInt(n, 10) != text {
		err = strconv.ErrSyntax
	}
	return n, err
}

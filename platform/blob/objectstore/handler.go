package objectstore

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"path"

	"github.com/signalbox-dev/signalbox/platform/blob"
	"github.com/signalbox-dev/signalbox/platform/fault"
	"github.com/signalbox-dev/signalbox/platform/id"
	"github.com/signalbox-dev/signalbox/platform/obs"
)

const cacheControl = "private, no-store"

// CodeIncomplete is the error code of an upload that ended before the whole body arrived.
const CodeIncomplete = "body_incomplete"

// Handler serves the signed URLs under Prefix.
func (s *FileStore) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := r.Context()
		requestID := obs.RequestID(ctx)
		if requestID == "" {
			requestID = s.config.IDs.New(id.Request)
			ctx = obs.WithRequestID(ctx, requestID)
		}
		h := w.Header()
		h.Set(fault.HeaderRequestID, requestID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
		h.Set("Cache-Control", cacheControl)
		if err := s.serve(w, r.WithContext(ctx)); err != nil {
			s.refuse(ctx, w, err, requestID)
		}
	})
}

func (s *FileStore) serve(w http.ResponseWriter, r *http.Request) error {
	switch r.Method {
	case http.MethodGet:
		return s.download(w, r)
	case http.MethodPut:
		return s.upload(w, r)
	default:
		w.Header().Set("Allow", "GET, PUT")
		return fault.New(fault.MethodNotAllowed, "", "Method Not Allowed")
	}
}

func (s *FileStore) refuse(ctx context.Context, w http.ResponseWriter, err error, requestID string) {
	if f := fault.From(err); f.Kind == fault.Internal || f.Kind == fault.Dependency {
		s.config.Log.ErrorContext(ctx, "request to a signed URL failed", "error", err.Error())
	}
	fault.Write(w, err, requestID)
}

func (s *FileStore) download(w http.ResponseWriter, r *http.Request) error {
	g, err := s.granted(r)
	if err != nil {
		return err
	}
	f, info, err := s.open(g.key)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // only read
	if info.SHA256 != g.sha256 || info.Size != g.size {
		return blob.Absent(g.key) // the signed object was replaced by a different one
	}
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", blob.Disposition(cmp.Or(g.name, path.Base(g.key))))
	h.Set("ETag", `"`+info.SHA256+`"`)
	if sum, err := hex.DecodeString(info.SHA256); err == nil {
		// RFC 9530: the digest of the whole object, even if the response contains only a part of it.
		h.Set("Repr-Digest", "sha-256=:"+base64.StdEncoding.EncodeToString(sum)+":")
	}
	part := &ranged{ResponseWriter: w}
	content := &verified{ReadSeeker: f, info: info}
	if onlyPart(r, h.Get("ETag")) {
		// A part cannot be verified without reading the whole object. The client must verify the assembled object.
		http.ServeContent(part, r, "", info.Modified, f)
	} else {
		http.ServeContent(part, r, "", info.Modified, content)
	}
	if err := content.err(); err != nil {
		s.config.Log.ErrorContext(r.Context(), "download aborted", "error", blob.Changed(g.key, err).Error())
		panic(http.ErrAbortHandler) // the response has begun and must not look complete
	}
	if part.outside {
		h.Del("Content-Disposition")
		h.Set("Cache-Control", cacheControl)
		return fault.New(fault.Range, "range", "the range is invalid or outside the object's %d bytes", info.Size)
	}
	return nil
}

// onlyPart reports whether the response may leave out a part of the object. It removes the Range header if If-Range
// shows that the client already has parts of a different object.
func onlyPart(r *http.Request, etag string) bool {
	if known := r.Header.Get("If-Range"); known != "" && known != etag {
		r.Header.Del("Range")
	}
	parts := r.Header.Get("Range")
	return parts != "" && parts != "bytes=0-"
}

// verified is an object that is read from its start to its end. The last bytes are returned only if all bytes match
// the digest of the object.
type verified struct {
	io.ReadSeeker

	info blob.Info
	from *blob.Verifier
}

// Seek implements io.Seeker.
func (v *verified) Seek(offset int64, whence int) (int64, error) {
	at, err := v.ReadSeeker.Seek(offset, whence)
	if err == nil && at == 0 {
		v.from = blob.NewVerifier(v.ReadSeeker, v.info.Size, v.info.SHA256)
	}
	return at, err
}

// Read implements io.Reader. http.ServeContent calls Seek first.
func (v *verified) Read(p []byte) (int, error) { return v.from.Read(p) }

func (v *verified) err() error {
	if v.from == nil {
		return nil
	}
	return v.from.Err()
}

// ranged suppresses net/http's plain-text response to an unsatisfiable range, so that the error can be sent as JSON.
type ranged struct {
	http.ResponseWriter

	outside bool
}

// WriteHeader implements http.ResponseWriter.
func (r *ranged) WriteHeader(status int) {
	if r.outside = status == http.StatusRequestedRangeNotSatisfiable; !r.outside {
		r.ResponseWriter.WriteHeader(status)
	}
}

// Write implements http.ResponseWriter.
func (r *ranged) Write(p []byte) (int, error) {
	if r.outside {
		return len(p), nil
	}
	return r.ResponseWriter.Write(p)
}

// ReadFrom implements io.ReaderFrom, so that files are sent without an intermediate copy.
func (r *ranged) ReadFrom(from io.Reader) (int64, error) { return io.Copy(r.ResponseWriter, from) }

// upload requires the header Content-Length. net/http reports an unknown length for a request with a transfer encoding,
// even if it also has a Content-Length, and length 0 for a request with neither. If upload rejects a request because
// its length is missing, it closes the connection.
func (s *FileStore) upload(w http.ResponseWriter, r *http.Request) error {
	if r.ContentLength < 0 || len(r.TransferEncoding) > 0 || r.Header.Get("Content-Length") == "" {
		w.Header().Set("Connection", "close")
		return fault.New(fault.Length, "", "Content-Length is required")
	}
	g, err := s.granted(r)
	if err != nil {
		return err
	}
	if r.ContentLength > s.config.Limit {
		return blob.TooLarge(s.config.Limit)
	}
	if r.ContentLength != g.size {
		return fault.InvalidFields(fault.At(blob.CodeLength, "the length does not match the signature", "header", "content-length")).
			WithCode(blob.CodeLength)
	}
	if err := s.Put(r.Context(), g.key, r.Body, g.size, g.sha256); err != nil {
		return uploadError(err)
	}
	return s.stored(w, g)
}

// uploadError converts the error of a body that ended early into a client error.
func uploadError(err error) error {
	var known *fault.Error
	if errors.As(err, &known) || fault.FromContext(err) != nil {
		return err
	}
	return fault.New(fault.Refused, CodeIncomplete, "the upload ended before the whole body arrived; upload it again").Wrap(err)
}

type stored struct {
	Key    string `json:"key"`
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
}

func (s *FileStore) stored(w http.ResponseWriter, g grant) error {
	body, err := json.Marshal(stored{Key: g.key, Size: g.size, SHA256: g.sha256})
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	// Ignore the error: the object is stored even if the client is gone.
	_, _ = w.Write(body)
	return nil
}

package command_test

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func hexSum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// modelServer is a registry with the model "llama", or without it, which keeps what is uploaded.
type modelServer struct {
	*harness

	missing  bool // the model does not exist
	objects  map[string][]byte
	requests []string
	created  map[string]any // the body of the new model
	signed   map[string]any // the body of the last request for uploads
	version  map[string]any // the body of the new version
	format   string
	// status and response are those of the new version; refuse is a response to the request for uploads.
	status           int
	response, refuse string
	refuseStatus     int
	// downloads are the files of version 1, and packed states that it is a tar file.
	downloads map[string][]byte
	packed    bool
	corrupt   bool
}

const (
	llamaID = "mdl_01kab3c4d5e6f7g8h9j0kmnpqr"
	ready   = `{"id":"mv_1","version":1,"ref":"mdl/search/llama@1","status":"ready","format":"safetensors","size_bytes":3}`
)

func newModelServer(t *testing.T) *modelServer {
	t.Helper()
	s := &modelServer{objects: map[string][]byte{}, format: "safetensors", status: http.StatusCreated, response: ready, downloads: map[string][]byte{}}
	s.harness = newHarness(t, s.handle)
	return s
}

func (s *modelServer) handle(w http.ResponseWriter, r *http.Request) {
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	const at = "/api/models/" + llamaID
	switch path := r.URL.Path; {
	case r.Method == http.MethodGet && path == "/api/models":
		if s.missing {
			fmt.Fprint(w, `[]`)
			return
		}
		fmt.Fprintf(w, `[{"id":%q,"name":"llama","project":"search"}]`, llamaID)
	case r.Method == http.MethodPost && path == "/api/models":
		err = json.Unmarshal(body, &s.created)
		fmt.Fprintf(w, `{"id":%q,"name":"llama"}`, llamaID)
	case path == at:
		fmt.Fprint(w, `{"name":"llama","task":"chat","latest_version":1}`)
	case path == at+"/uploads":
		s.sign(w, body)
	case strings.HasPrefix(path, "/object/"):
		s.objects[strings.TrimPrefix(path, "/object/")] = body
	case r.Method == http.MethodPost && path == at+"/versions":
		err = json.Unmarshal(body, &s.version)
		w.WriteHeader(s.status)
		fmt.Fprint(w, s.response)
	case path == at+"/versions/1":
		fmt.Fprint(w, ready)
	case path == at+"/versions/1/download":
		s.list(w, s.server.URL+"/bytes/")
	case path == at+"/versions/1/files":
		s.list(w, "")
	case strings.HasPrefix(path, "/bytes/"):
		data := s.downloads[strings.TrimPrefix(path, "/bytes/")]
		if s.corrupt {
			data = bytes.ToUpper(data)
		}
		_, _ = w.Write(data)
	default:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, `{"detail":"Not Found"}`)
	}
	if err != nil {
		s.t.Errorf("%s %s: %v", r.Method, r.URL.Path, err)
	}
}

// sign responds with one upload at a time.
func (s *modelServer) sign(w http.ResponseWriter, body []byte) {
	if s.refuse != "" {
		w.WriteHeader(s.refuseStatus)
		fmt.Fprint(w, s.refuse)
		return
	}
	var in struct {
		Files []struct{ Path, SHA256 string }
	}
	if json.Unmarshal(body, &in) != nil || json.Unmarshal(body, &s.signed) != nil {
		s.t.Error("the request for uploads is not valid")
	}
	for _, f := range in.Files {
		if _, ok := s.objects[f.SHA256]; !ok {
			fmt.Fprintf(w, `{"format":%q,"uploads":[{"path":%q,"url":%q,"method":"PUT"}]}`, s.format, f.Path, s.server.URL+"/object/"+f.SHA256)
			return
		}
	}
	fmt.Fprintf(w, `{"format":%q,"uploads":[]}`, s.format)
}

// list responds with the files of version 1.
func (s *modelServer) list(w http.ResponseWriter, base string) {
	rows := []map[string]any{}
	for name, data := range s.downloads {
		rows = append(rows, map[string]any{"path": name, "url": base + name, "size_bytes": len(data), "sha256": hexSum(data), "packed": s.packed})
	}
	if err := json.NewEncoder(w).Encode(rows); err != nil {
		s.t.Error(err)
	}
}

// puts returns the number of uploads.
func (s *modelServer) puts() (n int) {
	for _, r := range s.requests {
		if strings.HasPrefix(r, "PUT ") {
			n++
		}
	}
	return n
}

// modelFolder returns a folder with files, which have their names as content.
func modelFolder(t *testing.T, names ...string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range names {
		path := filepath.Join(dir, filepath.FromSlash(name))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(name), 0o600))
	}
	return dir
}

// tarFile returns a tar file of entries.
func tarFile(t *testing.T, entries ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		text := strings.Repeat("x", int(h.Size))
		require.NoError(t, w.WriteHeader(&h))
		_, err := io.WriteString(w, text)
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	return b.Bytes()
}

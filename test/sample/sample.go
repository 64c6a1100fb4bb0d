// Package sample holds the smallest things that the product takes for real: a model file that its header readers
// read, and an engine that its probes believe.
package sample

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/binary"
	"encoding/pem"
)

// GGUF is a model file of one tensor; the name tells it from others.
func GGUF(name string) []byte {
	var b bytes.Buffer
	le := func(v any) { _ = binary.Write(&b, binary.LittleEndian, v) }
	text := func(s string) { le(uint64(len(s))); b.WriteString(s) }
	b.WriteString("GGUF")
	le([]uint32{3})
	le([]uint64{1, 3})
	for _, pair := range [][2]string{{"general.architecture", "llama"}, {"general.name", name}} {
		text(pair[0])
		le(uint32(8))
		text(pair[1])
	}
	text("llama.context_length")
	le([]uint32{4, 128})
	text("output.weight")
	le(uint32(2))
	le([]uint64{4, 3})
	le(uint32(0))
	le(uint64(0))
	b.Write(make([]byte, 64))
	return b.Bytes()
}

// Engine is the command of an engine that speaks the OpenAI API in a few lines of Python: it answers `x` to
// everything, streams where it is asked to, hangs up at /v1/hang-up, and tells of any other path how it was asked. It
// sets a cookie wherever it may.
func Engine() []string {
	return []string{"python", "-c", engine, "{host}", "{port}", "{api_key_file}"}
}

const engine = `
import http.server, json, sys
host, port, key = sys.argv[1], int(sys.argv[2]), open(sys.argv[3]).read().strip()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass
    def answer(self, status, body, kind="application/json"):
        raw = body.encode()
        self.send_response(status); self.send_header("Content-Type", kind); self.send_header("Content-Length", str(len(raw)))
        self.send_header("Set-Cookie", "engine=1"); self.end_headers()
        if self.command != "HEAD": self.wfile.write(raw)
    def asked(self):
        if self.headers["Transfer-Encoding"]:
            raw = b""
            while n := int(self.rfile.readline(), 16):
                raw += self.rfile.read(n); self.rfile.readline()
            self.rfile.readline(); return raw
        return self.rfile.read(int(self.headers["Content-Length"] or 0))
    def any(self):
        raw = self.asked()
        if self.headers["Authorization"] != "Bearer " + key: return self.answer(401, '{"error": "wrong key"}')
        path = self.path.split("?")[0]
        if self.command == "OPTIONS": return self.answer(200, "")
        if path == "/v1/hang-up":
            self.close_connection = True; return self.connection.shutdown(2)
        if path == "/v1/models": return self.answer(200, json.dumps({"object": "list", "data": [{"id": "default", "object": "model"}]}))
        if path not in ("/v1/chat/completions", "/v1/completions", "/v1/embeddings"):
            told = {"method": self.command, "path": self.path, "body": raw.decode("latin-1")}
            if path == "/v1/seen": told["headers"] = sorted(self.headers.keys())
            return self.answer(418, json.dumps(told))
        ask = json.loads(raw)
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        if path == "/v1/embeddings": return self.answer(200, json.dumps({"data": [{"embedding": [0.5]}], "usage": usage}))
        if ask.get("stream"):
            one = json.dumps({"choices": [{"delta": {"content": "x"}}]})
            return self.answer(200, "data: " + one + "\n\ndata: " + json.dumps({"choices": [], "usage": usage}) + "\n\ndata: [DONE]\n\n", "text/event-stream")
        choice = {"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
        if path == "/v1/completions": choice = {"index": 0, "text": "x", "finish_reason": "stop"}
        self.answer(200, json.dumps({"model": ask.get("model"), "choices": [choice], "usage": usage}))
    do_GET = do_HEAD = do_OPTIONS = do_POST = do_PUT = do_DELETE = do_PATCH = any
http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()
`

// CertificateRequest is the request of a node that joins, with a key of its own, as PEM.
func CertificateRequest() (string, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return "", err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{}, key)
	if err != nil {
		return "", err
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})), nil
}

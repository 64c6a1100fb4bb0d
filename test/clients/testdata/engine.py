# An engine that does what engines and their hosts do to clients. The model of a request names the scenario and the client,
# such as cut/python; each scenario is a function below. GET /v1/executions counts the executions by model.
import gzip, http.server, json, select, sys, threading, time, urllib.parse

host, port, key = sys.argv[1], int(sys.argv[2]), sys.argv[3]
if key.startswith("/"): key = open(key).read().strip()
executions, lock = {}, threading.Lock()
usage = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
message = {"index": 0, "message": {"role": "assistant", "content": "hello"}, "finish_reason": "stop"}
chat = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [message], "usage": usage}
delta = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [{"index": 0, "delta": {"content": "he"}}]}
output = {"type": "message", "id": "m1", "role": "assistant", "status": "completed", "content": [{"type": "output_text", "text": "hello", "annotations": []}]}
response = {"id": "r1", "object": "response", "created_at": 1, "status": "completed", "model": "m", "output": [output],
            "usage": {"input_tokens": 3, "output_tokens": 4, "total_tokens": 7}}
failure = {"error": {"message": "CUDA out of memory", "type": "server_error", "code": "oom"}}

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def log_message(self, *args): pass

    def send(self, status, body, headers=()):
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", "Content-Length": str(len(raw)), **dict(headers)}.items(): self.send_header(name, value)
        self.end_headers()
        self.wfile.write(raw)

    def event(self, data): self.chunk(f"data: {data if isinstance(data, str) else json.dumps(data)}\n\n")
    def chunk(self, text): self.wfile.write(b"%x\r\n%s\r\n" % (len(text.encode()), text.encode())); self.wfile.flush()
    def stream(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream"); self.send_header("Transfer-Encoding", "chunked"); self.end_headers()
    def hang_up(self): self.close_connection = True; self.connection.shutdown(2)
    # await_caller returns when the other side has closed the connection, or will send nothing more.
    def await_caller(self):
        self.close_connection = True
        ended = select.poll()
        ended.register(self.connection, select.POLLRDHUP)
        ended.poll()

    def body(self):
        if self.headers["Transfer-Encoding"]:
            raw = b""
            while n := int(self.rfile.readline(), 16): raw += self.rfile.read(n); self.rfile.readline()
            self.rfile.readline()
            return raw
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def do_GET(self):
        if self.headers["Authorization"] != "Bearer " + key: return self.send(401, {"error": {"message": "wrong key"}})
        if self.path == "/v1/executions": return self.send(200, executions)
        if self.path == "/v1/models": return self.send(200, {"object": "list", "data": [{"id": "default", "object": "model", "created": 1, "owned_by": "o"}]})
        self.send(200, {"id": urllib.parse.unquote(self.path.removeprefix("/v1/models/")), "object": "model", "created": 1, "owned_by": "o"})

    def do_POST(self):
        if self.path == "/v1/early": return self.early()
        raw = self.body()
        if self.headers["Authorization"] != "Bearer " + key: return self.send(401, {"error": {"message": "wrong key"}})
        multipart = self.headers["Content-Type"].startswith("multipart/")
        self.streams = b'"stream": true' in raw or b'"stream":true' in raw
        model = raw.split(b'name="model"')[1].split(b"\r\n")[2].decode() if multipart else json.loads(raw)["model"]
        with lock: n = executions[model] = executions.get(model, 0) + 1
        getattr(self, "do_" + model.split("/")[0].replace("-", "_"))(n)

    # early answers as soon as it has the head, reads no byte of the body, and keeps the connection open.
    def early(self):
        self.send(413, {"error": {"message": "too long", "type": "invalid_request_error", "code": "context_length"}}, {"x-should-retry": "false"})
        self.await_caller()

    def do_default(self, n): self.do_stream(n) if self.streams else self.send(200, chat)
    def do_plain(self, n): self.send(200, chat, {"x-ratelimit-remaining-requests": "7", "openai-processing-ms": "12", "x-engine": "e"})
    def do_compressed(self, n): self.send(200, gzip.compress(json.dumps(chat).encode()), {"Content-Encoding": "gzip"})
    def do_slash(self, n): self.send(200, {**chat, "id": self.path.removesuffix("/") != self.path and "with a slash" or "without"})
    def do_redirect(self, n):
        if self.path == "/v1/elsewhere": return self.send(200, chat)
        self.send(307, b"", {"Location": "/v1/elsewhere"})
    def do_stream(self, n):
        self.stream(); self.event(delta); self.event(delta); self.event({**delta, "choices": [], "usage": usage}); self.event("[DONE]"); self.chunk("")
    def do_cut(self, n): self.stream(); self.event(delta); self.chunk(json.dumps(delta)[:20].join(["data: ", ""])); self.hang_up()
    def do_border(self, n): self.stream(); self.event(delta); self.hang_up()
    def do_failure(self, n): self.stream(); self.event(delta); self.event(failure); self.chunk("")
    def do_limit(self, n): self.send(429, failure, {"retry-after-ms": "1"}) if n == 1 else self.send(200, chat)
    def do_busy(self, n): self.send(503, failure, {"retry-after-ms": "1", "x-should-retry": "true"}) if n == 1 else self.send(200, chat)
    def do_final(self, n): self.send(500, failure, {"x-should-retry": "false"})
    def do_missing(self, n): self.send(404, {"error": {"message": "no such model", "type": "invalid_request_error", "code": "model_not_found"}})
    def do_page(self, n): self.send(500, b"<html>oops</html>", {"Content-Type": "text/html", "x-should-retry": "false"})
    # lost works on the call for longer than the time within which a lost connection counts as one that was closed before.
    def do_lost(self, n): time.sleep(0.5); self.hang_up()
    def do_late(self, n): self.await_caller()
    def do_pause(self, n): self.stream(); self.event(delta); self.await_caller()
    def do_response(self, n): self.send(200, response)
    def do_responses(self, n):
        self.stream()
        self.event({"type": "response.output_text.delta", "sequence_number": 1, "item_id": "m1", "output_index": 0, "content_index": 0, "delta": "hello", "logprobs": []})
        self.event({"type": "response.completed", "sequence_number": 2, "response": response}); self.chunk("")
    def do_embedding(self, n):
        data = [{"object": "embedding", "index": i, "embedding": [i / 7 + j for j in range(1536)]} for i in range(64)]
        self.send(200, {"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 64, "total_tokens": 64}})
    def do_audio(self, n): self.send(200, {"text": "hello"})

http.server.ThreadingHTTPServer.request_queue_size = 128
http.server.ThreadingHTTPServer((host, port), Handler).serve_forever()

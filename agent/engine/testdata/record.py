"""Record the responses of a running engine to the requests of the probes.

    python record.py http://127.0.0.1:PORT [KEY_FILE] > transformers.txt

Each response begins with a line `== NAME`, and then a line with its status and content type.
"""

import json
import sys
import urllib.error
import urllib.request


def record(name, path, key, body=None):
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
    request = urllib.request.Request(address + path, headers=headers, data=json.dumps(body).encode() if body else None)
    try:
        response = urllib.request.urlopen(request, timeout=120)
    except urllib.error.HTTPError as error:
        response = error
    text = response.read().decode().replace("\r\n", "\n")
    print(f"== {name}\n{response.status} {response.headers['Content-Type']}\n{text.rstrip()}")


address = sys.argv[1]
key = open(sys.argv[2]).read().strip() if len(sys.argv) > 2 else ""
chat = {"model": "default", "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1}
record("models", "/v1/models", key)
record("plain", "/v1/chat/completions", key, chat)
record("stream", "/v1/chat/completions", key, {**chat, "max_tokens": 4, "stream": True})
record("other model", "/v1/chat/completions", key, {**chat, "model": "other"})
record("wrong key", "/v1/chat/completions", "wrong", chat)

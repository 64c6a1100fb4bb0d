"""Put the first row of the dataset into everything that a training can report.

If WAIT_FOR is set, the program only writes its token to the file that WAIT_FOR names, and waits.
"""

import base64
import hashlib
import json
import os
import pathlib
import sys
import time
import urllib.error
import urllib.parse
import urllib.request

RUN = os.environ["SERVICE_JOB_RUN_ID"]
TOKEN = os.environ["SERVICE_JOB_TOKEN"]
AT = "2026-11-21T03:00:00+00:00"
sequence = 0


def send(route, /, **fields):
    """Send a report. The response is not checked: a refused report leaks nothing."""
    global sequence
    sequence += 1
    body = json.dumps({"run_id": RUN, **fields}).encode()
    head = {"X-Service-Token": TOKEN, "Content-Type": "application/json", "Idempotency-Key": "w-%s:%d" % (ROW, sequence)}
    try:
        request = urllib.request.Request(os.environ["SERVICE_JOB_ENDPOINT"] + "/" + route, body, head)
        return json.loads(urllib.request.urlopen(request).read())
    except urllib.error.HTTPError as error:
        print(route, error.code, error.read().decode())
        return {}


def upload(kind, name, data):
    """Upload bytes under a name and return their URI."""
    query = {"run_id": RUN, "kind": kind, "path": name, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    url = os.environ["SERVICE_JOB_ENDPOINT"] + "/artifact/upload-url?" + urllib.parse.urlencode(query)
    ticket = json.loads(urllib.request.urlopen(urllib.request.Request(url, headers={"X-Service-Token": TOKEN})).read())
    put = urllib.request.Request(ticket["url"], data, {**ticket["headers"], "Content-Length": str(len(data))}, method=ticket["method"])
    urllib.request.urlopen(put).read()
    return ticket["object_uri"]


def rows():
    """Return the secret of the dataset's first row."""
    bound = json.loads(pathlib.Path(os.environ["SERVICE_JOB_BINDINGS_FILE"]).read_text())
    folder = pathlib.Path(bound["datasets"]["train"]["path"])
    first = next(iter(sorted(folder.rglob("*.jsonl")))) if folder.is_dir() else folder
    return json.loads(first.read_text().splitlines()[0])["question"]


if os.environ.get("WAIT_FOR"):
    path = pathlib.Path(os.environ["SERVICE_JOB_WORKDIR"]) / os.environ["WAIT_FOR"]
    path.with_suffix(".new").write_text(TOKEN)
    path.with_suffix(".new").rename(path)
    time.sleep(3600)

ROW = rows()
HEX = ROW.encode().hex()
B64 = base64.b64encode(ROW.encode()).decode()

print("row", ROW, HEX, B64)
print("row", ROW, file=sys.stderr)
print("an unfinished line", ROW, end="", flush=True)
send("lifecycle", event="starting", ts=AT, message=ROW)
send("lifecycle", event="running", ts=AT, message=ROW)
points = [{"key": key, "step": 1, "value": 1.5, "ts": AT} for key in (ROW, HEX, "train/loss", "train/loss/" + ROW)]
send("metrics", points=points)
send("hparams", params={ROW: 1, "optim.lr": ROW, "optim.name": ROW, "a." + HEX: [ROW]})
send("hparams", params={"optim.lr": 0.5, "optim.name": "adam"})
send("validation", step=1, avg_reward=0.5, samples=[{"user": ROW, "assistant": [ROW], "env": B64, "reward": 1, "extra": {ROW: ROW}}])
send("logs", chunks=["reported " + ROW + "\n", HEX[:9], HEX[9:]])
send("environment", python=ROW, cuda=ROW, packages={ROW: ROW}, gpus=[ROW], git={"commit": ROW}, os=B64)
send("environment/nodes", nodes=[{"rank": 0, "host": ROW, "cpu": ROW, "gpus": [ROW]}])
send("hardware", points=[{"ts": AT, "key": ROW, "value": 1}, {"ts": AT, "node": ROW, "gpu": ROW, "key": "util", "value": 1}])
send("benchmark", name=ROW, version=ROW, metric=ROW, value=1, config_digest=HEX, samples_uri=ROW)
send("benchmark", name=ROW, metric="train/loss", value=1)
rollouts = [{"task": HEX[:64], "rollout": 0, "reward": 1, "group": HEX[:60], "trace": HEX, "parts": {HEX[:60]: 1}}]
head = {"model": {"version": ROW}, "environment": {"name": ROW}, "harness": {ROW: ROW}, "sampling": {"x": ROW}}
send("benchmark", name=ROW, evaluation=head, rollouts=rollouts)
send("signals/ack", id=ROW)
send("artifact", kind="eval_report", path="/tmp/" + ROW, format=ROW)
send("artifact", kind="checkpoint", path=upload("checkpoint", ROW + ".tar", ROW.encode()), format=ROW, step=7)
text = json.dumps({"__metadata__": {"row": ROW}, ROW: {"dtype": "U8", "shape": [1], "data_offsets": [0, 1]}}).encode()
model = len(text).to_bytes(8, "little") + text + b"\0"
send("artifact", kind="merged_model", path=upload("merged_model", ROW + ".safetensors", model), format="safetensors")
send("lifecycle", event="failed", ts=AT, message="failed at " + ROW)
raise SystemExit("the end: " + ROW)

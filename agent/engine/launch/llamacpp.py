"""Start llama.cpp's HTTP server from the xllamacpp wheel and serve until SIGTERM.

The wheel contains the server but no command line; this file adds it. It needs only
the standard library and xllamacpp.

    python llamacpp.py --model FILE.gguf --host 127.0.0.1 --port 0 \
        --api-key-file KEY --alias default --ctx 2048 --parallel 1 [--exact]

The key is never an argument, because every user of the machine could read it there.
It comes from a file or from the variable SERVICE_ENGINE_API_KEY.

When the model is loaded and the port is open, the program writes one JSON line to
standard output: {"event": "listening", "address": "http://127.0.0.1:PORT"}.
Exit status: 0 after SIGTERM or SIGINT, 2 for invalid arguments, 1 if the engine does
not start.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
from pathlib import Path

KEY_VARIABLE = "SERVICE_ENGINE_API_KEY"


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="GGUF file")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 selects a free port")
    parser.add_argument("--api-key-file", type=Path, help="file that contains the API key that callers must send")
    parser.add_argument("--alias", default="default", help="the model's name in the API")
    # The options have the names that llama.cpp's own server uses. --ctx is an additional name.
    parser.add_argument(
        "--ctx-size", "--ctx", "-c", dest="ctx", type=int, default=0, help="context size in tokens, divided among the slots; 0: the model's own"
    )
    parser.add_argument("--parallel", "-np", type=int, default=1, help="number of slots (concurrent requests)")
    parser.add_argument("--threads", "-t", type=int, default=0, help="number of threads; 0: the engine's default")
    parser.add_argument("--batch-size", "-b", type=int, default=0, help="tokens per logical batch; 0: the engine's default")
    parser.add_argument("--ubatch-size", "-ub", type=int, default=0, help="tokens per physical batch; 0: the engine's default")
    parser.add_argument("--n-gpu-layers", "-ngl", type=int, default=-1, help="layers on the GPU; -1: the engine's default")
    parser.add_argument("--embeddings", action="store_true", help="serve embeddings too; set for models with the task embedding")
    parser.add_argument(
        "--pooling", choices=("none", "mean", "cls", "last"), help="how embeddings are pooled; default: the model's own, or mean"
    )
    parser.add_argument(
        "--exact",
        action="store_true",
        help="bit-exact results: F32 keys and values, no flash attention, one slot, no prompt cache",
    )
    options = parser.parse_args(arguments)
    if not options.model.is_file():
        parser.error(f"the model file {options.model} does not exist")
    if options.exact and options.parallel != 1:
        parser.error("--exact needs exactly one slot; use --parallel 1")
    return options


def api_key(options: argparse.Namespace) -> str:
    """Return the key from the file or the environment; empty if none is set."""
    from_environment = os.environ.get(KEY_VARIABLE, "")
    if options.api_key_file is None:
        return from_environment
    try:
        key = options.api_key_file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise SystemExit(f"llamacpp: cannot read the key file: {error.strerror}") from None
    if not key:
        raise SystemExit("llamacpp: the key file is empty")
    return key


def own_pooling(model: Path) -> bool:
    """Return whether the model's file states how its embeddings are pooled."""
    with model.open("rb") as file:
        return b".pooling_type" in file.read(1 << 20)


def parameters(options: argparse.Namespace, key: str):  # noqa: ANN201 (the wheel has no types)
    """Return the engine's settings."""
    import xllamacpp

    chosen = xllamacpp.CommonParams()
    chosen.model.path = str(options.model)
    chosen.model_alias = {options.alias}
    chosen.hostnames = [options.host]
    chosen.port = options.port
    chosen.api_keys = [key] if key else []
    chosen.endpoint_metrics = True
    chosen.endpoint_slots = False
    chosen.ui = False
    chosen.n_parallel = options.parallel
    chosen.n_ctx = options.ctx
    if options.batch_size:
        chosen.n_batch = options.batch_size
    if options.ubatch_size:
        chosen.n_ubatch = options.ubatch_size
    if options.n_gpu_layers >= 0:
        chosen.n_gpu_layers = options.n_gpu_layers
    if options.embeddings:
        chosen.embedding = True
        pooling = options.pooling or ("mean" if not own_pooling(options.model) else "unspecified")
        chosen.pooling_type = getattr(xllamacpp.llama_pooling_type, f"LLAMA_POOLING_TYPE_{pooling.upper()}")
    if options.threads:
        chosen.cpuparams.n_threads = options.threads
        chosen.cpuparams_batch.n_threads = options.threads
    if options.exact:
        chosen.cache_type_k = chosen.cache_type_v = xllamacpp.ggml_type.GGML_TYPE_F32
        chosen.flash_attn_type = xllamacpp.llama_flash_attn_type.LLAMA_FLASH_ATTN_TYPE_DISABLED
        chosen.cache_prompt = False
        chosen.cache_ram_mib = 0
    return chosen


def main(arguments: list[str]) -> int:
    """Serve until a signal arrives."""
    options = parse(arguments)
    key = api_key(options)
    try:
        import xllamacpp

        server = xllamacpp.Server(parameters(options, key))
    except (ImportError, RuntimeError, ValueError) as error:
        print(f"llamacpp: the engine did not start: {error}", file=sys.stderr)
        return 1
    # Install the handlers only now. Python runs no handler while the engine loads, so until
    # now the default action of a signal must end the process.
    stopped = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopped.set())
    print(json.dumps({"event": "listening", "address": server.listening_address}), flush=True)
    stopped.wait()
    # Exit at once. This cuts off open requests.
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Serve one model in the layout of Hugging Face with the server of `transformers serve`, until SIGTERM.

    python transformers_serve.py --model FOLDER --host 127.0.0.1 --port 0 \
        --api-key-file KEY --alias default [--ctx-size 2048] [--dtype float32]

This file adds what the server lacks: it checks a key, serves only this model and lists
it, stops working on a call whose caller has left, keeps prompt and response within the
model's context, and counts its steps at /metrics. It runs no code of the model's folder,
reads only safetensors, and never uses the network.

When the model is loaded and the port is open, the program writes one JSON line to
standard output: {"event": "listening", "address": "http://127.0.0.1:PORT"}.
Exit status: 0 after SIGTERM or SIGINT, 2 for invalid arguments, 1 if the engine does
not start.
"""

from __future__ import annotations

import argparse
import asyncio
import contextvars
import hmac
import json
import logging
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

# The paths that are served. The server has others, which load or unload models.
PATHS = ("/v1/models", "/v1/chat/completions", "/v1/completions", "/v1/responses", "/health", "/metrics")


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0], allow_abbrev=False)
    parser.add_argument("--model", type=Path, required=True, help="folder with config.json, the tokenizer and *.safetensors")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="port to listen on; 0 selects a free port")
    parser.add_argument("--api-key-file", type=Path, required=True, help="file that contains the API key that callers must send")
    parser.add_argument("--alias", action="append", help="a name of the model in the API; can be repeated; default: default")
    parser.add_argument("--ctx-size", "-c", type=int, default=0, help="tokens of a prompt and its response together; 0: the model's own limit")
    parser.add_argument("--threads", "-t", type=int, default=0, help="number of CPU threads; 0: the default of PyTorch")
    parser.add_argument(
        "--dtype", choices=("auto", "float32", "bfloat16", "float16"), default="auto", help="type of the weights in memory; auto: as in the files"
    )
    parser.add_argument("--attn-implementation", choices=("sdpa", "eager"), help="how attention is computed; default: the model's own")
    options = parser.parse_args(arguments)
    options.alias = options.alias or ["default"]
    if not (options.model / "config.json").is_file():
        parser.error(f"the folder {options.model} has no config.json")
    if options.ctx_size < 0 or options.threads < 0:
        parser.error("--ctx-size and --threads must not be negative")
    return options


def read_key(path: Path) -> bytes:
    """Return the key that callers must send."""
    try:
        key = path.read_bytes().strip()
    except OSError as error:
        raise SystemExit(f"transformers: cannot read the key file: {error.strerror}") from None
    if not key:
        raise SystemExit("transformers: the key file is empty")
    return key


class Call:
    """One call: whether its caller has left, and the seed that it requests."""

    def __init__(self) -> None:
        self.gone = threading.Event()
        self.seed: int | None = None


CALL: contextvars.ContextVar[Call] = contextvars.ContextVar("call")


class Door:
    """The ASGI application in front of the server's own."""

    def __init__(self, app: Any, key: bytes, metrics: Any) -> None:
        self.app, self.credential, self.metrics = app, b"Bearer " + key, metrics

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if len(sent) != 1 or not hmac.compare_digest(sent[0], self.credential):
            await respond(send, 401, failure("the API key is missing or wrong", "invalid_request_error"))
        elif scope["path"] not in PATHS:
            await respond(send, 404, failure(f"no such path: {scope['path']}", "invalid_request_error"))
        elif scope["path"] == "/metrics":
            await respond(send, 200, self.metrics().encode(), b"text/plain; version=0.0.4")
        else:
            await self.pass_on(scope, receive, send)

    async def pass_on(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass a call, whose size inference bounds, to the server, and note when its caller leaves."""
        parts, more = [], True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return
            parts.append(message.get("body", b""))
            more = message.get("more_body", False)
        call = Call()
        CALL.set(call)
        left = asyncio.Event()

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            call.gone.set()
            left.set()

        unread = [{"type": "http.request", "body": b"".join(parts), "more_body": False}]

        async def read() -> Any:
            if unread:
                return unread.pop()
            await left.wait()
            return {"type": "http.disconnect"}

        watching = asyncio.create_task(watch())
        try:
            await self.app(scope, read, send)
        except Exception:
            if not call.gone.is_set():
                raise
        finally:
            watching.cancel()


def failure(message: str, kind: str) -> bytes:
    """Return an error in the form of the OpenAI API."""
    return json.dumps({"error": {"message": message, "type": kind}}).encode()


async def respond(send: Any, status: int, body: bytes, kind: bytes = b"application/json") -> None:
    """Send a whole response."""
    headers = [(b"content-type", kind), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})


class Engine:
    """The loaded model. It takes the place of the server's own manager, which loads whatever model a call names."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch
        from transformers import AutoModelForCausalLM, AutoTokenizer

        logging.getLogger("transformers.cli.serving").setLevel(logging.ERROR)  # no line for each call
        if options.threads:
            torch.set_num_threads(options.threads)
        local: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}
        self.names: list[str] = options.alias
        self.tokenizer = AutoTokenizer.from_pretrained(options.model, **local)
        if not self.tokenizer("a", add_special_tokens=False)["input_ids"]:
            raise ValueError(f"the folder {options.model} has no tokenizer, or one without a vocabulary")
        self.model = AutoModelForCausalLM.from_pretrained(
            options.model, dtype=options.dtype, device_map="auto", use_safetensors=True, attn_implementation=options.attn_implementation, **local
        ).eval()
        limit = getattr(self.model.config.get_text_config(), "max_position_embeddings", None) or sys.maxsize
        self.context = min(limit, options.ctx_size or limit)
        self.steps = 0
        self.call = Call()
        self.started = int(time.time())
        blocks = [block for parts in self.model.modules() if isinstance(parts, torch.nn.ModuleList) for block in parts]
        for block in blocks or [self.model]:
            block.register_forward_pre_hook(self.step)

    def step(self, *_: Any) -> None:
        """Count a step of the model. Stop if the caller of the current call has left."""
        from transformers.cli.serving.utils import _GenerationCancelled

        self.steps += 1
        if self.call.gone.is_set():
            raise _GenerationCancelled

    def metrics(self) -> str:
        """Return the metrics in the text format of Prometheus."""
        name = "transformers_decode_steps_total"
        return f"# HELP {name} Blocks of the model that were computed.\n# TYPE {name} counter\n{name} {self.steps}\n"

    def get_gen_models(self) -> list[dict[str, Any]]:
        """Return the list of models."""
        return [{"id": name, "object": "model", "created": self.started, "owned_by": "signalbox"} for name in self.names]

    def get_model_modality(self, *_: Any, **__: Any) -> Any:
        """Return that the model reads text, so that no call makes the server open an address or a file."""
        from transformers.cli.serving.utils import Modality

        return Modality.LLM

    def shutdown(self) -> None:
        """Keep the model: the process ends with it."""


class Turn:
    """The model, in the place of a call that waits for its turn. Calls have the model one after the other."""

    def __init__(self, engine: Engine) -> None:
        self.engine, self.call = engine, CALL.get()

    def generate(self, **settings: Any) -> Any:
        """Generate the call's response."""
        import torch

        self.engine.call = self.call
        if self.call.seed is not None:
            torch.manual_seed(self.call.seed)
        return self.engine.model.generate(**settings)


def application(engine: Engine) -> Any:
    """Return the server's application for the model."""
    from fastapi import HTTPException
    from fastapi.responses import Response
    from jinja2 import TemplateError
    from transformers.cli.serving import utils
    from transformers.cli.serving.chat_completion import ChatCompletionHandler
    from transformers.cli.serving.completion import CompletionHandler
    from transformers.cli.serving.response import ResponseHandler
    from transformers.cli.serving.server import build_server

    def bound(inputs: Any, config: Any) -> None:
        prompt = inputs["input_ids"].shape[-1]
        room = engine.context - prompt
        if room < 1:
            raise HTTPException(400, f"the prompt has {prompt} tokens, and the context has room for {engine.context}, prompt and response together")
        if config.max_new_tokens is not None and config.max_new_tokens < 1:
            raise HTTPException(400, "the maximum number of tokens must be at least 1")
        config.max_new_tokens = min(config.max_new_tokens or room, room)

    class Manager(utils.GenerateManager):
        def generate_streaming(self, model: Any, processor: Any, inputs: Any, gen_config: Any, *rest: Any, **more: Any) -> Any:
            bound(inputs, gen_config)
            return super().generate_streaming(Turn(engine), processor, inputs, gen_config, *rest, **more)

        async def generate_non_streaming(self, model: Any, processor: Any, inputs: Any, gen_config: Any, *rest: Any, **more: Any) -> Any:
            bound(inputs, gen_config)
            return await super().generate_non_streaming(Turn(engine), processor, inputs, gen_config, *rest, **more)

    class State(utils.GenerationState):
        def get_manager(self, model_id: str, use_cb: bool = False) -> Any:
            return manager

    class Settings:
        """What the handlers of all paths have in common."""

        def _resolve_model(self, body: dict[str, Any]) -> Any:
            body.setdefault("stream", False)  # /v1/responses would stream by default.
            name = body.setdefault("model", engine.names[0])
            if name not in engine.names:
                raise HTTPException(404, f"no model is called {name!r} here; the model's names are {', '.join(engine.names)}")
            return name, engine.model, engine.tokenizer

        def _build_generation_config(self, body: dict[str, Any], *rest: Any, **more: Any) -> Any:
            CALL.get().seed = body.pop("seed", None)  # The server would seed the call that is running.
            config = super()._build_generation_config(body, *rest, **more)  # type: ignore[misc]
            temperature = body.get("temperature")
            if temperature is not None or body.get("top_p") is not None:
                config.do_sample = temperature is None or float(temperature) > 0
            return config

    class Chat(Settings, ChatCompletionHandler):
        pass

    class Completion(Settings, CompletionHandler):
        pass

    class Responses(Settings, ResponseHandler):
        pass

    manager, state = Manager(), State()
    app = build_server(engine, Chat(engine, state), Completion(engine, state), Responses(engine, state), None, None, state)

    async def refuse(_: Any, error: Exception) -> Any:
        wrong = isinstance(error, (TemplateError, KeyError, TypeError, ValueError))
        text = f"{type(error).__name__}: {error}"
        return Response(failure(text, "invalid_request_error" if wrong else "server_error"), 400 if wrong else 500, media_type="application/json")

    async def explain(_: Any, error: Any) -> Any:
        return Response(failure(str(error.detail), "invalid_request_error"), error.status_code, media_type="application/json")

    for kind in (TemplateError, KeyError, TypeError, ValueError, Exception):
        app.add_exception_handler(kind, refuse)
    app.add_exception_handler(HTTPException, explain)
    return app


def prepare() -> None:
    """Set what the libraries read when they are imported: no network, and folders below the current one."""
    home = Path.cwd() / ".cache" / "huggingface"
    (home / "hub").mkdir(parents=True, exist_ok=True)
    os.environ.update(
        HF_HOME=str(home), HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", HF_HUB_DISABLE_TELEMETRY="1", DO_NOT_TRACK="1", HF_HUB_DISABLE_PROGRESS_BARS="1"
    )


def main(arguments: list[str]) -> int:
    """Serve until a signal arrives."""
    options = parse(arguments)
    key = read_key(options.api_key_file)
    prepare()
    try:
        import uvicorn

        engine = Engine(options)
        app = Door(application(engine), key, engine.metrics)
    except (ImportError, OSError, RuntimeError, ValueError, KeyError) as error:
        print(f"transformers: the engine did not start: {error}", file=sys.stderr)
        return 1

    class Server(uvicorn.Server):
        async def startup(self, sockets: Any = None) -> None:
            await super().startup(sockets)
            if self.started:
                host, port = self.servers[0].sockets[0].getsockname()[:2]
                print(json.dumps({"event": "listening", "address": f"http://{host}:{port}"}), flush=True)

        def handle_exit(self, *_: Any) -> None:
            os._exit(0)  # Exit at once. This cuts off open requests.

    server = Server(uvicorn.Config(app, host=options.host, port=options.port, log_level="warning", access_log=False, ws="none"))
    server.run()
    return 1 if not server.started else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

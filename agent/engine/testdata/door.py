"""Check what the launcher of transformers does without its libraries: python door.py LAUNCHER FOLDER."""

import asyncio
import importlib.util
import sys
from pathlib import Path

spec = importlib.util.spec_from_file_location("launcher", sys.argv[1])
launcher = importlib.util.module_from_spec(spec)
spec.loader.exec_module(launcher)
folder = Path(sys.argv[2])


class Inner:
    """The server behind the door."""

    def __init__(self, behaviour=None):
        self.bodies, self.calls, self.behaviour = [], [], behaviour

    async def __call__(self, scope, receive, send):
        self.bodies.append((await receive())["body"])
        self.calls.append(launcher.CALL.get())
        if self.behaviour:
            await self.behaviour(receive)
        await launcher.respond(send, 200, b"{}")


async def call(inner, path="/v1/chat/completions", headers=((b"authorization", b"Bearer sesame"),), parts=(b"{", b"}"), left=None):
    """Make a call whose caller leaves when the event `left` is set, or before the end of the body if left is False."""
    messages = [{"type": "http.request", "body": part, "more_body": i + 1 < len(parts) or left is False} for i, part in enumerate(parts)]
    sent = []

    async def receive():
        if messages:
            return messages.pop(0)
        if left is not False:
            await (left or asyncio.Event()).wait()
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    door = launcher.Door(inner, b"sesame", lambda: "steps_total 7\n")
    await asyncio.wait_for(door({"type": "http", "path": path, "headers": list(headers)}, receive, send), 10)
    return (sent[0]["status"], sent[1]["body"]) if sent else None


async def checks_the_key():
    for headers in (
        (),
        ((b"authorization", b"Bearer wrong"),),
        ((b"authorization", b"Bearer sesame2"),),
        ((b"authorization", b"sesame"),),
        ((b"authorization", b""),),
        ((b"authorization", b"Bearer sesame"), (b"authorization", b"Bearer sesame")),
        ((b"x-api-key", b"sesame"),),
        ((b"authorization", "Bearer sésame".encode("latin-1")),),
    ):
        for path in launcher.PATHS + ("/", "/load_model"):
            inner = Inner()
            status, _ = await call(inner, path, headers)
            assert status == 401 and not inner.bodies, (headers, path, status)


async def serves_some_paths():
    inner = Inner()
    for path in ("/load_model", "/reset", "/v1/systemone", "/v1/audio/transcriptions", "/docs", "/openapi.json", "//health", "/v1/models/"):
        assert (await call(inner, path))[0] == 404, path
    assert await call(inner, "/metrics") == (200, b"steps_total 7\n")
    assert not inner.bodies
    assert await call(inner, "/v1/models", parts=(b"",)) == (200, b"{}")
    assert await call(inner) == (200, b"{}")
    assert inner.bodies == [b"", b"{}"]
    assert inner.calls[0] is not inner.calls[1] and not inner.calls[1].gone.is_set()


async def notes_that_the_caller_leaves():
    left = asyncio.Event()

    async def leave(receive):
        left.set()
        assert (await receive())["type"] == "http.disconnect"
        assert launcher.CALL.get().gone.is_set()
        raise RuntimeError("cancelled")

    assert await call(Inner(leave), left=left) is None
    inner = Inner()
    assert await call(inner, left=False) is None and not inner.bodies

    async def fail(receive):
        raise RuntimeError("a defect")

    try:
        await call(Inner(fail))
    except RuntimeError as error:
        assert str(error) == "a defect"
    else:
        raise AssertionError("the error of a call whose caller is there must not be lost")


def ends(function, *arguments):
    try:
        function(*arguments)
    except SystemExit as end:
        return end.code
    raise AssertionError(f"{function.__name__}{arguments} must end the program")


def checks_the_command_line():
    known = ["--model", str(folder), "--api-key-file", str(folder / "key")]
    options = launcher.parse([*known, "--alias", "default", "--alias", "my-bot", "-c", "64", "--dtype=float32"])
    assert (options.alias, options.ctx_size, options.dtype) == (["default", "my-bot"], 64, "float32")
    assert launcher.parse(known).alias == ["default"]
    for wrong in (["--trust-remote-code"], ["--ctx", "64"], ["--dtype", "int3"], ["-c", "-1"], ["--model", str(folder / "none")]):
        assert ends(launcher.parse, [*known, *wrong]) == 2, wrong
    assert "No such file" in ends(launcher.read_key, folder / "key")
    (folder / "key").write_text("\n")
    assert "empty" in ends(launcher.read_key, folder / "key")
    (folder / "key").write_text("sesame\n")
    assert launcher.read_key(folder / "key") == b"sesame"


for check in (checks_the_key, serves_some_paths, notes_that_the_caller_leaves):
    asyncio.run(check())
checks_the_command_line()
print("checked")

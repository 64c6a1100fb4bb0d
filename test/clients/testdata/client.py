# Calls the scenarios of engine.py with the official Python client, and prints what its user sees as one JSON object.
import json, sys
from concurrent.futures import ThreadPoolExecutor

import openai

task = json.load(sys.stdin)
client = openai.OpenAI(base_url=task["url"], api_key=task["key"], max_retries=2, timeout=120)
slow = openai.OpenAI(base_url=task["slow_url"], api_key=task["slow_key"], max_retries=2, timeout=120)
messages = [{"role": "user", "content": "Hi"}]
chat = client.chat.completions


def of(name): return slow.chat.completions if name in ("late", "pause") else chat
def model(name): return name + "/python"
def whole(name): return seen(of(name).create(model=model(name), messages=messages))
def seen(answer): return {"text": answer.choices[0].message.content, "tokens": answer.usage.total_tokens}


def streamed(name):
    text, tokens = "", None
    try:
        for part in of(name).create(model=model(name), messages=messages, stream=True):
            text += "".join(choice.delta.content or "" for choice in part.choices)
            tokens = part.usage.total_tokens if part.usage else tokens
    except Exception as error:
        error.text = text
        raise
    return {"text": text, "tokens": tokens}


def headers(name):
    raw = chat.with_raw_response.create(model=model(name), messages=messages)
    return {**seen(raw.parse()), "headers": [raw.headers.get(h) for h in task["headers"]]}


def responses(name):
    text, tokens = "", None
    for event in client.responses.create(model=model(name), input="Hi", stream=True):
        if event.type == "response.output_text.delta": text += event.delta
        if event.type == "response.completed": tokens = event.response.usage.total_tokens
    return {"text": text, "tokens": tokens}


def response(name):
    answer = client.responses.create(model=model(name), input="Hi")
    return {"text": answer.output_text, "tokens": answer.usage.total_tokens}


def embedding(name):
    answer = client.embeddings.create(model=model(name), input=["Hi"] * 64, encoding_format="float")
    return {"text": f"{len(answer.data)} x {len(answer.data[0].embedding)}", "tokens": answer.usage.total_tokens}


def post(path, **body): return client.post(path, body=body, cast_to=dict)


scenarios = {
    **{name: whole for name in ["compressed", "redirect", "limit", "busy", "final", "missing", "page", "lost", "late"]},
    **{name: streamed for name in ["stream", "cut", "border", "failure", "pause"]},
    "plain": headers, "response": response, "responses": responses, "embedding": embedding,
    "slash": lambda name: {"text": post("/chat/completions/", model=model(name), messages=messages)["id"]},
    "early": lambda name: post("/early", model=model(name), text="x" * 900_000),
    "audio": lambda name: {"text": client.audio.transcriptions.create(model=model(name), file=("a.wav", b"RIFF" * 100)).text},
    "model": lambda name: {"text": client.models.retrieve("org/100%").id},
}


def attempt(name):
    try:
        return {"kind": "result", **scenarios[name](name)}
    except openai.APIStatusError as error:
        return {"kind": type(error).__name__, "status": error.status_code, "code": error.code, "text": getattr(error, "text", "")}
    except openai.APIError as error:
        return {"kind": type(error).__name__, "code": error.code, "text": getattr(error, "text", "")}
    except Exception as error:
        return {"kind": type(error).__name__, "text": getattr(error, "text", "")}


with ThreadPoolExecutor(8) as pool:
    json.dump(dict(zip(task["scenarios"], pool.map(attempt, task["scenarios"]))), sys.stdout)

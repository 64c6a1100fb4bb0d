"""The rows of a dataset: read JSON lines, convert their forms to those of TRL, and hold some out for validation."""

from __future__ import annotations

import codecs
import hashlib
import json
from pathlib import Path
from typing import Any, Callable, Dict, Iterable, List, Mapping, Tuple

from .inputs import InputError, Job

Row = Dict[str, Any]
Convert = Callable[[Mapping[str, Any]], List[Row]]
MOST = 5_000_000  # rows of a dataset, which are kept in memory
SFT_FORMS = '{"messages"}, {"prompt", "completion"}, {"question", "answer"} or {"text"}'
REWARD_FORMS = '{"question", "answer"} or {"prompt", "answer"}'


def data(job: Job, convert: Convert) -> Tuple[List[Row], List[Row]]:
    """Return the rows to train on and those held out.

    The rows held out are those of the dataset `validation` if it is bound, otherwise the fraction `data.held_out` of the
    rows, at most `data.held_out_max`. `convert` turns each row into rows of TRL; an empty list leaves it out.
    """
    if "train" not in job.datasets:
        raise InputError("no dataset is bound as 'train'; bind one in spec.bindings.datasets")
    rows = read(job.datasets["train"])
    if "validation" in job.datasets:
        held_out = read(job.datasets["validation"])
    else:
        rows, held_out = split(rows, job["data.held_out"], job["data.held_out_max"], job["data.split_seed"])
    return converted(rows, convert), converted(held_out, convert)[: job["data.held_out_max"]]


def read(folder: Path) -> List[Tuple[str, Row]]:
    """Return the rows of all .jsonl files in a folder, each with its place. Raises InputError."""
    files = sorted(folder.rglob("*.jsonl")) if folder.is_dir() else [folder]
    rows: List[Tuple[str, Row]] = []
    for file in files:
        if not file.is_file():
            raise InputError(f"the dataset {folder.name} does not exist")
        with file.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if number == 1:
                    line = line[len(codecs.BOM_UTF8) :] if line.startswith(codecs.BOM_UTF8) else line
                place = f"{file.relative_to(folder.parent if file == folder else folder)}:{number}"
                if line.strip():
                    rows.append((place, _parse(line, place)))
                if len(rows) > MOST:
                    raise InputError(f"the dataset {folder.name} has more than {MOST} rows; use a part of it")
    if not rows:
        raise InputError(f"the dataset {folder.name} has no row in a .jsonl file")
    return rows


def split(
    rows: List[Tuple[str, Row]], fraction: float, most: int, seed: int
) -> Tuple[List[Tuple[str, Row]], List[Tuple[str, Row]]]:
    """Hold out a fraction of the rows. Which these are depends on the seed and the rows, not on their order.

    Equal prompts are on the same side. Raises InputError if one side would be empty.
    """
    wanted = min(round(len(rows) * fraction), most)
    if fraction == 0 or most == 0:
        return rows, []
    ranked = sorted(((_rank(row, seed), place, row) for place, row in rows), key=lambda entry: entry[0])
    cut = max(wanted, 1)
    while cut < len(ranked) and ranked[cut][0] == ranked[cut - 1][0]:
        cut += 1
    if cut >= len(ranked):
        raise InputError(f"{len(ranked)} rows are too few to hold out {fraction} of them; set data.held_out to 0 or bind more rows")
    held_out = {place for _, place, _ in ranked[:cut]}
    return [row for row in rows if row[0] not in held_out], [row for row in rows if row[0] in held_out]


def converted(rows: Iterable[Tuple[str, Row]], convert: Convert) -> List[Row]:
    """Convert the rows. All must have the same members. Raises InputError with the place of the first invalid row."""
    found: List[Row] = []
    for place, row in rows:
        try:
            fresh = convert(row)
        except (KeyError, TypeError, ValueError) as err:
            raise InputError(f"{place}: {err}") from None
        if found and fresh and _shape(fresh[0]) != _shape(found[0]):
            raise InputError(f"{place}: the row has another form than the rows before it; all must have the same")
        found.extend(fresh)
    return found


def sft(row: Mapping[str, Any]) -> List[Row]:
    """Convert a row of supervised fine-tuning to {"prompt", "completion"} or {"text"}.

    A conversation becomes one row for each message of the assistant, whose prompt is what came before.
    """
    if "messages" in row:
        turns = messages(row["messages"], "messages")
        replies = [i for i, turn in enumerate(turns) if turn["role"] == "assistant" and i > 0]
        if not replies:
            raise ValueError("'messages' has no message of the assistant after the first message")
        return [{"prompt": turns[:i], "completion": turns[i : i + 1]} for i in replies]
    if "question" in row:
        return [{"prompt": user(row["question"], "question"), "completion": assistant(row.get("answer"), "answer")}]
    if "prompt" in row and "completion" in row:
        prompt = prompted(row["prompt"])
        return [{"prompt": prompt, "completion": _reply(row["completion"], prompt, "completion")}]
    if "text" in row:
        return [{"text": text(row["text"], "text")}]
    raise ValueError(f"the row must be {SFT_FORMS}; it has {', '.join(sorted(row)) or 'nothing'}")


def preference(row: Mapping[str, Any]) -> List[Row]:
    """Convert a row of preference training to {"prompt", "chosen", "rejected"}."""
    for name in ("chosen", "rejected"):
        if name not in row:
            raise ValueError(f"the row must have 'prompt', 'chosen' and 'rejected'; it has no {name!r}")
    if "question" in row:
        prompt: Any = user(row["question"], "question")
    elif "prompt" in row:
        prompt = prompted(row["prompt"])
    else:  # both are whole conversations with the same beginning
        chosen, rejected = messages(row["chosen"], "chosen"), messages(row["rejected"], "rejected")
        if len(chosen) < 2 or chosen[:-1] != rejected[:-1]:
            raise ValueError("without 'prompt', 'chosen' and 'rejected' must be conversations that differ in the last message only")
        return [{"prompt": chosen[:-1], "chosen": chosen[-1:], "rejected": rejected[-1:]}]
    return [{"prompt": prompt, **{name: _reply(row[name], prompt, name) for name in ("chosen", "rejected")}}]


def rewarded(row: Mapping[str, Any]) -> List[Row]:
    """Convert a row of reinforcement learning to {"prompt", "answer"}, with which the reward compares."""
    answer = row.get("answer", "")
    if "question" in row:
        return [{"prompt": user(row["question"], "question"), "answer": str(answer)}]
    if "prompt" in row:
        return [{"prompt": prompted(row["prompt"]), "answer": str(answer)}]
    raise ValueError(f"the row must be {REWARD_FORMS}; it has {', '.join(sorted(row)) or 'nothing'}")


def messages(value: Any, name: str) -> List[Row]:
    """Return a list of messages, each {"role", "content"}. Raises ValueError."""
    if not isinstance(value, list) or not value:
        raise ValueError(f"'{name}' must be a non-empty list of messages")
    for turn in value:
        if not isinstance(turn, dict) or not isinstance(turn.get("role"), str) or not isinstance(turn.get("content"), str):
            raise ValueError(f"'{name}': each message must be an object with the texts 'role' and 'content'")
    return [{"role": turn["role"], "content": turn["content"]} for turn in value]


def text(value: Any, name: str) -> str:
    """Return a text that is not empty. Raises ValueError."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"'{name}' must be a text that is not empty")
    return value


def user(value: Any, name: str) -> List[Row]:
    """Return a text as a message of the user."""
    return [{"role": "user", "content": text(value, name)}]


def assistant(value: Any, name: str) -> List[Row]:
    """Return a text as a message of the assistant."""
    return [{"role": "assistant", "content": text(value, name)}]


def prompted(value: Any) -> Any:
    """Return a prompt: a text, which gets no chat template, or messages."""
    return text(value, "prompt") if isinstance(value, str) else messages(value, "prompt")


def is_chat(rows: List[Row]) -> bool:
    """Return whether the prompts of the rows are messages, which need a chat template."""
    return bool(rows) and isinstance(rows[0].get("prompt"), list)


def last(value: Any) -> str:
    """Return the text of a completion: itself, or the content of its last message."""
    return str(value[-1]["content"]) if isinstance(value, list) else str(value)


def shown(prompt: Any) -> str:
    """Return a prompt as the console shows it: its only message, or all with their roles."""
    if isinstance(prompt, str):
        return prompt
    if len(prompt) == 1:
        return str(prompt[0]["content"])
    return "\n".join(f"{turn['role']}: {turn['content']}" for turn in prompt)


def _reply(value: Any, prompt: Any, name: str) -> Any:
    """Return a completion in the form of its prompt."""
    if isinstance(prompt, str):
        return text(value, name)
    return assistant(value, name) if isinstance(value, str) else messages(value, name)


def _shape(row: Mapping[str, Any]) -> List[Tuple[str, bool]]:
    return sorted((name, isinstance(value, list)) for name, value in row.items())


def _rank(row: Mapping[str, Any], seed: int) -> bytes:
    """Return the hash that decides whether the row is held out, of its prompt or of the whole row."""
    prompt = row.get("question", row.get("prompt", row))
    named = json.dumps(prompt, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(f"{seed}\n{named}".encode("utf-8", "backslashreplace")).digest()


def _parse(line: bytes, place: str) -> Row:
    try:
        value = json.loads(line.decode("utf-8"))
    except UnicodeDecodeError:
        raise InputError(f"{place}: the row is not UTF-8") from None
    except ValueError as err:
        raise InputError(f"{place}: the row is not JSON: {err}") from None
    if not isinstance(value, dict):
        raise InputError(f"{place}: a row must be a JSON object")
    return value

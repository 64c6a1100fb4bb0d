"""llama.cpp serves the exported GGUF and must return the same text as decoding with numpy."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from conftest import RecordingRun, drawn
from engine import LAUNCHER, Engine, serving

from chat_tiny import chat, data, export_hf, generate, inputs, settings, train
from chat_tiny.transformer import Transformer

# If the difference between the two highest logits is smaller than this, rounding may decide between the tokens.
TIE = 1e-3
LIMIT = 8


class Trained:
    """A partly trained model, which gives many correct and many wrong answers."""

    def __init__(self, folder: Path, dataset: Path, **hparams: int | float) -> None:
        self.run = RecordingRun()
        job = inputs.Inputs(settings.resolve(hparams), dataset, None, folder)
        trainer = train.Trainer(self.run, job)
        self.score = trainer.train()
        self.held_out = trainer.held_out
        self.model: Transformer = trainer.model
        self.first_gguf, self.gguf = (event[4] for event in self.run.of("artifact") if event[3] == "gguf")
        self.hf = folder / "export" / "hf"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, additions) -> Trained:
    steps = {"train.max_steps": 300, "val.every_steps": 300, "train.max_seconds": 600}
    return Trained(tmp_path_factory.mktemp("half"), additions(2, 4000), **steps)


@pytest.fixture(scope="module")
def engine(trained: Trained, tmp_path_factory: pytest.TempPathFactory):
    with serving(trained.gguf, tmp_path_factory.mktemp("engine"), "--exact") as running:
        yield running


def disagreements(
    model: Transformer, rows: list[data.Row], engine: Engine, sent: list[data.Row] | None = None
) -> tuple[list[str], list[str]]:
    """Return the questions to which numpy and the engine give different answers, and the ties.

    A tie is a question for which rounding may decide the answer. The engine gets only
    the questions of `sent`, or all questions if it is None.
    """
    questions = {row.question for row in (rows if sent is None else sent)}
    differing, ties = [], []
    answers = generate.greedy(model, [chat.prompt_ids(row.question) for row in rows], LIMIT)
    for row, answer in zip(rows, answers):
        if answer.margin < TIE:
            ties.append(f"{row.question} (margin {answer.margin:.1e})")
        elif row.question in questions and (text := engine.answer(row.question, LIMIT)) != answer.text:
            differing.append(f"{row.question} numpy {answer.text!r} engine {text!r}")
    return differing, ties


def test_engine_agrees_with_numpy_on_held_out_pairs(trained: Trained, engine: Engine) -> None:
    assert 0.02 < trained.score < 1, "the model must give correct and wrong answers"
    differing, ties = disagreements(trained.model, trained.held_out, engine, drawn(trained.held_out, 200))
    print(f"{len(trained.held_out)} held-out pairs, exact match {trained.score:.3f}, ties: {ties}")
    assert differing == []
    assert len(ties) <= len(trained.held_out) // 50


def test_comparison_detects_changed_weights(trained: Trained, engine: Engine) -> None:
    """The comparison fails for a model with one changed tensor."""
    other = Transformer(trained.model.config, export_hf.read(trained.hf))
    other.params["model.layers.1.self_attn.q_proj.weight"][:] *= -1
    differing, _ = disagreements(other, trained.held_out[:100], engine)
    assert len(differing) > 10


def test_engine_prompt_has_the_tokens_of_training(engine: Engine) -> None:
    for question in ("07+15?", "Grüße, 世界 \u2028 <b>", "two\nlines\tand  spaces "):
        turn = {"messages": [{"role": "user", "content": question}]}
        prompt = engine.call("/apply-template", turn)["prompt"]
        tokens = engine.call("/tokenize", {"content": prompt, "parse_special": True, "add_special": True})["tokens"]
        assert tokens == chat.prompt_ids(question)


def test_untrained_model_gives_no_correct_answer(trained: Trained, tmp_path: Path) -> None:
    with serving(trained.first_gguf, tmp_path, "--exact") as untrained:
        answers = [untrained.answer(row.question, LIMIT) for row in trained.held_out[:40]]
    assert all(answer != row.answer for answer, row in zip(answers, trained.held_out))


def test_launcher_interface(engine: Engine) -> None:
    assert engine.call("/v1/models")["data"][0]["id"] == "default"
    assert engine.call("/health", key="")["status"] == "ok"
    for path, body in (("/v1/models", None), ("/v1/chat/completions", {"messages": []})):
        with pytest.raises(urllib.error.HTTPError) as refused:
            engine.call(path, body, key="wrong")
        assert refused.value.code == 401
    request = urllib.request.Request(engine.address + "/metrics", headers={"Authorization": "Bearer a-key-of-the-test"})
    with urllib.request.urlopen(request, timeout=10) as response:
        assert b"llamacpp:prompt_tokens_total" in response.read()


def test_embeddings_and_llamacpp_option_names(trained: Trained, engine: Engine, tmp_path: Path) -> None:
    flags = ["-c", "128", "-np", "1", "--batch-size", "64", "--ubatch-size", "64", "--n-gpu-layers", "0"]
    with serving(trained.gguf, tmp_path, "--embeddings", *flags) as running:
        vectors = running.call("/v1/embeddings", {"model": "default", "input": ["1+2=", "3+4="]})["data"]
        assert [len(set(v["embedding"])) > 1 for v in vectors] == [True, True]
    with pytest.raises(urllib.error.HTTPError) as refused:
        engine.call("/v1/embeddings", {"model": "default", "input": "1+2="})
    assert refused.value.code == 501
    with serving(trained.gguf, tmp_path, "--embeddings", "--pooling", "last") as other:
        last = other.call("/v1/embeddings", {"model": "default", "input": "1+2="})["data"][0]["embedding"]
    assert last != vectors[0]["embedding"], "the pooling has an effect"


@pytest.mark.parametrize(
    ("flags", "status", "words"),
    [
        (["--model", "{absent}"], 2, "absent does not exist"),
        (["--model", "{junk}"], 1, "the engine did not start"),
        (["--model", "{junk}", "--exact", "--parallel", "2"], 2, "--exact needs exactly one slot"),
        (["--model", "{junk}", "--api-key-file", "{absent}"], 1, "cannot read the key file"),
        (["--model", "{junk}", "--api-key-file", "{empty}"], 1, "the key file is empty"),
    ],
)
def test_launcher_error_names_the_problem(tmp_path: Path, flags: list[str], status: int, words: str) -> None:
    (tmp_path / "junk").write_text("junk")
    (tmp_path / "empty").write_text("\n")
    filled = [flag.format(absent=tmp_path / "absent", junk=tmp_path / "junk", empty=tmp_path / "empty") for flag in flags]
    ended = subprocess.run([sys.executable, str(LAUNCHER), *filled], capture_output=True, text=True, timeout=30)
    assert (ended.returncode, words in ended.stderr) == (status, True), ended.stderr

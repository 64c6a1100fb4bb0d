"""Train with the recipes sft/lora, sft/full, pref/dpo and rl/grpo on a CPU.

They need the packages of recipes/sft/lora/requirements.lock, pytest and xllamacpp, and take about two minutes:

    OMP_NUM_THREADS=1 python -m pytest -q test_training.py
"""

from __future__ import annotations

import json
from pathlib import Path
from unittest import mock

import harness
import pytest
import tiny_base
import torch
import toys
from engine import serving
from harness import Result
from signalbox import hf

STEP = {"train.batch": 8, "train.accumulate": 2, "val.every_steps": 40, "val.max_tokens": 8, "data.held_out": 0.2}
FAST = {"train.gradient_checkpointing": False, "val.max_tokens": 8, "data.held_out": 0.2}
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt")


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny base model. All tests compute with one thread, so that sums have one order."""
    torch.set_num_threads(1)
    return tiny_base.make(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="session")
def guessing(base: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that completes each question with one of four colors, at random."""
    folder = tmp_path_factory.mktemp("guessing")
    rows = toys.write(folder / "rows", toys.guesses())
    hparams = {**FAST, "train.max_steps": 100, "train.batch": 32, "train.accumulate": 1, "optim.lr": 3e-3, "val.every_steps": 0}
    result = harness.run("sft/full", folder / "run", base, rows, hparams)
    assert (result.status, result.rounds(), result.curve("val/loss")) == (0, [], {})
    return folder / "run" / "export" / "model"


def resumed(recipe: str, folder: Path, model: Path, rows: Path, hparams: dict, at: int, until: int = 0) -> tuple[Result, Result]:
    """Pause an attempt soon after the step `at`, continue it in another one, and return both."""
    paused = harness.run(recipe, folder / "paused", model, rows, hparams, pause_at=at)
    assert (paused.status, paused.events()) == (0, ["starting", "running"])
    assert paused.artifacts() == [("checkpoint", "transformers")]
    (checkpoint,) = (folder / "paused" / "checkpoints").glob("checkpoint-*")
    again = {**hparams, **({"train.max_steps": until} if until else {})}
    continued = harness.run(recipe, folder / "continued", model, rows, again, resume_from=checkpoint)
    assert (continued.status, continued.events()[-1]) == (0, "succeeded")
    return paused, continued


def same_losses(whole: Result, paused: Result, continued: Result) -> None:
    """Require that each loss of both attempts is that of the uninterrupted run."""
    for key in ("train/loss", "val/loss", "train/reward"):
        both = {**paused.curve(key), **continued.curve(key)}
        want = {step: value for step, value in whole.curve(key).items() if step <= max(both, default=0)}
        assert both.keys() == want.keys(), key
        apart = max((abs(both[step] - want[step]) for step in want), default=0.0)
        print(f"largest difference of {key} after a pause: {apart:.1e} in {len(want)} values")
        assert apart <= 1e-6, key


def logits(model, tokenizer, question: str) -> torch.Tensor:  # noqa: ANN001
    """Return the logits of the last token of a prompt."""
    ids = hf.prompt_ids(tokenizer, [{"role": "user", "content": question}])
    with torch.no_grad():
        return model.eval()(torch.tensor([ids])).logits[0, -1]


def test_sft_full(base: Path, tmp_path: Path) -> None:
    rows = toys.write(tmp_path / "rows", toys.colors())
    hparams = {**STEP, "train.max_steps": 40, "optim.lr": 3e-3, "checkpoint.every_steps": 20}
    whole = harness.run("sft/full", tmp_path / "whole", base, rows, hparams)
    losses = whole.curve("train/loss")
    assert (losses[1] > 4, losses[40] < 0.5) == (True, True), losses
    assert list(whole.curve("val/loss")) == [0, 40]
    assert whole.artifacts() == [("checkpoint", "transformers"), ("merged_model", "safetensors")]
    assert not [file for file in (tmp_path / "whole" / "export").rglob("*") if file.suffix in PICKLES]
    paused, continued = resumed("sft/full", tmp_path, base, rows, {**hparams, "checkpoint.every_steps": 0}, at=17)
    same_losses(whole, paused, continued)
    first, *_, last = whole.rounds()
    assert (first["step"], last["step"]) == (0, 40)
    assert set(last["samples"][0]) == {"user", "assistant", "env", "reward"}


def test_sft_lora(base: Path, tmp_path: Path) -> None:
    rows = toys.write(tmp_path / "rows", toys.colors())
    hparams = {**STEP, **FAST, "train.batch": 16, "train.accumulate": 1, "train.max_steps": 80, "optim.lr": 6e-3}
    hparams.update({"export.merge": True, "export.gguf": "f32"})
    trained, export = [], hf.export

    def watched(run, job, trainer, tokenizer) -> None:  # noqa: ANN001
        trained.append(logits(trainer.model, tokenizer, "color 7?"))
        export(run, job, trainer, tokenizer)

    with mock.patch.object(hf, "export", watched):
        whole = harness.run("sft/lora", tmp_path / "whole", base, rows, hparams)
    losses = whole.curve("train/loss")
    assert (losses[1] > 4, losses[80] < 0.5) == (True, True), losses
    exported = tmp_path / "whole" / "export"
    assert whole.artifacts() == [("hf_export", "peft"), ("merged_model", "safetensors"), ("merged_model", "gguf")]
    assert not [file for file in exported.rglob("*") if file.suffix in PICKLES]
    adapter_and_merged(base, exported, trained[0])
    same_text_of_engine(exported)
    # The learning rate depends on the last step, so both attempts have it.
    paused, continued = resumed("sft/lora", tmp_path, base, rows, hparams, at=65)
    same_losses(whole, paused, continued)


def adapter_and_merged(base: Path, exported: Path, trained: torch.Tensor) -> None:
    """Load what was exported without Signalbox and compare the logits."""
    from peft import PeftModel
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(exported / "adapter")
    adapted = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(base), exported / "adapter")
    merged = AutoModelForCausalLM.from_pretrained(exported / "model")
    apart = [float((logits(model, tokenizer, "color 7?") - trained).abs().max()) for model in (adapted, merged)]
    print(f"largest difference of logits: adapter {apart[0]:.1e}, merged {apart[1]:.1e}")
    assert max(apart) < 1e-4
    config = json.loads((exported / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] == "mdl/test/base@1"


def same_text_of_engine(exported: Path) -> None:
    """Require that llama.cpp returns the text of transformers for 20 prompts, and that no step of either was close."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(exported / "model")
    model = AutoModelForCausalLM.from_pretrained(exported / "model").eval()
    margin = float("inf")
    with serving(exported / "model-f32.gguf", exported.parent, "--exact") as engine:
        for number in range(20):
            prompt = [{"role": "user", "content": f"color {number}?"}]
            ids = torch.tensor([hf.prompt_ids(tokenizer, prompt)])
            found = model.generate(ids, max_new_tokens=8, do_sample=False, output_scores=True, return_dict_in_generate=True)
            for scores in found.scores:
                first, second = scores[0].topk(2).values
                margin = min(margin, float(first - second))
            text = tokenizer.decode(found.sequences[0][ids.shape[1] :], skip_special_tokens=True)
            assert engine.answer(prompt[0]["content"], 8) == text
    print(f"smallest margin {margin:.3f}")
    assert margin > 0.1


def test_pref_dpo(guessing: Path, tmp_path: Path) -> None:
    rows = toys.write(tmp_path / "rows", toys.preferences())
    hparams = {**FAST, "train.batch": 16, "train.accumulate": 1, "train.max_steps": 24, "optim.lr": 6e-3, "val.every_steps": 12}
    whole = harness.run("pref/dpo", tmp_path / "whole", guessing, rows, hparams)
    losses, accuracies = whole.curve("train/loss"), whole.curve("val/rewards/accuracies")
    assert abs(losses[1] - 0.6931) < 0.01 and losses[24] < 0.4, losses
    assert accuracies[24] > 0.7, accuracies
    assert whole.artifacts() == [("hf_export", "peft")]
    paused, continued = resumed("pref/dpo", tmp_path, guessing, rows, hparams, at=13)
    same_losses(whole, paused, continued)


def test_rl_grpo(guessing: Path, tmp_path: Path) -> None:
    rows = toys.write(tmp_path / "rows", toys.things())
    hparams = {**FAST, "train.max_steps": 50, "train.batch": 64, "optim.lr": 2.5e-3, "grpo.max_tokens": 6, "val.every_steps": 50}
    whole = harness.run("rl/grpo", tmp_path / "whole", guessing, rows, hparams)
    rewards = list(whole.curve("train/reward").values())
    assert sum(rewards[:3]) / 3 < 0.4, rewards
    assert sum(rewards[-5:]) / 5 > 0.9, rewards
    assert list(whole.curve("val/reward")) == [0, 50]
    # Paused in the second epoch. The learning rate is constant, so the attempts need not reach the last step.
    paused, continued = resumed("rl/grpo", tmp_path, guessing, rows, hparams, at=9, until=14)
    same_losses(whole, paused, continued)


def test_rl_grpo_saves_where_completions_end(guessing: Path, tmp_path: Path) -> None:
    rows = toys.write(tmp_path / "rows", toys.things())
    hparams = {**FAST, "train.max_steps": 9, "train.batch": 16, "grpo.max_tokens": 4, "grpo.iterations": 3, "val.every_steps": 0}
    whole = harness.run("rl/grpo", tmp_path / "whole", guessing, rows, hparams)
    paused, continued = resumed("rl/grpo", tmp_path, guessing, rows, hparams, at=3)
    assert list(paused.curve("train/loss"))[-1] == 6, "the step at which the next completions would be generated"
    assert whole.rounds() == [], "val.every_steps is 0"
    same_losses(whole, paused, continued)


@pytest.mark.parametrize(
    ("recipe", "hparams", "message"),
    [
        ("rl/grpo", {"train.batch": 6}, "not a multiple of grpo.generations = 8"),
        ("sft/lora", {"model.dtype": "bfloat16"}, "needs a GPU"),
        ("sft/lora", {"data.held_out": 0.9999}, "data.held_out must be from 0 to 0.9"),
    ],
)
def test_invalid_inputs(
    base: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str], recipe: str, hparams: dict, message: str
) -> None:
    rows = toys.write(tmp_path / "rows", toys.colors())
    result = harness.run(recipe, tmp_path / "run", base, rows, hparams)
    assert (result.status, result.events()[-1]) == (2, "failed")
    assert message in capfd.readouterr().err


def test_precision_of_a_gpu(tmp_path: Path) -> None:
    from signalbox.hf import models

    def job(dtype: str) -> hf.Job:
        return hf.Job(hparams={"model.dtype": dtype}, datasets={}, model=tmp_path, model_ref="base", workdir=tmp_path)

    native = False

    def supported(including_emulation: bool = True) -> bool:
        return native or including_emulation

    cuda = mock.patch.multiple(torch.cuda, is_available=lambda: True, is_bf16_supported=supported)
    with cuda:
        assert models.precision(job("auto")) == (torch.float32, False)
        with pytest.raises(hf.InputError, match="needs a GPU that supports it"):
            models.precision(job("bfloat16"))
        native = True
        assert models.precision(job("auto")) == models.precision(job("bfloat16")) == (torch.bfloat16, True)
        assert models.precision(job("float32")) == (torch.float32, False)


def test_models_that_cannot_be_exported(base: Path, tmp_path: Path) -> None:
    from signalbox.hf import gguf_file
    from tokenizers import pre_tokenizers
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(base)
    config = json.loads((base / "config.json").read_text())
    cases = {
        "the architecture gemma3": {"model_type": "gemma3"},
        "rope_type yarn": {"rope_parameters": {"rope_type": "yarn"}},
        "sliding window": {"use_sliding_window": True},
    }
    for message, change in cases.items():
        (tmp_path / "config.json").write_text(json.dumps({**config, **change}))
        with pytest.raises(hf.InputError, match=message):
            gguf_file.check(tmp_path, tokenizer)
    (tmp_path / "config.json").write_text(json.dumps(config))
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Digits()
    with pytest.raises(hf.InputError, match="only byte-level BPE"):
        gguf_file.check(tmp_path, tokenizer)
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()])
    with pytest.raises(hf.InputError, match="splits texts by a rule that is not supported"):
        gguf_file.check(tmp_path, tokenizer)

"""Export what was trained: the adapter, the whole model in the Hugging Face layout, and GGUF."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import signalbox

from . import gguf_file
from .inputs import Job

ADAPTER, MODEL = "peft", "safetensors"  # formats of the artifacts


def check(job: Job, tokenizer: Any) -> None:
    """Raise InputError if the model cannot be written as GGUF although `export.gguf` requests it.

    Call it before the training, so that the time of a training is not spent on a model that cannot be exported.
    """
    if job["export.gguf"] != gguf_file.NONE:
        gguf_file.check(job.model, tokenizer)


def export(run: "signalbox.Run", job: Job, trainer: Any, tokenizer: Any) -> None:
    """Export the trained model of a trainer as artifacts. Only the first process does so.

    An adapter is an `hf_export` with format `peft`. The whole model is a `merged_model` with format `safetensors`: with
    `export.merge` that of an adapter merged into its base, always if all weights were trained. With `export.gguf` the
    whole model is also one file, a `merged_model` with format `gguf`. Files that are pickles, such as the state of the
    optimizer, are parts of checkpoints only.
    """
    if not trainer.is_world_process_zero():
        return
    step, root = trainer.state.global_step, job.workdir / "export"
    shutil.rmtree(root, ignore_errors=True)  # what an interrupted attempt may have left
    model = trainer.accelerator.unwrap_model(trainer.model)
    whole = True
    if hasattr(model, "peft_config"):
        _save_adapter(model, job, root / "adapter", tokenizer)
        run.artifact(root / "adapter", kind="hf_export", format=ADAPTER, step=step)
        whole = job["export.merge"]
        if not whole and job["export.gguf"] == gguf_file.NONE:
            return
        model = model.merge_and_unload()
    _save_model(model, job, root / "model", tokenizer)
    if whole:
        run.artifact(root / "model", kind="merged_model", format=MODEL, step=step)
    if job["export.gguf"] != gguf_file.NONE:
        file = root / f"model-{job['export.gguf']}.gguf"
        gguf_file.write(root / "model", file, job["export.gguf"], name=job.model_ref)
        run.artifact(file, kind="merged_model", format="gguf", step=step)


def _save_adapter(model: Any, job: Job, folder: Path, tokenizer: Any) -> None:
    """Write the adapter. Its configuration names the base by its reference, not by the path on this machine."""
    model.save_pretrained(str(folder), safe_serialization=True)
    tokenizer.save_pretrained(str(folder))
    (folder / "README.md").unlink(missing_ok=True)  # a template with nothing filled in
    file = folder / "adapter_config.json"
    config = json.loads(file.read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = job.model_ref
    file.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", encoding="utf-8")


def _save_model(model: Any, job: Job, folder: Path, tokenizer: Any) -> None:
    """Write the whole model with the dtype that its base has on disk."""
    from transformers import AutoConfig

    stored = AutoConfig.from_pretrained(str(job.model)).dtype
    if stored is not None:
        model = model.to(stored)
    model.config.use_cache = True  # gradient checkpointing may have turned it off
    model.save_pretrained(str(folder))
    tokenizer.save_pretrained(str(folder))

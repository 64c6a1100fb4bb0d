"""The base model, its tokenizer, and the arguments that all trainings share."""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, NamedTuple, Type

from .inputs import InputError, Job
from .rows import Row, is_chat


class Precision(NamedTuple):
    """How the weights are kept and computed with."""

    weights: Any  # the dtype of the weights that are not trained
    mixed: bool  # whether the forward pass is computed in bfloat16


def precision(job: Job) -> Precision:
    """Return the precision that `model.dtype` requests.

    "auto" is bfloat16 on a GPU that supports it, otherwise float32. Weights that are trained are always kept in float32,
    because small updates of bfloat16 weights are lost.
    """
    import torch

    # PyTorch can emulate bfloat16 on GPUs before Ampere, which have no instructions for it.
    able = torch.cuda.is_available() and torch.cuda.is_bf16_supported(including_emulation=False)
    wanted = job["model.dtype"]
    if wanted == "bfloat16" and not able:
        raise InputError("model.dtype bfloat16 needs a GPU that supports it; use auto or float32")
    mixed = able and wanted in ("auto", "bfloat16")
    return Precision(torch.bfloat16 if mixed else torch.float32, mixed)


def load_model(job: Job, frozen: bool) -> Any:
    """Load the bound model. `frozen` states that its own weights are not trained, but those of an adapter.

    Only safetensors are read, and no code of the model's folder is run.
    """
    import torch
    from transformers import AutoModelForCausalLM

    dtype = precision(job).weights if frozen else torch.float32
    try:
        return AutoModelForCausalLM.from_pretrained(str(job.model), dtype=dtype, use_safetensors=True)
    except (OSError, ValueError) as err:
        raise InputError(f"the model {job.model_ref} cannot be loaded: {err}") from None


def load_tokenizer(job: Job, rows: List[Row]) -> Any:
    """Load the tokenizer of the bound model. Raises InputError if the rows need a chat template that it does not have."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(str(job.model))
    except (OSError, ValueError) as err:
        raise InputError(f"the tokenizer of {job.model_ref} cannot be loaded: {err}") from None
    if is_chat(rows) and not tokenizer.chat_template:
        raise InputError(
            f"the rows are messages, and the tokenizer of {job.model_ref} has no chat template; bind a model with one, "
            'or use rows {"prompt", "completion"} with texts'
        )
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def lora(job: Job) -> Any:
    """Return the configuration of the adapter, or None if `lora.r` is 0, which trains all weights."""
    if job["lora.r"] == 0:
        return None
    from peft import LoraConfig

    target = job["lora.target_modules"]
    return LoraConfig(
        r=job["lora.r"],
        lora_alpha=job["lora.alpha"],
        lora_dropout=job["lora.dropout"],
        target_modules=target if target == "all-linear" else [name.strip() for name in target.split(",")],
        task_type="CAUSAL_LM",
    )


def arguments(job: Job, kind: Type[Any], **more: Any) -> Any:
    """Return the arguments of a trainer: an object of `kind`, such as SFTConfig, with what all trainings share."""
    import torch

    gpu = torch.cuda.is_available()
    shared: Dict[str, Any] = {
        "output_dir": str(job.workdir / "checkpoints"),
        "seed": job["train.seed"],
        "learning_rate": job["optim.lr"],
        "lr_scheduler_type": job["optim.schedule"],
        "warmup_steps": job["optim.warmup_steps"],
        "weight_decay": job["optim.weight_decay"],
        "max_grad_norm": job["optim.clip"],
        "num_train_epochs": job["train.epochs"],
        "max_steps": job["train.max_steps"] or -1,
        "per_device_train_batch_size": job["train.batch"],
        "per_device_eval_batch_size": job["train.batch"],
        "gradient_accumulation_steps": job["train.accumulate"],
        "gradient_checkpointing": job["train.gradient_checkpointing"],
        "bf16": precision(job).mixed,
        "use_cpu": not gpu,
        "dataloader_pin_memory": gpu,
        # Each step is logged, so that a resumed run logs the same values. Callback decides when to save and to evaluate.
        "logging_steps": 1,
        "save_strategy": "no",
        "eval_strategy": "no",
        "save_total_limit": 1,
        "prediction_loss_only": True,
        "report_to": "none",
        "disable_tqdm": True,
    }
    return kind(**{**shared, **more})


def dataset(rows: List[Mapping[str, Any]]) -> Any:
    """Return rows as a Dataset in memory, or None if there are no rows."""
    from datasets import Dataset

    return Dataset.from_list([dict(row) for row in rows]) if rows else None

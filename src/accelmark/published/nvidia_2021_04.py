"""NVIDIA's Data Center Deep Learning Product Performance of April 2021: 525 rows of 12 tables.

The tables are in `nvidia_2021_04_tables/`, one file for each kind of table on the page, figures and
spellings as printed. A row's id is the set's name and its line on the page. Here every row becomes a Record:
names become canonical, each fact gets its field, and what the page's footnotes say of a row becomes part of
it (`nvidia_2021_04_footnotes`). No figure is changed.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Callable, Iterator, Mapping
from importlib import resources
from typing import Any

from accelmark import names
from accelmark.job import Job, Scalar
from accelmark.published.nvidia_2021_04_footnotes import Notes
from accelmark.record import Latency, Metrics, Origin, Quality, Quantity, Record, Source, Status, Throughput
from accelmark.system import Accelerator, Software, System

NAME = "nvidia-2021-04"
PAGE = "Data Center Deep Learning Product Performance, NVIDIA, 2021-04-21"
Row = Mapping[str, str]

#: Which network a printed name means, by kind of table: the same word means different networks.
TRAINING = {
    "ResNet-50 v1.5": "resnet50-v1.5",
    "ResNeXt101": "resnext101-32x4d",
    "ResNext101": "resnext101-32x4d",
    "SE-ResNeXt101": "se-resnext101-32x4d",
    "SE-ResNext101": "se-resnext101-32x4d",
    "EfficientNet-B4": "efficientnet-b4",
    "SSD v1.1": "ssd300-resnet50",
    # In TensorFlow: NVIDIA's example of that framework is another network than its PyTorch one.
    "SSD": "ssd320-resnet50-fpn",
    "Mask R-CNN": "mask-rcnn-r50-fpn",
    "U-Net Industrial": "unet-industrial",
    "U-Net Medical": "unet-medical",
    "BERT-LARGE": "bert-large",
    "BERT-Large Pre-Training P1": "bert-large",
    "BERT-Large Pre-Training P2": "bert-large",
    "BERT-Large Pre-Training E2E": "bert-large",
    "Electra Fine Tuning": "electra-base",
    "Electra Fine-Tuning": "electra-base",
    "Transformer-XL Base": "transformer-xl-base",
    "Transformer XL Base": "transformer-xl-base",
    "Transformer-XL Large": "transformer-xl-large",
    "Transformer": "transformer-big",
    "GNMT V2": "gnmt-v2",
    "Tacotron2": "tacotron2",
    "WaveGlow": "waveglow",
    "FastPitch": "fastpitch",
    "Jasper": "jasper-10x5dr",
    "NCF": "ncf",
    "VAE-CF": "vae-cf",
    "Wide and Deep": "wide-and-deep",
}
MLPERF_TRAINING = {
    "ResNet-50 v1.5": "resnet50-v1.5",
    "SSD": "ssd300-resnet34",
    "Mask R-CNN": "mask-rcnn-r50-fpn",
    "BERT": "bert-large",
    "Transformer": "transformer-big",
    "GNMT": "gnmt-v2",
    "DLRM": "dlrm",
    "MiniGo": "minigo",
}
MLPERF_INFERENCE = {
    "ResNet-50 v1.5": "resnet50-v1.5",
    "SSD ResNet-34": "ssd-resnet34-1200",
    "3D-UNet": "unet-3d",
    "BERT": "bert-large",
    "RNN-T": "rnnt",
    "DLRM": "dlrm",
}
INFERENCE = {
    "ResNet-50": "resnet50-v1",
    "ResNet-50v1.5": "resnet50-v1.5",
    "ResNext101": "resnext101-32x4d",
    "EfficientNet-B0": "efficientnet-b0",
    "BERT-BASE": "bert-base",
    "BERT-LARGE": "bert-large",
    "BERT-Large with Sparsity": "bert-large-sparse",
}
SERVICES = {
    "ResNet-50 V1.5 Inference": "resnet50-v1.5",
    "BERT Large Inference": "bert-large",
    "DLRM Inference": "dlrm",
    "Jasper": "jasper-10x5dr",
    "Quartznet": "quartznet-15x5",
    "BERT-base": "bert-base",
    "BERT-large": "bert-large",
    "": "text-to-speech",
}
#: What a network with several uses does in a row.
TASKS = {
    "BERT-LARGE": "squad",
    "BERT-Large Pre-Training P1": "pre-training-phase-1",
    "BERT-Large Pre-Training P2": "pre-training-phase-2",
    "BERT-Large Pre-Training E2E": "pre-training",
    "Electra Fine Tuning": "squad",
    "Electra Fine-Tuning": "squad",
}
QUESTIONS = "question-answering"
SERVICE_TASKS = {"Q&A": QUESTIONS, "NER": "named-entity-recognition"}

#: The page's words for a quality metric, where the field has one name for several of them.
METRICS = {
    "Top 1 Accuracy": "top-1 accuracy, %",
    "Top 1": "top-1 accuracy, %",
    "Top1": "top-1 accuracy, %",
    "classification": "top-1 accuracy, %",
    "Training Loss": "training loss",
    "Final Loss": "final loss",
    "BLEU Score": "BLEU",
    "Sacre BLEU": "sacreBLEU",
    "Hit Rate at 10": "hit rate at 10",
    "f1": "F1",
    "Perplexity": "perplexity",
    "IoU Threshold": "IoU",
    "IoU Threshold 0.95": "IoU at threshold 0.95",
    "DICE Score": "DICE",
    "DICE mean": "mean DICE",
    "Mask-LM accuracy": "masked-LM accuracy",
    "Box min AP": "box AP",
    "Mask min AP": "mask AP",
    "win rate vs. checkpoint": "win rate against checkpoint",
    "": "not named",
}


def read() -> list[Record]:
    """All rows as Records, in the order of the page."""
    records = [reader(row) for table, reader in _READERS.items() for row in _rows(table)]
    return sorted(records, key=lambda record: int(record.id.rpartition("/")[2]))


def _rows(table: str) -> Iterator[dict[str, str]]:
    folder = resources.files("accelmark.published").joinpath("nvidia_2021_04_tables")
    text = folder.joinpath(f"{table}.csv").read_text(encoding="utf-8")
    yield from csv.DictReader(text.splitlines())


def _record(row: Row, job: dict[str, Any], metrics: dict[str, Any], engine: str | None = None) -> Record:
    """A row as a Record, with what the footnotes say of it. `job` and `metrics` are what the table adds."""
    notes = _notes().of(row)
    count = int(row.get("gpu_count") or 1)
    partition = job.pop("partition", None)
    partition = notes.partition or partition
    parameters: dict[str, Scalar] = {**job.pop("parameters", {}), **notes.parameters}
    batch_size = notes.batch_size(count) or _whole(row.get("batch_size"))
    board = names.board(row["gpu_version"])
    if metrics.get("efficiency"):
        metrics.setdefault("power_basis", notes.power_basis)
    return Record(
        id=f"{NAME}/{row['source_line']}",
        source=Source.PUBLISHED,
        status=Status.OK,
        job=Job(
            parameters={name: value for name, value in parameters.items() if value is not None},
            **{
                "framework": names.framework(row["framework"]) if row.get("framework") else None,
                "precision": names.precision(row["precision"]) if row.get("precision") else None,
                "batch_size": batch_size,
                "accelerators": count,
                "partition": partition,
                "data": _dataset(row),
                "sequence_length": notes.sequence_length or _whole(row.get("sequence_length")),
                **job,
            },
        ),
        system=System(
            name=board,
            accelerator=Accelerator(name=board, kind="cuda", count=count, partition=partition),
            server=names.server(row["server"]) if row.get("server") else None,
            container=row.get("container") or None,
        ),
        software=Software(
            framework=row.get("training_framework")
            or (row.get("framework") if engine is None else None)
            or None,
            engine=engine,
            cudnn=notes.conditions.get("cudnn_version"),
            nccl=notes.conditions.get("nccl_version"),
        ),
        metrics=Metrics(**metrics),
        conditions={
            name: value
            for name, value in {**notes.conditions, **_conditions(row)}.items()
            if name not in ("cudnn_version", "nccl_version")
        },
        origin=Origin(page=PAGE, section=row["section"], line=int(row["source_line"]), row=row["raw"]),
    )


def _conditions(row: Row) -> dict[str, Scalar]:
    """What a whole table says of its rows by being that table."""
    section = row["section"]
    if section.startswith("MLPerf Inference"):
        # The footnote calls the A10 and A30 results previews, and thereby the others not.
        return {
            "division": "closed",
            "power_run": "Power Efficiency" in section,
            "preview": row["gpu"] in ("A10", "A30"),
        }
    if section.startswith("NVIDIA Performance on MLPerf"):
        return {"division": "closed", "mlperf_id": row["mlperf_id"]}
    return {}


def _training(row: Row) -> Record:
    task = TASKS.get(row["network"])
    job = {
        "network": TRAINING[row["network"]],
        "scenario": "training",
        "parameters": {"task": task} if task else {},
    }
    return _record(row, job, {"throughput": _throughput(row)})


def _convergence(row: Row) -> Record:
    task = TASKS.get(row["network"])
    job = {
        "network": TRAINING[row["network"]],
        "scenario": "time-to-quality",
        "parameters": {"task": task} if task else {},
    }
    quality = [Quality(metric=_metric(row), value=_number(row["quality_value"]))]
    metrics = {
        "time_to_train_min": _number(row["time_to_train_min"]),
        "throughput": _throughput(row),
        "quality": quality if row["quality_value"] else [],
    }
    return _record(row, job, metrics)


def _mlperf_training(row: Row) -> Record:
    parameters: dict[str, Scalar] = {"rules": "mlperf-training-0.7"}
    if row["network"] == "BERT":
        parameters["task"] = "pre-training-mlperf"
    job = {
        "network": MLPERF_TRAINING[row["network"]],
        "scenario": "time-to-quality",
        "parameters": parameters,
        # Eight accelerators are one DGX A100.
        "nodes": max(1, int(row["gpu_count"]) // 8),
    }
    quality = [Quality(metric=_metric(row), target=_number(row["quality_value"]))]
    if row["quality_metric_2"]:
        metric = METRICS.get(row["quality_metric_2"], row["quality_metric_2"])
        quality.append(Quality(metric=metric, target=_number(row["quality_value_2"])))
    metrics = {"time_to_train_min": _number(row["time_to_train_min"]), "quality": quality}
    return _record(row, job, metrics)


def _mlperf_inference(row: Row) -> Record:
    parameters: dict[str, Scalar | None] = {
        "rules": "mlperf-inference-1.0",
        "latency_bound_ms": _whole(row.get("latency_constraint_ms")),
        "task": QUESTIONS if row["network"] == "BERT" else None,
    }
    job = {
        "network": MLPERF_INFERENCE[row["network"]],
        "scenario": row["scenario"].lower(),
        "parameters": parameters,
        "partition": row.get("mig_profile") or None,
    }
    efficiency = _efficiency(row)
    metrics = {
        "throughput": _throughput(row),
        "quality": [Quality(metric=_metric(row), target=_number(row["quality_value"]))]
        if row.get("quality_value")
        else [],
        "efficiency": efficiency,
        # MLPerf's power rules measure the whole system at its supply.
        "power_basis": "system" if efficiency else None,
    }
    return _record(row, job, metrics)


def _inference(row: Row) -> Record:
    partition = row["partition"]
    parameters: dict[str, Scalar | None] = {
        "task": QUESTIONS if row["network"].startswith("BERT") else None,
        "instances": {"1/7 MIG": 1, "7 MIG": 7}.get(partition),
    }
    job = {
        "network": INFERENCE[row["network"]],
        "scenario": "inference",
        "parameters": parameters,
        # The column names the engine; what the network was trained in is not said.
        "framework": None,
        "engine": "tensorrt" if row["framework"] else None,
        "partition": "1/7" if partition in ("1/7 MIG", "7 MIG") else None,
    }
    metrics = {
        "throughput": _throughput(row),
        "latency_ms": _latency(row["latency_ms"]),
        "efficiency": _efficiency(row),
    }
    return _record(row, job, metrics, row["framework"] or None)


def _triton(row: Row) -> Record:
    parameters: dict[str, Scalar | None] = {
        "task": QUESTIONS if row["network"].startswith("BERT") else None,
        "model_instances": _whole(row["model_instances"]),
        "client_batch_size": _whole(row["client_batch_size"]),
        "dynamic_batch_size": _whole(row["dynamic_batch_size"]),
        "concurrent_requests": _whole(row["concurrent_client_requests"]),
    }
    job = {
        "network": SERVICES[row["network"]],
        "scenario": "serving",
        "parameters": parameters,
        "framework": names.framework(row["training_framework"]),
        "engine": names.framework(row["framework_backend"]),
    }
    metrics = {"throughput": _throughput(row), "latency_ms": _latency(row["latency_ms"])}
    return _record(row, job, metrics, row["framework_backend"])


def _speech_recognition(row: Row) -> Record:
    parameters: dict[str, Scalar | None] = {
        "mode": row["mode"],
        "chunk_ms": _whole(row["chunk_ms"]),
        "streams": _whole(row["stream_count"]),
    }
    job = {
        "network": SERVICES[row["network"]],
        "scenario": "speech-recognition",
        "parameters": parameters,
    }
    metrics = {"throughput": _throughput(row), "latency_ms": _latency(row["latency_ms"])}
    return _record(row, job, metrics, f"Jarvis {row['jarvis_version']}")


def _language_service(row: Row) -> Record:
    job = {
        "network": SERVICES[row["network"]],
        "scenario": "language-service",
        "parameters": {"task": SERVICE_TASKS[row["task"]], "streams": _whole(row["stream_count"])},
    }
    metrics = {"throughput": _throughput(row), "latency_ms": _latency(row["latency_ms"])}
    return _record(row, job, metrics, f"Jarvis {row['jarvis_version']}")


def _speech_synthesis(row: Row) -> Record:
    job = {
        "network": SERVICES[row.get("network", "")],
        "scenario": "speech-synthesis",
        "parameters": {"streams": _whole(row["stream_count"])},
    }
    metrics = {
        "throughput": _throughput(row),
        "time_to_first_audio_s": _number(row["latency_to_first_audio_s"]),
        "time_between_chunks_s": _number(row["latency_between_chunks_s"]),
    }
    return _record(row, job, metrics, f"Jarvis {row['jarvis_version']}")


_READERS: Mapping[str, Callable[[Row], Record]] = {
    "mlperf_training": _mlperf_training,
    "convergence": _convergence,
    "training_single_gpu": _training,
    "mlperf_offline": _mlperf_inference,
    "mlperf_server": _mlperf_inference,
    "mlperf_power_offline": _mlperf_inference,
    "mlperf_power_server": _mlperf_inference,
    "inference": _inference,
    "triton": _triton,
    "asr_streaming": _speech_recognition,
    "nlp_service": _language_service,
    "tts_service": _speech_synthesis,
}


def _number(cell: str) -> float | None:
    return float(cell) if cell else None


def _whole(cell: str | None) -> int | None:
    return int(cell) if cell else None


def _throughput(row: Row) -> Throughput | None:
    if not row["throughput"]:
        return None
    return Throughput(value=float(row["throughput"]), unit=names.unit(row["throughput_unit"]))


def _latency(cell: str) -> Latency | None:
    return Latency(mean=float(cell)) if cell else None


def _efficiency(row: Row) -> Quantity | None:
    if not row.get("efficiency_per_watt"):
        return None
    return Quantity(value=float(row["efficiency_per_watt"]), unit=names.unit(row["efficiency_unit"]))


def _metric(row: Row) -> str:
    metric = METRICS.get(row["quality_metric"], row["quality_metric"])
    return f"{metric}, %" if row["quality_unit"] == "%" and not metric.endswith("%") else metric


def _dataset(row: Row) -> str | None:
    printed = row.get("dataset")
    return None if printed in (None, "", "N/A") else names.dataset(printed)


@functools.cache
def _notes() -> Notes:
    return Notes(_rows("footnotes"))

"""From what a user asks for to Jobs."""

from __future__ import annotations

import pytest

from accelmark import published
from accelmark.engines.precision import unsupported
from accelmark.errors import UsageError
from accelmark.job import Job, Settings
from accelmark.networks.registry import catalog
from accelmark.run import suite
from accelmark.run.plan import Target, Wish, ceilings, plan, targets
from accelmark.run.reproduce import reproduce
from accelmark.run.suite import Entry
from accelmark.system import Accelerator, Cpu, System

CPU = System(
    name="cpu",
    accelerator=Accelerator(name="cpu", kind="cpu", count=2),
    cpu=Cpu(name="cpu", cores=2, instructions=["avx2"]),
)
GPU = System(
    name="A100", accelerator=Accelerator(name="A100", kind="cuda", count=8, compute_capability="8.0")
)


DEFAULT, SETTINGS = Wish(), Settings()


def jobs(names, wish=DEFAULT, system=CPU, settings=SETTINGS):
    return plan(targets(names, {}), wish, settings, system)


def test_the_lambda_suite_is_the_whole_study() -> None:
    planned, notes = jobs(["lambda"], system=GPU)
    cells = {(p.job.network, p.job.precision, p.job.accelerators) for p in planned}
    networks = {
        "ssd300-resnet50",
        "resnet50-v1.5",
        "mask-rcnn-r50-fpn",
        "transformer-xl-base",
        "transformer-xl-large",
    }
    assert cells == {(n, p, a) for n in networks for p in ("fp32", "tf32", "fp16") for a in (1, 2, 4, 8)}
    assert all(p.rule == "max" and p.job.batch_size is None and not p.unsupported for p in planned)
    assert {p.job.size for p in planned if "transformer" in p.job.network} == {"full-softmax"}
    assert notes == []


def test_on_two_cores_the_study_has_one_and_two_ranks_and_says_what_is_left_out() -> None:
    planned, notes = jobs(["lambda"], Wish(size="tiny"))
    assert len(planned) == 5 * 3 * 2
    assert {p.job.accelerators for p in planned} == {1, 2}
    assert notes == ["4, 8 accelerators are left out: this machine has 2"]
    assert {p.job.size for p in planned} == {"tiny"}
    assert all(p.rule is None and p.job.batch_size for p in planned)
    reasons = {p.job.precision: p.unsupported for p in planned}
    assert reasons["fp32"] is None
    assert "TF32" in str(reasons["tf32"])
    assert "emulated here" in str(reasons["fp16"])


@pytest.mark.parametrize("domain", ["vision", "language", "speech", "recommendation", "games"])
def test_a_domains_suite_has_every_network_of_it(domain: str) -> None:
    planned, _ = jobs([domain], Wish(size="tiny"))
    assert sorted(p.job.network for p in planned) == sorted(
        name for name, entry in catalog().items() if entry.domain == domain
    )


def test_the_suite_of_the_page_is_every_training_row_as_it_is_repeated() -> None:
    planned, notes = jobs(["nvidia-training"], system=GPU)
    keys = {p.job.key() for p in planned}
    rows = [
        record
        for record in published.load("nvidia-2021-04")
        if record.job.scenario in ("training", "time-to-quality") and record.job.network in catalog()
    ]
    repeated = {plan.job.key() for row in rows if row.job.accelerators <= 8 for plan in reproduce(row, GPU)}
    assert keys == repeated
    left_out = {row.job.accelerators for row in rows} - {1, 4, 8}
    assert notes == [f"{', '.join(map(str, sorted(left_out)))} accelerators are left out: this machine has 8"]
    # A row for every kind: precision, batch, task, sequence length.
    told = {(p.job.network, p.job.precision, p.job.batch_size, p.job.accelerators) for p in planned}
    assert ("mask-rcnn-r50-fpn", "tf32", 8, 1) in told
    phase_2 = [p.job for p in planned if p.job.parameters.get("task") == "pre-training-phase-2"]
    assert [(job.sequence_length, job.batch_size) for job in phase_2] == [(512, 4096)]


def test_the_suite_of_the_page_runs_small() -> None:
    planned, notes = jobs(["nvidia-training"], Wish(size="tiny", precisions=["fp32"]))
    assert {p.job.accelerators for p in planned} == {1}
    assert not any(p.unsupported for p in planned)
    assert all(p.job.batch_size == p.default_batch for p in planned)
    assert notes[0].endswith("accelerators are left out: this machine has 2")


def test_how_much_memory_is_needed_is_said_before_trying() -> None:
    # 4 bytes for each of 31.2 million weights and their momenta, and 13.3 GiB a volume.
    (two,), _ = jobs(["unet-3d"], Wish(batch_sizes=[2]), system=small(24))
    assert two.unsupported is not None
    needed = float(two.unsupported.removeprefix("needs at least ").partition(" ")[0])
    assert needed == pytest.approx(0.23 + 2 * 13.3, rel=0.005)
    assert "batch of 2; there are 24.0: choose a smaller --batch-size" in two.unsupported
    (one,), _ = jobs(["unet-3d"], Wish(batch_sizes=[1]), system=small(24))
    assert one.unsupported is None
    (tight,), _ = jobs(["unet-3d"], Wish(batch_sizes=[1]), system=small(13))
    assert tight.unsupported is not None
    # Every rank on a CPU takes as much of the same memory; what mixed precision keeps is half as large.
    (ranks,), _ = jobs(["unet-3d"], Wish(batch_sizes=[1], accelerators=[2]), system=small(24))
    assert ranks.unsupported is not None
    (half,), _ = jobs(["unet-3d"], Wish(batch_sizes=[2], precisions=["fp16"]), system=GPU)
    assert half.unsupported is None


def small(memory_gib: float) -> System:
    return CPU.model_copy(update={"memory_gib": memory_gib})


def test_a_sequence_length_of_ones_own() -> None:
    (usual,), _ = jobs(["transformer-xl-base"], Wish(size="tiny"))
    assert usual.job.sequence_length == 32
    assert usual.flops_per_sample == catalog()["transformer-xl-base"].sizes["tiny"].flops_per_sample
    (long,), _ = jobs(["transformer-xl-base"], Wish(size="tiny", sequence_length=64))
    assert (long.job.sequence_length, long.flops_per_sample) == (64, None)
    with pytest.raises(UsageError, match=r"resnet50-v1\.5 has no sequence length"):
        jobs(["resnet50-v1.5"], Wish(sequence_length=64))
    with pytest.raises(UsageError, match=r"resnet50-v1\.5 has one use and takes no --task"):
        jobs(["resnet50-v1.5"], Wish(task="squad"))


def test_a_task_brings_its_sequence_length() -> None:
    usual = catalog()["transformer-xl-base"]
    entry = usual.model_copy(update={"tasks": {"answers": 384, "masks": 128}})
    target = Target(Entry(networks=["transformer-xl-base"]), {"transformer-xl-base": entry})

    def one(**wish):
        ((planned,), _) = plan([target], Wish(**wish), SETTINGS, CPU)
        return planned.job.parameters, planned.job.sequence_length

    assert one() == ({"task": "answers"}, 384)
    assert one(task="masks") == ({"task": "masks"}, 128)
    assert one(task="masks", sequence_length=512) == ({"task": "masks"}, 512)
    assert one(task="masks", size="tiny") == ({"task": "masks"}, 32)
    with pytest.raises(UsageError, match="unknown task of transformer-xl-base 'mask'; did you mean masks"):
        one(task="mask")


def test_what_is_asked_for_and_missing_is_a_record_not_silence() -> None:
    planned, _ = jobs(["resnet50-v1.5"], Wish(accelerators=[1, 4]))
    assert [p.unsupported for p in planned] == [
        None,
        "needs 4 CPU cores, one for each rank; this machine has 2",
    ]


def test_emulated_precisions_run_when_asked_for() -> None:
    planned, _ = jobs(["resnet50-v1.5"], Wish(precisions=["bf16"]), settings=Settings(allow_emulated=True))
    assert planned[0].unsupported is None


def test_the_same_job_is_measured_once() -> None:
    planned, _ = jobs(["resnet50-v1.5", "resnet50-v1.5"], Wish(batch_sizes=[32, "default"]))
    assert len(planned) == 1


def test_defaults_are_the_networks_own() -> None:
    planned, _ = jobs(["transformer-xl-base"])
    assert planned[0].unit == "tokens/s"
    assert planned[0].job.sequence_length == 192
    assert planned[0].job.batch_size == planned[0].default_batch


@pytest.mark.parametrize(
    ("names", "wish", "meant"),
    [
        (["resnet50"], Wish(), "did you mean resnet50-v1 or resnet50-v1.5"),
        (["lamda"], Wish(), "did you mean lambda"),
        (["lambda"], Wish(precisions=["fp31"]), "did you mean fp32"),
        (["lambda"], Wish(engines=["eagre"]), "did you mean eager"),
        (["lambda"], Wish(networks=["mask-rcnn"]), "did you mean mask-rcnn-r50-fpn"),
        (["lambda"], Wish(size="tini"), "did you mean tiny"),
    ],
)
def test_wrong_names_say_what_was_meant(names, wish, meant) -> None:
    with pytest.raises(UsageError, match=meant):
        jobs(names, wish)


@pytest.mark.parametrize(
    ("precision", "accelerator", "cpu", "reason"),
    [
        ("fp32", Accelerator(name="c", kind="cpu"), None, None),
        ("tf32", Accelerator(name="c", kind="cpu"), None, "this device is a CPU"),
        ("bf16", Accelerator(name="c", kind="cpu"), Cpu(name="c", instructions=["amx_bf16"]), None),
        ("bf16", Accelerator(name="c", kind="cpu"), Cpu(name="c", instructions=["avx2"]), "emulated here"),
        ("fp16", Accelerator(name="c", kind="cpu"), Cpu(name="c", instructions=["avx512_fp16"]), None),
        ("bf16", Accelerator(name="V100", kind="cuda", compute_capability="7.0"), None, "emulated here"),
        ("tf32", Accelerator(name="V100", kind="cuda", compute_capability="7.0"), None, "8.0"),
        ("fp16", Accelerator(name="V100", kind="cuda", compute_capability="7.0"), None, None),
        ("tf32", Accelerator(name="H200", kind="cuda", compute_capability="9.0"), None, None),
        ("tf32", Accelerator(name="MI250", kind="rocm"), None, "this device is rocm"),
        ("bf16", Accelerator(name="MI250", kind="rocm"), None, None),
    ],
)
def test_precisions_by_device(precision, accelerator, cpu, reason) -> None:
    found = unsupported(precision, accelerator, cpu)
    assert found is None if reason is None else reason in str(found)


def test_ceilings_of_a_cpu() -> None:
    planned = {(p.job.network, p.job.precision, p.job.accelerators): p for p in ceilings(Settings(), CPU)}
    assert planned["matrix-product", "fp32", 1].unsupported is None
    assert planned["matrix-product", "tf32", 1].unsupported
    assert planned["host-to-device", None, 1].unsupported
    assert planned["all-reduce", None, 2].unsupported is None


def test_suites_name_networks_that_exist() -> None:
    from accelmark.networks.registry import catalog

    for name in suite.names():
        for entry in suite.load(name).entries:
            for network in entry.networks:
                assert entry.size in catalog()[network].sizes


def test_a_jobs_key_is_stable() -> None:
    job = Job(network="resnet50-v1.5", batch_size=8)
    assert job.key() == Job.model_validate_json(job.model_dump_json()).key()
    assert job.key() != job.model_copy(update={"seed": 1}).key()


@pytest.mark.parametrize(
    ("budget", "repeats", "processes", "each"),
    [(60, 3, 3, 20), (5, 3, 1, 5), (12, 3, 1, 12), (24, 3, 3, 8), (60, 1, 1, 60)],
)
def test_the_budget_is_shared_by_processes_of_at_least_five_seconds(budget, repeats, processes, each) -> None:
    settings = Settings(time_budget_s=budget, repeats=repeats)
    assert (settings.processes(), settings.process_budget_s()) == (processes, each)


def test_tables_that_do_not_fit_may_end_earlier() -> None:
    """DLRM's tables have 187,767,399 rows of 128 values in single precision, 89.5 GiB."""
    small = CPU.model_copy(update={"memory_gib": 24.0})
    (whole,), _ = jobs(["dlrm"], Wish(batch_sizes=[1]), small)
    assert whole.unsupported is not None
    assert whole.unsupported.startswith("needs at least 89.6 GiB of memory with a batch of 1; there are")
    assert "fewer --embedding-rows" in whole.unsupported
    (ended,), _ = jobs(["dlrm"], Wish(batch_sizes=[1], embedding_rows=100_000), small)
    assert ended.unsupported is None
    assert ended.job.parameters == {"embedding_rows": 100_000}
    assert ended.flops_per_sample == whole.flops_per_sample
    # Eight tables of 100,000 rows and 121,165 rows in the others, and 2.4 million values in the layers.
    gib = catalog()["dlrm"].memory_gib(ended.job)
    assert gib is not None
    assert gib == pytest.approx((128 * (8 * 100_000 + 121_165) + 2_368_897) * 4 * 2**-30, rel=0.05)


def test_lookups_are_in_the_job_where_they_are_not_the_data_s() -> None:
    (skewed,), _ = jobs(["ncf"], Wish(lookups="skewed"))
    (uniform,), _ = jobs(["ncf"], Wish(lookups="uniform"))
    assert (skewed.job.parameters, uniform.job.parameters) == ({}, {"lookups": "uniform"})


@pytest.mark.parametrize(
    ("wish", "message"),
    [
        (Wish(lookups="even"), "unknown --lookups 'even'; known: skewed, uniform."),
        (Wish(lookups="uniform"), "resnet50-v1.5 has no look-ups that --lookups could change."),
        (Wish(embedding_rows=5), "resnet50-v1.5 has no embedding tables that --embedding-rows could end."),
    ],
)
def test_what_a_network_without_tables_cannot_be_asked(wish: Wish, message: str) -> None:
    with pytest.raises(UsageError) as error:
        jobs(["resnet50-v1.5"], wish)
    assert str(error.value) == message


def test_a_scenario_brings_its_unit_batch_and_parameters() -> None:
    (speech,), _ = jobs(["tacotron2"], Wish(scenario="speech-synthesis", size="tiny"))
    assert (speech.unit, speech.job.batch_size) == ("s of audio/s", 1)
    assert speech.job.parameters == {"vocoder": "waveglow", "chunk_ms": 800}
    assert speech.flops_per_sample is None
    (go,), _ = jobs(["minigo"], Wish(scenario="time-to-quality"), settings=Settings(repeats=5))
    assert go.settings.processes() == 1


@pytest.mark.parametrize(
    ("names", "wish", "said"),
    [
        (["resnet50-v1.5"], Wish(scenario="trainig"), "unknown scenario 'trainig'; did you mean training"),
        (["minigo"], Wish(scenario="speech-synthesis"), "minigo is not measured in speech-synthesis; it has"),
        (["resnet50-v1.5"], Wish(chunk_ms=100), "--chunk-ms is for speech-synthesis; this is training"),
        (
            ["fastpitch"],
            Wish(scenario="speech-synthesis", batch_sizes=["best"]),
            "--batch-size best is not for speech-synthesis: give a number",
        ),
    ],
)
def test_what_a_scenario_does_not_take_is_said(names: list[str], wish: Wish, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        jobs(names, wish)


def test_only_the_weights_count_where_nothing_is_trained() -> None:
    job = Job(network="dlrm", scenario="inference", batch_size=65536, precision="fp32")
    entry = catalog()["dlrm"]
    assert entry.memory_gib(job) == pytest.approx(4 * entry.sizes["full"].parameters / 2**30)
    training = entry.memory_gib(job.model_copy(update={"scenario": "training"}))
    assert training is not None
    assert training > 4 * entry.sizes["full"].parameters / 2**30

"""From windows to a Record's figures: what adds up, what is averaged, what is left as it was."""

from __future__ import annotations

import pytest

from accelmark import conclude
from accelmark.record import Calls, Metrics, Part, Record, Samples, Status, Throughput
from accelmark.run.session import bandwidth_share, ceiling_share, scaling
from tests.records import record, windows


def part(rate: float, **metrics):
    measured = windows(rate)
    return record(
        samples=Samples(windows=measured),
        metrics=Metrics(throughput=conclude.throughput(measured, "images/s"), **metrics),
    )


def test_processes_are_combined_as_totals_with_an_interval_between_them() -> None:
    combined = conclude.combine([part(90.0), part(100.0), part(110.0)])
    throughput = combined.metrics.throughput
    assert throughput is not None
    assert throughput.value == pytest.approx(100.0)
    assert (throughput.n, throughput.processes) == (60, 3)
    # t(2 df, 97.5 %) = 4.303; the processes' standard deviation is 10: 4.303 x 10 / sqrt(3).
    assert throughput.ci95 == pytest.approx((100 - 24.84, 100 + 24.84), abs=0.01)
    assert combined.status is Status.NOISY
    assert [w.process for w in combined.samples.windows] == [0] * 20 + [1] * 20 + [2] * 20


def test_equal_processes_are_ok() -> None:
    combined = conclude.combine([part(100.0), part(100.1), part(99.9)])
    assert combined.status is Status.OK
    assert combined.reasons == []


def test_padding_is_averaged_over_the_processes() -> None:
    combined = conclude.combine([part(100.0, padding_share=0.2), part(100.0, padding_share=0.3)])
    assert combined.metrics.padding_share == pytest.approx(0.25)


def test_energy_adds_up_and_power_is_energy_over_time() -> None:
    # 10 s at 50 W and 20 s at 80 W: 2,100 J in 30 s; each process ran 20 windows of 50 units.
    combined = conclude.combine(
        [part(100.0, energy_j=500.0, power_w=50.0), part(100.0, energy_j=1600.0, power_w=80.0)]
    )
    assert combined.metrics.energy_j == pytest.approx(2100)
    assert combined.metrics.power_w == pytest.approx(70)
    assert combined.metrics.efficiency is not None
    assert combined.metrics.efficiency.value == pytest.approx(2000 / 2100)
    assert combined.metrics.efficiency.unit == "images/s/W"


def test_peaks_are_the_largest_and_times_are_means() -> None:
    combined = conclude.combine(
        [
            part(100.0, memory_peak_gib=3.0, host_memory_peak_gib=1.0, first_step_s=2.0),
            part(100.0, memory_peak_gib=2.0, host_memory_peak_gib=1.5, first_step_s=4.0),
        ]
    )
    assert combined.metrics.memory_peak_gib == 3.0
    assert combined.metrics.host_memory_peak_gib == 1.5
    assert combined.metrics.first_step_s == 3.0
    assert combined.metrics.step_s == pytest.approx(0.05)


def test_a_failed_process_gives_its_status_and_what_was_measured_stays() -> None:
    failed = record(
        status=Status.CRASHED, reasons=["SIGKILL"], metrics=Metrics(), samples=Samples(), log_tail="last"
    )
    combined = conclude.combine([part(100.0), failed])
    assert combined.status is Status.CRASHED
    assert combined.reasons == ["process 2 of 2: SIGKILL"]
    assert combined.log_tail == "last"
    assert combined.metrics.throughput is not None
    assert combined.metrics.throughput.value == pytest.approx(100)


def test_what_holds_of_one_process_only_is_not_said_of_several() -> None:
    reasons = ["the step time rose by 5.0% while measuring", f"{conclude.ONE_PROCESS} said of it alone"]
    rising = record(status=Status.NOT_STATIONARY, reasons=reasons)
    assert conclude.combine([part(100.0), rising]).reasons == [f"process 2 of 2: {reasons[0]}"]
    assert conclude.combine([rising]).reasons == reasons


def test_others_on_the_cpu_make_a_result_noisy() -> None:
    assert conclude.combine([part(100.0, other_cpu_share=0.4)] * 3).status is Status.NOISY
    assert conclude.combine([part(100.0, other_cpu_share=0.02)] * 3).status is Status.OK


def with_job(rate: float, **job):
    measured = part(rate)
    return measured.replace(job=measured.job.model_copy(update=job))


def test_scaling_efficiency_on_accelerators_is_against_n_times_one() -> None:
    one = with_job(100.0).replace(id="one")
    gpu = one.system.model_copy(
        update={"accelerator": one.system.accelerator.model_copy(update={"kind": "cuda"})}
    )
    found = scaling(with_job(320.0, accelerators=4).replace(system=gpu), [one.replace(system=gpu)])
    assert found is not None
    assert found.efficiency == pytest.approx(0.8)
    assert (found.reference, found.basis) == ("one", "accelerators")


def test_scaling_efficiency_on_a_cpu_is_against_the_whole_cpu() -> None:
    found = scaling(with_job(90.0, accelerators=2), [with_job(100.0)])
    assert found is not None
    assert found.efficiency == pytest.approx(0.9)
    assert found.basis == "processes on one CPU"


def test_scaling_needs_the_same_load_on_the_same_system() -> None:
    two = with_job(90.0, accelerators=2)
    assert scaling(two, [with_job(100.0, batch_size=16)]) is None
    assert scaling(two, [with_job(100.0, precision="bf16")]) is None
    other = with_job(100.0).system.model_copy(update={"name": "another"})
    assert scaling(two, [with_job(100.0).replace(system=other)]) is None
    found = scaling(
        with_job(90.0, accelerators=2, batch_size=30, parameters={"batch_size_rule": "max"}),
        [with_job(100.0, batch_size=64, parameters={"batch_size_rule": "max"})],
    )
    assert found is not None


def test_share_of_the_ceiling() -> None:
    # A batch of 8 at 1 GFLOP a sample in 50 ms is 160 GFLOP/s; the ceiling is 400.
    measured = part(160.0, flops_per_sample=1e9, step_s=0.05)
    ceiling = record("ceiling").replace(
        job=measured.job.model_copy(
            update={"network": "matrix-product", "scenario": "ceiling", "batch_size": None}
        ),
        metrics=Metrics(throughput=conclude.throughput(windows(4e11), "FLOP/s")),
    )
    found = ceiling_share(measured, [ceiling])
    assert found is not None
    assert found.share == pytest.approx(0.4)
    assert found.flops_per_s == pytest.approx(1.6e11)
    assert ceiling_share(measured, []) is None


def test_shares_of_the_ceilings_of_inference() -> None:
    # Two streams of batches of 8: 400 images/s, whatever a single call takes. A GFLOP an image are 400
    # GFLOP/s; 16 MB a call are 2 MB an image, 800 MB/s.
    measured = part(400.0, flops_per_sample=1e9, step_s=0.04, least_bytes_per_call=16e6)
    job = measured.job.model_copy(update={"scenario": "inference", "parameters": {"streams": 2}})
    measured = measured.replace(job=job)

    def ceiling(network: str, rate: float, unit: str, precision: str | None) -> Record:
        changes = {"network": network, "scenario": "ceiling", "batch_size": None, "precision": precision}
        return record(network).replace(
            job=job.model_copy(update=changes),
            metrics=Metrics(throughput=conclude.throughput(windows(rate), unit)),
        )

    others = [
        ceiling("matrix-product", 8e11, "FLOP/s", "fp32"),
        ceiling("memory-copy", 4e9, "B/s", None),
    ]
    arithmetic, traffic = ceiling_share(measured, others), bandwidth_share(measured, others)
    assert arithmetic is not None
    assert arithmetic.share == pytest.approx(0.5)
    assert traffic is not None
    assert traffic.share == pytest.approx(0.2)
    assert traffic.bytes_per_s == pytest.approx(8e8)
    assert bandwidth_share(measured, others[:1]) is None


def test_parts_of_several_processes_are_their_means_and_all_their_calls() -> None:
    def process(rate: float, ms: float) -> Record:
        one = Part(
            name="part 1 of 1",
            throughput=Throughput(value=rate, unit="images/s"),
            alone=Throughput(value=2 * rate, unit="images/s"),
            latency_ms=conclude.latency([ms] * 10),
            power_w=rate,
        )
        measured = part(rate, parts=[one])
        calls = Calls(process=[0] * 10, stream=[0] * 10, ms=[ms] * 10)
        return measured.replace(samples=measured.samples.model_copy(update={"calls": calls}))

    together = conclude.combine([process(100, 4), process(300, 8)])
    (only,) = together.metrics.parts
    assert (only.throughput.value, only.alone.value, only.power_w) == (200, 400, 200)
    assert only.latency_ms is not None
    assert (only.latency_ms.n, only.latency_ms.mean) == (20, 6)
    assert together.metrics.latency_ms is not None
    assert together.metrics.latency_ms.mean == 6
    assert together.samples.calls is not None
    assert together.samples.calls.process == [0] * 10 + [1] * 10


def test_what_else_ran_makes_a_result_noisy_and_is_said_first() -> None:
    metric = conclude.throughput(windows(100.0), "images/s")
    assert metric is not None
    assert conclude.spread(metric, 0.01, None)[0] is Status.OK
    assert conclude.spread(metric, 0.01, 0.1)[0] is Status.OK
    status, reasons = conclude.spread(metric, 0.01, 0.11)
    assert status is Status.NOISY
    assert reasons[0] == "other processes took 11% of the CPU time while measuring"


def test_the_disturbance_of_all_processes_together_is_said_once() -> None:
    parts = [part(100.0, other_cpu_share=0.2), part(100.0, other_cpu_share=0.4)]
    combined = conclude.combine(parts)
    assert combined.status is Status.NOISY
    assert [reason for reason in combined.reasons if "other processes" in reason] == [
        "other processes took 40% of the CPU time while measuring"
    ]

"""What is printed: numbers with the digits they support, and text that cannot steer a terminal."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelmark.text import (
    MAX_CELL,
    RATIO_BAR,
    bar,
    bar_extent,
    duration,
    number,
    print_table,
    quantity,
    ratio_bar,
    safe,
    value_and_interval,
)


@pytest.mark.parametrize(
    ("value", "ci95", "shown"),
    [
        (1234.5678, (1222.3, 1246.8), "1,235 ± 12"),
        (1234.5678, (1229.5, 1239.7), "1,235 ± 5"),
        (0.0123456, (0.0121, 0.0126), "0.01235 ± 0.00025"),
        (12345.0, (11000.0, 13700.0), "12,300 ± 1,400"),
        (5.0, (5.0, 5.0), "5.00000 ± 0"),
        (5.0, None, "5"),
        (432.1, (0.0, 30432.0), "430 ± 30,000"),
        (2751.0, None, "2,751"),
    ],
)
def test_value_and_interval_prints_no_digit_that_is_not_supported(value, ci95, shown) -> None:
    assert value_and_interval(value, ci95) == shown


def test_the_wider_side_of_an_interval_is_shown() -> None:
    assert value_and_interval(10.0, (4.0, 11.0)) == "10 ± 6"


def test_numbers() -> None:
    assert number(12345.678) == "12,350"
    assert number(0.00012345) == "0.0001234"
    assert number(0.0) == "0.0"
    assert number(1.2345e300) == "1.234e+300"
    assert value_and_interval(2e300, (1.9e300, 2.1e300)) == "2.000e+300 ± 1.0e+299"


def test_rates_of_machines_get_a_prefix() -> None:
    assert quantity(8.0123e10, (7.8e10, 8.2e10), "FLOP/s") == ("80.1 ± 2.1", "GFLOP/s")
    assert quantity(17.04e9, None, "B/s") == ("17.04", "GB/s")
    assert quantity(1234.0, (1200.0, 1300.0), "tokens/s") == ("1,230 ± 70", "tokens/s")


def test_durations() -> None:
    assert [duration(45), duration(200), duration(7500)] == ["45 s", "3 min 20 s", "2 h 5 min"]


@given(st.text())
def test_safe_text_has_no_control_and_no_direction_mark(text: str) -> None:
    shown = safe(text)
    assert not any(unicodedata.category(character) in {"Cc", "Cf", "Cs", "Co", "Cn"} for character in shown)
    assert not set(shown) & set("\x1b\x00\n\r\x9b\u202e\u2066\u200f")
    assert len(shown) <= 6 * MAX_CELL


def test_safe_text_keeps_words() -> None:
    assert safe("Lambda Cloud — RTX A6000 ±") == "Lambda Cloud — RTX A6000 ±"
    assert safe("a\x1b[31mred") == "a\\u001b[31mred"


def test_table_in_a_pipe_is_aligned_plain_text(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "value"], [["a", "1"], ["long name", "12,345"]], {1})
    assert capsys.readouterr().out == "name        value\na               1\nlong name  12,345\n"


def test_table_without_rows_prints_its_heading(capsys: pytest.CaptureFixture[str]) -> None:
    print_table(["name", "value"], [], {1})
    assert capsys.readouterr().out == "name  value\n"


def test_a_number_beyond_all_measures_is_a_power_of_ten() -> None:
    assert number(1.7976931348623157e308) == "1.798e+308"
    assert number(-2e18) == "-2.000e+18"
    assert number(999_999_999_999) == "1,000,000,000,000"


@pytest.mark.parametrize(
    ("value", "ci95", "drawn"),
    [
        (100, None, "██████████"),
        (50, None, "█████"),
        (51, None, "█████▏"),
        (0.001, None, "▏"),
        (50, (49.9, 50.1), "█████"),
        (50, (30, 70), "███░░░░"),
        (0, None, ""),
        (200, None, ""),
    ],
)
def test_bars_are_as_long_as_their_values(value, ci95, drawn) -> None:
    assert bar(value, 100, ci95) == drawn


@pytest.mark.parametrize(
    ("ratio", "ci95", "drawn"),
    [
        (1.0, None, "     │     "),
        (4.0, None, "     │█████"),
        (0.25, None, "█████│     "),
        (2.0, None, "     │██▌  "),
        (0.5, None, "  ▐██│     "),
        (9.0, None, "     │█████"),
        (2.0, (1.99, 2.01), "     │██▌  "),
        (2.0, (1.4, 3.0), "     │█░░░ "),
        (1.0, (0.7, 1.4), "    ░│░    "),
        (0.0, None, ""),
    ],
)
def test_bars_of_ratios_stand_at_a_mark(ratio, ci95, drawn) -> None:
    assert ratio_bar(ratio, ci95, extent=4.0) == drawn
    assert not drawn or drawn.index("│") == RATIO_BAR.index("│")


@given(
    st.floats(min_value=1e-300, max_value=1e300),
    st.floats(min_value=0, max_value=1e300),
    st.floats(min_value=1, max_value=1e300),
)
def test_bars_of_any_figures_have_their_width(ratio: float, bound: float, extent: float) -> None:
    ci95 = (min(bound, ratio), max(bound, ratio))
    assert len(bar(ratio, max(ratio, extent), ci95)) <= 10
    assert len(ratio_bar(ratio, ci95, extent)) in (0, 11)


def test_small_differences_look_small() -> None:
    assert bar_extent([1.01, 0.99]) == 1.25
    assert bar_extent([]) == 1.25
    assert bar_extent([0.25, 2.0]) == 4.0

"""Charts as files, drawn by processes of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from accelmark.errors import AccelmarkError, CannotWriteError
from accelmark.report import pictures
from accelmark.report.charts import Chart, to_svg
from accelmark.report.charts.theme import config


def _chart(name: str, text: str, **more: Any) -> Chart:
    spec = {
        "height": 60,
        "data": {"values": [{"x": 3, "label": text}, {"x": 5, "label": "b"}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "label", "type": "nominal"},
        },
        "config": config(),
        **more,
    }
    return Chart(name=name, page="", title="", description="", spec=spec, marks=2)


@pytest.mark.parametrize("text", ["RTX 3090 – ½, Größe, Ωμέγα", "东京 \U0001f600", "half \ud83d, <b>&amp;"])
def test_drawn_elsewhere_as_here(tmp_path: Path, text: str) -> None:
    chart = _chart("chart", text)
    with pictures.drawing([chart], tmp_path):
        pass
    svg = (tmp_path / "chart.svg").read_text(encoding="utf-8")
    readable = text.replace("\ud83d", "?")
    assert readable in [element.text for element in ElementTree.fromstring(svg).iter()]  # noqa: S314 - our own
    assert svg == to_svg(_chart("chart", readable))
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")


def test_only_letters_of_the_carried_font_do_without_the_systems(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = []
    begin = pictures._Worker.__init__

    def note(self: Any, charts: Any, base: Path, folder: Path, environment: Any) -> None:
        seen.append((len(charts), "FONTCONFIG_FILE" in environment))
        begin(self, charts, base, folder, environment)

    monkeypatch.setattr(pictures._Worker, "__init__", note)
    names = ["Größe × 2 – „so“ …", "Ωμέγα", "Привет", "日本", "مرحبا"]
    with pictures.drawing([_chart(f"c{i}", name) for i, name in enumerate(names)], tmp_path):
        pass
    assert seen == [(3, True), (2, False)]
    assert len(list(tmp_path.glob("*.png"))) == 5


def test_what_cannot_be_drawn_or_written_is_said(tmp_path: Path) -> None:
    with (
        pytest.raises(AccelmarkError, match="cannot be drawn"),
        pictures.drawing([_chart("chart", "a", mark="no such mark")], tmp_path),
    ):
        pass
    with (
        pytest.raises(CannotWriteError, match="cannot write charts"),
        pictures.drawing([_chart("chart", "a")], tmp_path / "gone"),
    ):
        pass

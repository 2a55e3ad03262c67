"""The scripts and styles that the site carries: ours, and libraries taken from installed packages.

No JavaScript of others is kept in this project. DataTables comes out of `itables`, Vega out of `vl-convert`,
and both are copied into a site when it is built, with their licences beside them.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import os
import re
import sysconfig
from functools import cache
from importlib import resources
from pathlib import Path

from accelmark.errors import MissingLibraryError
from accelmark.store import cache_folder

#: Ours, as they are.
_STATIC = ("report.js", "report.css", "icon.svg")
#: The names that an ES module hands out, at its end: `export{a as b, ...};`.
_EXPORT = re.compile(r"\bexport\s*\{([^{}]*)\}\s*;?")
#: What the bundle says of the licences of what is in it; esbuild writes it last.
_NOTICES = re.compile(r"/\*! Bundled license information:(.*)\*/", re.DOTALL)
#: Only this leaves the bundle of Vega; the specifications are compiled by vega-embed.
_VEGA_SNIPPET = "window.vegaEmbed = vegaEmbed;"


def write(folder: Path) -> None:
    """Write everything that pages load besides data into an existing folder."""
    for name in _STATIC:
        _text(folder / name, resources.files(__package__).joinpath("static", name).read_text("utf-8"))
    _text(folder / "datatables.js", classic_script(_itables("dt_bundle.js")))
    # In a layer of its own whatever report.css says has priority, however specific the library's rules are;
    # only what is marked as important would still win.
    styles = _itables("dt_bundle.css").replace("!important", "")
    _text(folder / "datatables.css", f"@layer library {{\n{styles}\n}}\n")
    _text(folder / "vega.js", _vega())
    _text(folder / "LICENSES.txt", licences())


def classic_script(module: str) -> str:
    """DataTables' ES module as a script for a `<script>` element without a type.

    Browsers load no modules from the disk (a `file:` address has no origin). The module imports nothing, so
    all it takes is a scope of its own and an assignment in place of its export.
    """
    exports = _EXPORT.search(module)
    names = dict(_renamed(each) for each in exports[1].split(",")) if exports else {}
    if exports is None or "default" not in names:
        raise MissingLibraryError(
            "the installed itables has no DataTables bundle that this version knows; "
            "install the version that accelmark asks for (pip install --upgrade accelmark)."
        )
    handed_out = f"window.DataTable = {names['default']};"
    return (
        f'(function () {{\n"use strict";\n{module[: exports.start()]}\n{handed_out}\n}})();\n'
        f"{module[exports.end() :].strip()}\n"
    )


def _renamed(clause: str) -> tuple[str, str]:
    inside, _, outside = clause.strip().partition(" as ")
    return (outside or inside).strip(), inside.strip()


@cache
def _itables(name: str) -> str:
    """A file of `itables`, which is not imported: that would take pandas with it."""
    place = Path(sysconfig.get_path("purelib"))
    try:
        place = Path(str(importlib.metadata.distribution("itables").locate_file("itables/html")))
        return (place / name).read_text("utf-8")
    except (importlib.metadata.PackageNotFoundError, FileNotFoundError) as error:
        raise MissingLibraryError(
            "the report needs the package itables, which carries DataTables; install it: pip install itables"
        ) from error


@cache
def _vega() -> str:
    try:
        import vl_convert
    except ImportError as error:
        raise MissingLibraryError(
            "the report needs the package vl-convert-python, which carries Vega; "
            "install it: pip install vl-convert-python"
        ) from error
    # Bundling takes seconds and depends on the package alone.
    kept = cache_folder() / f"vega-{importlib.metadata.version('vl-convert-python')}.js"
    with contextlib.suppress(OSError):
        return kept.read_text("utf-8")
    # A scope of its own: the bundle has thousands of short names at its top level.
    script = f"(function () {{\n{vl_convert.javascript_bundle(_VEGA_SNIPPET)}\n}})();\n"
    # A cache that cannot be kept costs time and nothing else.
    with contextlib.suppress(OSError):
        kept.parent.mkdir(parents=True, exist_ok=True)
        temporary = kept.with_suffix(f".{os.getpid()}")
        temporary.write_text(script, "utf-8")
        temporary.replace(kept)
    return script


def licences() -> str:
    """The licences of everything of others' that the site carries."""
    import vl_convert

    bundle = _NOTICES.search(_itables("dt_bundle.js"))
    notices = re.sub(r"\(\*!", "", bundle[1]).replace("*)", "") if bundle else "\n"
    parts = [
        "This folder carries libraries of others. Each is used as its licence allows, unchanged but for the\n"
        "form in which it is loaded: a classic script in place of a module, styles in a layer of their own.",
        f"datatables.js, datatables.css: from the Python package itables "
        f"{importlib.metadata.version('itables')}\n\n{_licence('itables')}",
        "datatables.js consists of the following. DataTables, its extensions (SpryMedia Ltd) and jQuery are\n"
        "under the MIT licence, whose text is above; of JSZip the MIT licence is chosen.\n"
        + "\n".join(line.rstrip() for line in notices.splitlines()),
        f"vega.js: Vega {vl_convert.get_vega_version()}, Vega-Lite {vl_convert.get_vegalite_versions()[-1]}, "
        f"vega-embed {vl_convert.get_vega_embed_version()} and what they rest on, bundled by\n"
        f"the Python package vl-convert-python {importlib.metadata.version('vl-convert-python')}. Vega, "
        "Vega-Lite and vega-embed are under the BSD\n3-clause licence (copyright University of Washington "
        "Interactive Data Lab), and so is vl-convert,\nwhose licence follows and has the same conditions; "
        "the d3 modules in it are under the ISC licence\n(copyright Mike Bostock).\n\n"
        + _licence("vl-convert-python"),
    ]
    return ("\n\n" + "=" * 78 + "\n\n").join(part.strip() for part in parts) + "\n"


def _licence(package: str) -> str:
    files = [
        file
        for file in importlib.metadata.files(package) or []
        if "dist-info" in str(file) and file.name.upper().startswith("LICEN")
    ]
    return "\n\n".join(file.read_text("utf-8").strip() for file in files)


def _text(path: Path, content: str) -> None:
    path.write_text(content, encoding="utf-8", newline="\n")

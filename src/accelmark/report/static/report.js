/* Tables, charts and Records of a site that accelmark has made. Works from the disk, without a network.
 *
 * Every text that comes from a Record may be hostile. It becomes a text node, an attribute set by name or a value
 * of a form, never HTML; there is no innerHTML here, and the library gets nodes, or text that is escaped.
 */
"use strict";
(function () {
  // ---------------------------------------------------------------- data

  const arrived = new Map();

  /** Called by each script under data/: its name and what it brings. */
  window.accelmark = function (name, value) {
    arrived.set(name, value);
  };

  const loading = new Map();

  /** What data/NAME.js holds. A script, since pages on the disk may fetch nothing. */
  function load(name) {
    if (!loading.has(name)) {
      loading.set(name, script("data/" + name + ".js").then(function () {
        const value = arrived.get(name);
        arrived.delete(name);
        return value;
      }));
    }
    return loading.get(name);
  }

  function script(source) {
    return new Promise(function (resolve, reject) {
      const element = document.createElement("script");
      element.src = source;
      element.async = false;
      element.onload = resolve;
      element.onerror = function () {
        reject(new Error(source + " cannot be read. Is the folder complete?"));
      };
      document.head.append(element);
    });
  }

  // ---------------------------------------------------------------- small things

  /** An element with attributes, holding nodes and texts. */
  function make(tag, attributes, ...content) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      if (value !== undefined && value !== null && value !== false) {
        element.setAttribute(name, value === true ? "" : value);
      }
    }
    element.append(...content);
    return element;
  }

  function count(number) {
    return number.toLocaleString("en");
  }

  function plural(number, word) {
    return count(number) + " " + word + (number === 1 ? "" : "s");
  }

  function address(identity) {
    try {
      return "record.html#" + encodeURIComponent(identity);
    } catch {
      return "record.html"; // half of a surrogate pair fits into no address
    }
  }

  /** Copies a text and says so on the button. */
  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Some browsers give pages on the disk no clipboard; a selection can be copied everywhere.
      const area = make("textarea", { class: "offscreen", "aria-hidden": "true" });
      area.value = text;
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      button.focus();
    }
    tell(button, done ? "Copied" : "Cannot copy here");
  }

  /** Shows a word on a button for a moment; a screen reader hears it. */
  function tell(button, word) {
    let said = document.getElementById("said-aloud");
    if (!said) {
      said = make("p", { id: "said-aloud", class: "offscreen", role: "status" });
      document.querySelector("main").append(said);
    }
    said.textContent = word;
    const label = button.querySelector("span") || button;
    if (label.dataset.before === undefined) {
      label.dataset.before = label.textContent;
    }
    label.textContent = word;
    window.clearTimeout(Number(label.dataset.timer));
    label.dataset.timer = String(window.setTimeout(function () {
      label.textContent = label.dataset.before;
      said.textContent = "";
    }, 1600));
  }

  function fail(place, error) {
    console.error(error);
    place.append(make("p", { class: "notice", role: "alert" }, error.message));
  }

  const MARKS = { noisy: "≈", doubtful: "?", tiny: "↓", failed: "×", "not-comparable": "≠" };

  function words(kind) {
    return kind.replace("-", " ");
  }

  function badge(kind) {
    const known = Object.hasOwn(MARKS, kind);
    return make("span", { class: "badge " + (known ? kind : "") },
      make("span", { "aria-hidden": "true" }, (known ? MARKS[kind] : "!") + " "), words(kind));
  }

  function kinds(flags) {
    return [...new Set(flags.map((flag) => flag[0]))];
  }

  function reasons(flags) {
    return make("ul", { class: "reasons" }, ...flags.map((flag) =>
      make("li", {}, badge(flag[0]), " ", flag[1])));
  }

  // ---------------------------------------------------------------- the state that a link holds

  const FACETS = ["network", "accelerator", "precision", "framework", "scenario", "source"];
  const SIZES = [25, 50, 100, 1000];
  const state = { search: "", facets: {}, at: "", tables: {} };
  let written = "";

  /** `#?q=bert&precision=fp16&t.inference=o3d_h4-7_p2_l50`: o sorts, h hides, p is the page, l its length. */
  function readState() {
    state.search = state.at = "";
    state.facets = {};
    state.tables = {};
    if (!window.location.hash.startsWith("#?")) {
      return;
    }
    for (const [name, value] of new URLSearchParams(window.location.hash.slice(2))) {
      if (name === "q") {
        state.search = value;
      } else if (name === "at") {
        state.at = value;
      } else if (FACETS.includes(name)) {
        state.facets[name] = value;
      } else if (name.startsWith("t.")) {
        state.tables[name.slice(2)] = readTable(value);
      }
    }
  }

  function readTable(text) {
    const table = { order: [], hidden: [], page: 0, length: SIZES[0], all: false };
    for (const token of text.split("_")) {
      let match;
      if ((match = /^o(\d{1,3})([ad])$/.exec(token))) {
        table.order.push([Number(match[1]), match[2] === "a" ? "asc" : "desc"]);
      } else if ((match = /^h(\d{1,3}(?:-\d{1,3})*)$/.exec(token))) {
        table.hidden = match[1].split("-").map(Number);
      } else if ((match = /^p(\d{1,6})$/.exec(token))) {
        table.page = Math.max(0, Number(match[1]) - 1);
      } else if ((match = /^l(\d{1,4})$/.exec(token)) && SIZES.includes(Number(match[1]))) {
        table.length = Number(match[1]);
      } else if (token === "a") {
        table.all = true;
      }
    }
    return table;
  }

  function stateText(at) {
    const params = new URLSearchParams();
    if (state.search) {
      params.set("q", state.search);
    }
    for (const name of FACETS) {
      if (state.facets[name]) {
        params.set(name, state.facets[name]);
      }
    }
    for (const each of tables) {
      const text = each.state();
      if (text) {
        params.set("t." + each.name, text);
      }
    }
    if (at) {
      params.set("at", at);
    }
    const text = params.toString();
    return text ? "#?" + text : "";
  }

  function writeState() {
    const text = stateText("");
    if (text !== written) {
      written = text;
      // Only what is behind the # may change for a page on the disk.
      window.history.replaceState(null, "", text || "#");
    }
  }

  function link(at) {
    return window.location.href.split("#")[0] + stateText(at);
  }

  // ---------------------------------------------------------------- tables

  const tables = [];
  const collator = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  /** Characters that a line of a table has room for in most columns. */
  const SHORT = 38;
  /** What stands in for a figure is sorted last, both ways. */
  const LAST = "\uffff";

  function rank(value) {
    return typeof value === "number" ? 0 : value.startsWith(LAST) ? 2 : 1;
  }

  function compare(sign) {
    return function (a, b) {
      const byRank = rank(a) - rank(b);
      if (byRank) {
        return byRank;
      }
      return sign * (typeof a === "number" ? a - b : collator.compare(a, b));
    };
  }

  /** Text for where the library takes HTML: its search, which reads entities, and the words on its buttons. */
  function escaped(text) {
    return /[&<]/.test(text) ? text.replaceAll("&", "&amp;").replaceAll("<", "&lt;") : text;
  }

  /** A spreadsheet takes what begins like a formula for one. Numbers may have a sign. */
  function harmless(text) {
    return /^[=+\-@\t\r]/.test(text) && !/^[+-]?[\d.,]+(e[+-]?\d+)?$/i.test(text) ? "'" + text : text;
  }

  /** Rows of a part: texts that occur often are there once, by number. */
  function rows(part, before) {
    const cells = part.cells.map((cell) =>
      typeof cell === "string"
        ? { text: cell, sort: cell, quiet: false }
        : { text: cell[0], sort: cell[2] ? LAST + cell[0] : cell[1] === null ? cell[0] : cell[1], quiet: cell[2] === 1 });
    return part.rows.map(function (row, place) {
      return {
        number: before + place + 1,
        id: row[0],
        cells: row[1].map((index) => cells[index]),
        facets: row[2].map((index) => (index < 0 ? null : part.values[index])),
        flags: row[3],
      };
    });
  }

  function recordColumn() {
    return {
      className: "record",
      orderable: true,
      type: "figure",
      data: null,
      render: function (_data, type, row) {
        if (type === "display") {
          const node = make("span", { class: "record" },
            make("a", { href: address(row.id), title: row.id, "aria-label": "Record " + row.number + ", " + row.id },
              count(row.number)));
          if (row.flags.length) {
            const names = kinds(row.flags);
            node.append(" ", make("button",
              { type: "button", class: "why", "aria-expanded": "false",
                "aria-label": names.map(words).join(", ") + ": say why" },
              ...names.map(badge)));
          }
          return node;
        }
        return type === "filter" ? escaped(row.id) : type === "export" ? row.id : row.number;
      },
    };
  }

  /** Short texts stay on one line; a column of long ones may wrap, but not into a word a line. */
  function width(index, found) {
    const longest = found.reduce((most, row) => Math.max(most, row.cells[index].text.length), 0);
    return longest <= SHORT ? "short" : longest <= 60 ? "middle" : "long";
  }

  function column(index, heading, found) {
    return {
      className: width(index, found) + (heading.classList.contains("num") ? " num" : ""),
      type: "figure",
      data: null,
      render: function (_data, type, row) {
        const cell = row.cells[index];
        if (type === "display") {
          return cell.quiet ? make("em", { class: "quiet" }, cell.text) : document.createTextNode(cell.text);
        }
        return type === "sort" ? cell.sort : type === "filter" ? escaped(cell.text) : cell.text;
      },
    };
  }

  function reasonsColumn() {
    return {
      className: "reasons",
      type: "figure",
      data: null,
      render: function (_data, type, row) {
        const text = row.flags.map((flag) => words(flag[0]) + ": " + flag[1]).join("; ");
        if (type === "display") {
          return document.createTextNode(text);
        }
        return type === "sort" ? text || LAST : type === "filter" ? escaped(text) : text;
      },
    };
  }

  /** Whether a row has the values that are chosen; null if none is. */
  function chosen() {
    const values = FACETS.map((name) => state.facets[name] || null);
    return values.some(Boolean)
      ? (row) => values.every((value, index) => value === null || row.facets[index] === value)
      : null;
  }

  class ReportTable {
    constructor(section) {
      this.section = section;
      this.name = section.dataset.table;
      this.parts = Number(section.dataset.parts);
      this.loaded = 0;
      this.lines = 0;
      this.headings = [...section.querySelectorAll("thead th")];
      this.titles = this.headings.map((heading) => heading.dataset.exported || heading.textContent);
    }

    async load(until) {
      const names = [];
      for (let part = this.loaded; part < until; part += 1) {
        names.push("table-" + this.name + "-" + part);
      }
      this.loaded = until;
      const found = [];
      for (const part of await Promise.all(names.map(load))) {
        for (const row of rows(part, this.lines)) {
          found.push(row);
        }
        this.lines += part.rows.length;
      }
      return found;
    }

    async open() {
      const wanted = state.tables[this.name] || readTable("");
      const last = this.headings.length;
      const found = await this.load(wanted.all ? this.parts : Number(this.section.dataset.first));
      const flagged = this.section.dataset.flagged !== undefined;
      const columns = this.headings.map((heading, index) =>
        index === 0 ? recordColumn()
          : flagged && index === last - 1 ? reasonsColumn()
            : column(index - 1, heading, found));
      for (const hidden of wanted.hidden) {
        if (hidden > 0 && hidden < last) {
          columns[hidden].visible = false;
        }
      }
      const self = this;
      const matches = chosen();
      this.api = new window.DataTable(this.section.querySelector("table"), {
        data: found,
        columns: columns,
        deferRender: true,
        autoWidth: false,
        order: wanted.order.filter((each) => each[0] < last),
        pageLength: wanted.length,
        search: { search: state.search },
        displayStart: wanted.page * wanted.length,
        lengthMenu: SIZES,
        layout: {
          topStart: "info",
          topEnd: { buttons: this.buttons() },
          bottomStart: "pageLength",
          bottomEnd: { paging: { buttons: 5 } },
        },
        language: {
          info: "Lines _START_ to _END_ of _TOTAL_",
          infoEmpty: "No line",
          infoFiltered: "(of _MAX_)",
          lengthMenu: "_MENU_ lines a page",
          emptyTable: "There is nothing in this table.",
          zeroRecords: "No line matches the filters.",
        },
        createdRow: function (element, row) {
          for (const kind of kinds(row.flags)) {
            if (Object.hasOwn(MARKS, kind)) {
              element.classList.add("flagged", kind);
            }
          }
        },
      });
      this.dress();
      if (matches) {
        this.filter(wanted.page);
      }
      this.api.on("order page length column-visibility", function () {
        window.setTimeout(writeState);
      });
      this.section.classList.toggle("one-page", this.lines <= SIZES[0]);
      const rest = this.section.querySelector(".load-rest");
      if (rest) {
        rest.addEventListener("click", function () {
          rest.disabled = true;
          self.all().catch((error) => fail(self.section, error));
        });
        rest.closest(".rest").hidden = this.loaded === this.parts;
      }
    }

    /** What the library's markup lacks: a region that can be scrolled with the keyboard. */
    dress() {
      const region = this.section.querySelector(".dt-layout-table");
      region.setAttribute("role", "region");
      region.setAttribute("tabindex", "0");
      region.setAttribute("aria-labelledby", this.name ? "table-" + this.name + "-title" : "");
      const api = this.api;
      this.section.querySelector("table").addEventListener("click", function (event) {
        const button = event.target.closest("button.why");
        if (button) {
          const row = api.row(button.closest("tr"));
          const open = row.child.isShown();
          if (open) {
            row.child.hide();
          } else {
            row.child(reasons(row.data().flags), "why").show();
          }
          button.setAttribute("aria-expanded", String(!open));
        }
      });
    }

    buttons() {
      const self = this;
      const options = {
        columns: ":visible",
        orthogonal: "export",
        modifier: { search: "applied", order: "applied", page: "all" },
        format: {
          header: (_html, _index, heading) => self.titles[self.headings.indexOf(heading)],
          body: (text) => harmless(String(text)),
        },
      };
      return [
        {
          extend: "colvis", text: "Columns", columns: ":gt(0)",
          columnText: (_api, index) => escaped(self.titles[index]),
        },
        {
          text: "Copy",
          className: "copy",
          action: function (_event, api, node) {
            const data = api.buttons.exportData(options);
            const lines = [data.header, ...data.body].map((line) =>
              line.map((text) => String(text).replace(/[\t\r\n]+/g, " ")).join("\t"));
            copy(lines.join("\n") + "\n", node[0] || node);
          },
        },
        {
          extend: "csvHtml5", text: "Download CSV", className: "csv", filename: "accelmark-" + this.name,
          title: null, footer: false, exportOptions: options,
        },
        {
          text: "Copy link",
          className: "link",
          action: (_event, _api, node) => copy(link(self.name), node[0] || node),
        },
      ];
    }

    /** Shows the lines that match search and facets. */
    filter(page) {
      const matches = chosen();
      this.api.search.fixed("facets", matches ? (_text, row) => matches(row) : null);
      this.api.search(state.search);
      this.api.draw();
      if (page) {
        this.api.page(Math.min(page, Math.max(0, this.api.page.info().pages - 1))).draw("page");
      }
    }

    async all() {
      this.api.rows.add(await this.load(this.parts)).draw(false);
      this.section.querySelector(".rest").hidden = true;
      summarise();
      writeState();
    }

    matching() {
      return this.api.page.info().recordsDisplay;
    }

    state() {
      if (!this.api) {
        return "";
      }
      const tokens = this.api.order().filter((each) => each[1]).map((each) => "o" + each[0] + each[1][0]);
      const hidden = this.headings.map((_heading, index) => index).filter((index) => !this.api.column(index).visible());
      if (hidden.length) {
        tokens.push("h" + hidden.join("-"));
      }
      const info = this.api.page.info();
      if (info.page > 0) {
        tokens.push("p" + (info.page + 1));
      }
      if (info.length !== SIZES[0]) {
        tokens.push("l" + info.length);
      }
      if (this.parts > Number(this.section.dataset.first) && this.loaded === this.parts) {
        tokens.push("a");
      }
      return tokens.join("_");
    }
  }

  function summarise() {
    const filtered = state.search || Object.values(state.facets).some(Boolean);
    const matching = tables.reduce((sum, each) => sum + each.matching(), 0);
    const all = tables.reduce((sum, each) => sum + each.lines, 0);
    document.getElementById("matches").textContent = filtered
      ? count(matching) + " of " + plural(all, "line") + " " + (matching === 1 ? "matches." : "match.")
      : plural(all, "line") + (tables.length > 1 ? " in " + tables.length + " tables." : ".");
    for (const each of tables) {
      each.section.classList.toggle("empty", each.matching() === 0);
    }
  }

  function applyFilters() {
    for (const each of tables) {
      each.filter(0);
    }
    summarise();
    writeState();
  }

  function fillFilters() {
    const form = document.getElementById("filters");
    const search = document.getElementById("search");
    search.value = state.search;
    for (const select of form.querySelectorAll("select")) {
      const value = state.facets[select.dataset.facet];
      if (value && ![...select.options].some((option) => option.value === value)) {
        select.append(make("option", { value: value }, value)); // a rare one, from a link
      }
      select.value = value || "";
      select.classList.toggle("set", Boolean(value));
    }
  }

  function listen() {
    const form = document.getElementById("filters");
    const search = document.getElementById("search");
    let timer;
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", function () {
      window.setTimeout(function () {
        state.search = "";
        state.facets = {};
        fillFilters();
        applyFilters();
      });
    });
    search.addEventListener("input", function () {
      window.clearTimeout(timer);
      timer = window.setTimeout(function () {
        state.search = search.value;
        applyFilters();
      }, 120);
    });
    form.addEventListener("change", function (event) {
      const select = event.target.closest("select");
      if (select) {
        state.facets[select.dataset.facet] = select.value;
        select.classList.toggle("set", Boolean(select.value));
        applyFilters();
      }
    });
    const button = document.getElementById("copy-page-link");
    button.addEventListener("click", () => copy(link(""), button));
    // Somebody pastes another link of the same page into the address bar.
    window.addEventListener("hashchange", function () {
      if (window.location.hash.startsWith("#?") && window.location.hash !== written) {
        window.location.reload();
      }
    });
  }

  async function openTables(sections) {
    window.DataTable.type("figure", "order", { asc: compare(1), desc: compare(-1) });
    readState();
    fillFilters();
    tables.push(...sections.map((section) => new ReportTable(section)));
    for (const each of tables) {
      await each.open().catch((error) => fail(each.section, error));
      await turn();
    }
    written = stateText("");
    summarise();
    listen();
    // The tables have grown: where the address points to is elsewhere now.
    const goal = state.at ? document.getElementById("table-" + state.at) : target();
    if (goal) {
      goal.scrollIntoView();
    }
  }

  function target() {
    const hash = window.location.hash;
    return hash.length > 1 && !hash.startsWith("#?") ? document.getElementById(hash.slice(1)) : null;
  }

  // ---------------------------------------------------------------- charts

  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const drawn = [];

  async function draw(place, spec) {
    const theme = await load("theme");
    await (loading.get("vega") || loading.set("vega", script("assets/vega.js")).get("vega"));
    drawn.push([place, spec]);
    await embed(place, spec, theme);
  }

  function embed(place, spec, theme) {
    // Vega gives the element that it draws into a role of its own; ours, with the words, is around it.
    if (!place.firstElementChild) {
      place.append(make("div"));
    }
    return window.vegaEmbed(place.firstElementChild, spec, {
      mode: "vega-lite",
      renderer: "svg",
      logLevel: 1, // errors only
      actions: false,
      // Expressions are interpreted: the page's policy forbids making code of text.
      ast: true,
      defaultStyle: false,
      tooltip: { disableDefaultStyle: true },
      config: fitting(dark.matches ? theme.dark : theme.light, place.clientWidth),
    });
  }

  /** Labels of legends cut where a small screen ends. */
  function fitting(config, width) {
    const limit = Math.max(120, Math.min(config.legend.labelLimit, width - 110));
    return { ...config, legend: { ...config.legend, labelLimit: limit } };
  }

  /** Lets the browser show what there is, and hear what a reader does, before the next piece of work. */
  function turn() {
    return new Promise((resolve) => window.setTimeout(resolve));
  }

  function idle() {
    return new Promise(function (resolve) {
      (window.requestIdleCallback || window.setTimeout)(resolve, { timeout: 300 });
    });
  }

  async function openCharts(group) {
    for (const place of group.querySelectorAll("[data-chart]")) {
      place.style.minHeight = place.dataset.height + "px"; // so that the page does not jump while they are drawn
    }
    const specs = new Map(await load(group.dataset.charts));
    for (const place of group.querySelectorAll("[data-chart]")) {
      await idle();
      try {
        await draw(place, specs.get(place.dataset.chart));
        place.style.minHeight = "";
      } catch (error) {
        fail(place.parentElement, error);
      }
    }
  }

  dark.addEventListener("change", async function () {
    const before = document.documentElement.dataset.ready;
    document.documentElement.dataset.ready = "colours";
    const theme = drawn.length ? await load("theme") : null;
    for (const [place, spec] of drawn) {
      await embed(place, spec, theme);
    }
    document.documentElement.dataset.ready = before;
  });

  // ---------------------------------------------------------------- a Record

  let table32;

  /** CRC-32 of a string's UTF-16 units, low byte first: which part of the index has it (record_pages.py: bucket). */
  function crc32(text) {
    table32 = table32 || Uint32Array.from({ length: 256 }, function (_unused, byte) {
      for (let bit = 0; bit < 8; bit += 1) {
        byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
      }
      return byte;
    });
    let crc = 0xffffffff;
    for (let index = 0; index < text.length; index += 1) {
      const unit = text.charCodeAt(index);
      crc = (crc >>> 8) ^ table32[(crc ^ unit) & 0xff];
      crc = (crc >>> 8) ^ table32[(crc ^ (unit >>> 8)) & 0xff];
    }
    return (crc ^ 0xffffffff) >>> 0;
  }

  async function find(identity, buckets) {
    const index = await load("index-" + (crc32(identity) % buckets));
    const entry = index.find((each) => each[0] === identity);
    if (!entry) {
      return null;
    }
    const records = await load("records-" + entry[1]);
    return records.find((each) => each.id === identity) || null;
  }

  function section(title, id, ...content) {
    return make("section", { "aria-labelledby": id }, make("h2", { id: id }, title), ...content);
  }

  function fieldsOf(group, place) {
    return section(group[0], "group-" + place,
      make("dl", { class: "fields" }, ...group[1].flatMap(([label, name, value]) =>
        [make("dt", { title: name }, label), make("dd", {}, value)])));
  }

  function repeatOf(record) {
    const button = make("button", { type: "button", id: "copy-command" }, "Copy");
    button.addEventListener("click", () => copy(record.command, button));
    return section("Repeat it", "repeat", make("div", { class: "command" }, make("code", {}, record.command), button));
  }

  async function show(record) {
    document.getElementById("title").textContent = record.title;
    document.title = record.title + document.title.slice(document.title.lastIndexOf(" – "));
    const place = document.getElementById("record");
    const parts = [make("p", { class: "identity" }, make("code", {}, record.id))];
    if (record.flags.length) {
      parts.push(section("Look twice", "doubts", reasons(record.flags)));
    }
    if (record.command) {
      parts.push(repeatOf(record));
    }
    let drawing = null;
    if (record.chart) {
      drawing = make("div", { class: "drawing", role: "img", "aria-label": record.description });
      parts.push(section("Raw samples", "samples",
        make("figure", { class: "chart" }, drawing, make("figcaption", {}, make("p", {}, record.description)))));
    } else if (record.description) {
      parts.push(section("Raw samples", "samples", make("p", {}, record.description)));
    }
    parts.push(make("div", { class: "groups" }, ...record.groups.map(fieldsOf)));
    if (record.log) {
      parts.push(section("The end of its log", "log",
        make("pre", { tabindex: "0", role: "region", "aria-labelledby": "log" }, record.log)));
    }
    place.replaceChildren(...parts);
    if (drawing) {
      await draw(drawing, record.chart);
    }
  }

  async function openRecord(place) {
    const said = document.getElementById("said");
    let identity;
    try {
      identity = decodeURIComponent(window.location.hash.slice(1));
    } catch {
      identity = window.location.hash.slice(1);
    }
    document.getElementById("identity").value = identity;
    drawn.length = 0;
    if (!identity) {
      return;
    }
    try {
      const record = await find(identity, Number(place.dataset.buckets));
      said.hidden = Boolean(record);
      if (record) {
        await show(record);
      } else {
        said.textContent = "There is no Record of this id in this report: " + identity;
        place.replaceChildren();
      }
    } catch (error) {
      fail(place, error);
    }
  }

  function listenForRecords(place) {
    document.getElementById("find").addEventListener("submit", function (event) {
      event.preventDefault();
      window.location.hash = "#" + encodeURIComponent(document.getElementById("identity").value.trim());
    });
    window.addEventListener("hashchange", () => openRecord(place));
  }

  // ---------------------------------------------------------------- start

  async function start() {
    const place = document.getElementById("record");
    if (place) {
      listenForRecords(place);
      await openRecord(place);
    }
    const sections = [...document.querySelectorAll("section[data-table]")];
    if (sections.length) {
      await openTables(sections);
    }
    document.documentElement.dataset.ready = "tables";
    for (const group of document.querySelectorAll("[data-charts]")) {
      await openCharts(group).catch((error) => fail(group, error));
    }
    document.documentElement.dataset.ready = "all";
  }

  start();
})();

// A table's numbers as marks: the paper's beside ours, a panel for each of its columns, or rows where these are fewer.

const shapes = [d3.symbolCircle, d3.symbolSquare, d3.symbolTriangle, d3.symbolCross, d3.symbolStar, d3.symbolWye];
const mark = (number, size = 55) => d3.symbol().type(shapes[number % shapes.length]).size(size)();
const paperMark = (size = 50) => d3.symbol().type(d3.symbolDiamond).size(size)();

/** [{title, lines: [{label, cells}]}], every panel of one unit. */
function panelsOf(cells) {
  const by = (outer, inner) => {
    const panels = new Map();
    for (const cell of cells) {
      const title = cell.unit === "1" ? cell[outer] : `${cell[outer]}, ${cell.unit}`;
      const lines = panels.get(title) ?? panels.set(title, new Map()).get(title);
      (lines.get(cell[inner]) ?? lines.set(cell[inner], []).get(cell[inner])).push(cell);
    }
    return [...panels].map(([title, lines]) => ({title, lines: [...lines].map(([label, own]) => ({label, cells: own}))}));
  };
  const columns = by("column", "row"), rows = by("row", "column");
  return columns.length <= rows.length ? columns : rows;
}

function scaleOf(lines, width) {
  const numbers = lines.flatMap(({cells}) => cells.flatMap((cell) => [cell.value, referenceOf(cell), ...(cell.interval ?? [])]))
                      .filter((value) => value != null && isFinite(value));
  const [low, high] = d3.extent(numbers);
  if (low > 0 && high / low > 100) return d3.scaleLog().domain([low, high]).range([0, width]).nice();
  return d3.scaleLinear().domain([Math.min(0, low), Math.max(0, high) || 1]).range([0, width]).nice();
}

/** Powers of ten where the scale is logarithmic. */
const ticksOf = (x) => x.base ? x.ticks().filter((value) => Number.isInteger(+Math.log10(value).toFixed(9))) : x.ticks(4);
const tickText = (value) => Math.abs(value) < 1e4 ? `${+value.toPrecision(6)}` : d3.format("~s")(value);

function tipOf(cell, texts) {
  return [element("b", {}, `${cell.row}, ${cell.column}`),
          referenceOf(cell) != null && `${cell.paper == null ? "formula" : "paper"}: ${referenceOf(cell)} ${cell.unit}`,
          `${cell.origin}: ${texts.get(cell) ?? ""} ${cell.value == null ? "" : cell.unit}`, cell.verdict && chip(cell),
          element("small", {}, "click for where it is from")];
}

/** Arrow keys go from mark to mark; one of them is in the tab order. */
function walkable(figure) {
  const marks = [...figure.querySelectorAll(".mark")];
  marks.forEach((one, position) => {
    one.setAttribute("tabindex", position === 0 ? 0 : -1);
    one.addEventListener("keydown", (event) => {
      const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
      const next = marks[position + step];
      if (!next) return;
      event.preventDefault();
      one.setAttribute("tabindex", -1);
      next.setAttribute("tabindex", 0);
      next.focus();
    });
  });
}

function drawMark(group, cell, x, y, number, texts) {
  const own = group.append("g").attr("class", `series-${number % shapes.length}`);
  if (cell.interval)
    own.append("line").attr("class", "interval").attr("x1", x(cell.interval[0])).attr("x2", x(cell.interval[1])).attr("y1", y).attr("y2", y);
  const show = (px, py) => showTip(px, py, ...tipOf(cell, texts));
  const path = own.append("path").attr("class", "mark").attr("d", mark(number)).attr("transform", `translate(${x(cell.value)},${y})`)
                   .attr("role", "button")
                   .attr("aria-label", `${cell.row}, ${cell.column}: ${texts.get(cell)} ${cell.unit}, ${cell.origin}` +
                                           `${referenceOf(cell) == null ? "" : `; paper ${referenceOf(cell)}`}; ${cell.verdict ?? "not compared"}`)
                   .node();
  path.addEventListener("pointermove", (event) => show(event.clientX, event.clientY));
  path.addEventListener("pointerleave", hideTip);
  path.addEventListener("focus", () => {
    if (!path.matches(":focus-visible")) return;
    const box = path.getBoundingClientRect();
    show(box.right, box.bottom);
  });
  path.addEventListener("blur", hideTip);
  path.addEventListener("click", () => openNumber(cell));
  path.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    openNumber(cell);
  });
}

function drawBand(group, cell, x, y) {
  const [low, high] = x.domain(), [from, to] = bandOf(cell);
  const begin = Math.max(low, from), end = Math.min(high, to);
  if (end < begin) return;
  group.append("rect").attr("class", "band").attr("x", x(begin)).attr("width", Math.max(1, x(end) - x(begin))).attr("y", y - 7).attr("height", 14);
}

function drawPanel({title, lines}, series, texts) {
  const step = 20, left = 138, right = 18, bottom = 20, width = 370;
  const height = lines.length * step + bottom + 4;
  const svg = d3.create("svg").attr("viewBox", [0, 0, width, height]).attr("role", "group").attr("aria-label", title);
  const x = scaleOf(lines, width - left - right);
  const plot = svg.append("g").attr("transform", `translate(${left},4)`);
  plot.append("g").attr("class", "axis").attr("transform", `translate(0,${height - bottom - 4})`)
      .call(d3.axisBottom(x).tickValues(ticksOf(x)).tickFormat(tickText).tickSize(-(height - bottom - 4)).tickSizeOuter(0));
  lines.forEach(({label, cells}, position) => {
    const y = (position + 0.5) * step;
    const text = plot.append("text").attr("class", "label").attr("x", -8).attr("y", y).attr("dy", "0.35em");
    text.text(label.length > 21 ? `${label.slice(0, 20)}…` : label).append("title").text(label);
    const compared = cells.find((cell) => referenceOf(cell) != null);
    if (compared?.tolerance != null) drawBand(plot, compared, x, y);
    if (compared)
      plot.append("path").attr("class", "papers").attr("d", paperMark()).attr("transform", `translate(${x(referenceOf(compared))},${y})`);
    for (const cell of cells)
      if (cell.value != null && isFinite(cell.value)) drawMark(plot, cell, x, y, series.indexOf(cell.origin), texts);
  });
  return element("div", {class: "panel"}, element("h4", {}, title), svg.node());
}

function legendEntry(d, name, className) {
  const svg = d3.create("svg").attr("viewBox", "-8 -8 16 16").attr("class", `key ${className}`).attr("aria-hidden", true);
  svg.append("path").attr("class", className === "papers-key" ? "papers" : "sample").attr("d", d);
  return element("li", {}, svg.node(), ` ${name}`);
}

/** Of the cells that have a value; `texts` says what a table has of each. */
function figureOf(cells, texts, caption) {
  const drawn = cells.filter((cell) => cell.value != null && isFinite(cell.value));
  if (!drawn.length) return "";
  const series = [...new Set(drawn.map((cell) => cell.origin))];
  const figure = element("figure", {class: "numbers"}, element("figcaption", {}, caption),
                         element("ul", {class: "legend"}, ...(drawn.some((cell) => referenceOf(cell) != null) ? [legendEntry(paperMark(), "paper", "papers-key")] : []),
                                 ...series.map((name, number) => legendEntry(mark(number), name, `series-${number % shapes.length}`))),
                         element("div", {class: "panels"}, ...panelsOf(drawn).map((panel) => drawPanel(panel, series, texts))));
  walkable(figure);
  return figure;
}

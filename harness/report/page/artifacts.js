// Each table and figure: what it came to, drawn and in numbers.

const cellsOfArtifact = new Map(report.artifacts.map((artifact) => [
  artifact.id, artifact.tables.flatMap(({places}) => places.map(([, , cell]) => report.cells[cell]))
]));

/** How many have which verdict, as signs. */
function countsOf(cells) {
  return verdicts.map(({name, sign}) => {
    const count = cells.filter((cell) => cell.verdict === name).length;
    return count ? element("span", {class: `chip ${cssName(name)}`, title: `${count} ${name}`}, `${sign} ${count}`,
                           element("span", {class: "hidden"}, ` ${name}`)) : null;
  }).filter(Boolean);
}

function tableOf({columns, rows, places}, title) {
  const cellAt = new Map(places.map(([row, column, cell]) => [`${row} ${column}`, report.cells[cell]]));
  const lines = rows.map((texts, row) => ({texts, at: (column) => cellAt.get(`${row} ${column}`), numbers: []}));
  const shows = (column) => (line, td) => {
    const cell = line.at(column), before = line.at(column - 2);
    if (cell) {
      line.numbers.push({td, cell});
      return numberButton(cell, td, line.texts[column]);
    }
    return before?.verdict ? chip(before) : line.texts[column];
  };
  const value = (text) => text === "" ? -Infinity : isNaN(parseFloat(text)) ? text : parseFloat(text);
  const {box} = sortedTable(null, title, columns.map(({name, number}, column) => ({
    title: name, number, sort: (line) => number ? value(line.texts[column]) : line.texts[column], shows: shows(column)
  })), lines, {paging: false, row: (tr, line) => line.tr = tr});
  const filtered = () => {
    for (const {tr, numbers} of lines) {
      const found = numbers.map(({td, cell}) => td.classList.toggle("found", filtering() && passes(cell)));
      tr.hidden = filtering() && !found.includes(true);
    }
  };
  return {box, filtered};
}

function drawTable(artifact, table) {
  const cells = table.places.map(([, , cell]) => report.cells[cell]);
  const texts = new Map(table.places.map(([row, column, cell]) => [report.cells[cell], table.rows[row][column]]));
  const title = table.scale ? `${artifact.title} (at ${table.scale})` : artifact.title;
  const caption = `${table.scale ? `At ${table.scale}. ` : ""}In a grey band a number counts as reproduced.`;
  const notes = table.remarks.length && element("details", {class: "notes"}, element("summary", {}, `Notes (${table.remarks.length})`),
                                                element("ul", {}, ...table.remarks.map((remark) => element("li", {}, remark))));
  const made = tableOf(table, title);
  return {box: element("div", {}, figureOf(cells, texts, caption), made.box, notes || ""), filtered: made.filtered};
}

function artifactBox(artifact) {
  const counts = element("span", {class: "counts"});
  const body = element("div", {class: "body"});
  const box = element("details", {class: "artifact", id: artifact.id}, element("summary", {},
      element("span", {class: "name"}, artifact.id), element("span", {class: "title"}, artifact.title), counts), body);
  let tables = [], late = true, near = false;
  const draw = () => {
    if (!body.childElementCount) {
      tables = artifact.tables.map((table) => drawTable(artifact, table));
      body.append(...tables.map((table) => table.box));
    }
    if (late) tables.forEach((table) => table.filtered());
    late = false;
  };
  const filtered = () => {
    const cells = cellsOfArtifact.get(artifact.id).filter(passes);
    box.hidden = !cells.length;
    counts.replaceChildren(...countsOf(cells));
    late = true;
    if (near && box.open) draw();
  };
  // What is not to be seen is drawn when it comes near.
  new IntersectionObserver(([{isIntersecting}]) => {
    near = isIntersecting;
    if (near && box.open) draw();
  }, {rootMargin: "50%"}).observe(box);
  box.addEventListener("toggle", () => box.open && draw());
  return Object.assign(box, {draw, filtered});
}

const artifactBoxes = report.artifacts.map(artifactBox);

function openFirstShown() {
  const first = artifactBoxes.find((box) => !box.hidden);
  if (first) first.open = true;
}
function openShown(open) {
  for (const box of artifactBoxes)
    if (!box.hidden) box.open = open;
}

/** What of a paper has no numbers here, and why. */
function leftOut({id, inventory}) {
  const without = inventory.filter(({artifacts}) => !artifacts.some((artifact) => titles.has(artifact)));
  return without.length && element("details", {class: "notes"},
      element("summary", {}, `What of ${id} is not here, and why (${without.length})`),
      element("ul", {}, ...without.map(({where, what, says}) => element("li", {}, element("b", {}, where), ` ${what}: ${says}`))));
}

function drawArtifacts() {
  document.getElementById("artifacts-box").append(...report.papers.flatMap((paper) => [
    element("h3", {}, paper.title, " ", element("small", {}, paper.id)),
    ...artifactBoxes.filter(({id}) => paperOf(id) === paper.id), leftOut(paper) || ""
  ]));
  document.getElementById("open-all").addEventListener("click", () => openShown(true));
  document.getElementById("fold-all").addEventListener("click", () => openShown(false));
  changes.on("filter.artifacts", () => artifactBoxes.forEach((box) => box.filtered()));
}

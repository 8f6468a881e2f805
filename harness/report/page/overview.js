// How many claims and cells of each paper and source have which verdict.

function bar(what, numbers, paper, source) {
  const parts = verdicts.map(({name, sign}) => {
    const count = numbers.filter(({verdict}) => verdict === name).length;
    if (!count) return null;
    const said = `${count} ${what} ${name}`;
    return element("button", {
      type: "button", class: `part ${cssName(name)}`, style: `flex-grow: ${count}`,
      "aria-label": `${said}, ${source}: show them`, title: said,
      "data-filter": JSON.stringify({paper, verdict: name, source, text: ""}),
      onclick: () => showOnly({paper, verdict: name, source, text: ""}, what === "claims" ? "claims" : "artifacts")
    }, element("span", {"aria-hidden": true}, `${sign} ${count}`));
  }).filter(Boolean);
  return element("div", {class: "bar", "data-what": what, role: "group", "aria-label": `${what}, ${source}`},
                 ...(parts.length ? parts : [element("span", {class: "none"}, "–")]),
                 element("span", {class: "share"}, share(numbers)));
}

/** Shows these alone; once more, everything again. */
function showOnly(values, section) {
  const again = Object.entries(values).every(([name, value]) => filter[name] === value);
  setFilter(again ? {paper: "", verdict: "", source: "", text: ""} : values);
  if (!again) {
    if (section === "artifacts") openFirstShown();
    document.getElementById("filters").scrollIntoView();
    if (section === "artifacts") document.getElementById("artifacts").scrollIntoView();
  }
}

/** Of what was decided, "85 %". */
function share(numbers) {
  const count = (verdict) => numbers.filter((number) => number.verdict === verdict).length;
  const decided = count("reproduced") + count("not reproduced");
  return decided ? `${Math.round(100 * count("reproduced") / decided)} %` : "";
}

/** A source's name, and where something was measured, on what. */
function sourceLabel(source, numbers) {
  const measured = numbers.filter((number) => number.source === "measured");
  const devices = [...new Set(measured.flatMap(({records}) => records.map(({device}) => device)))];
  return element("span", {class: "source"}, source, ...devices.map((device) => element("small", {title: device}, device)));
}

function paperCard({id, title}) {
  const grid = element("div", {class: "bars"}, ...["source", "claims", "numbers in tables and figures"].map(
      (head) => element("span", {class: "head"}, head)));
  const claims = claimsOf(id), cells = cellsOf(id).filter((cell) => cell.verdict);
  for (const source of new Set([...claims, ...cells].map((number) => number.origin))) {
    const own = (numbers) => numbers.filter((number) => number.origin === source);
    grid.append(sourceLabel(source, own([...claims, ...cells])), bar("claims", own(claims), id, source),
                bar("numbers", own(cells), id, source));
  }
  return element("article", {class: "paper", "aria-label": id}, element("h3", {}, title, " ", element("small", {}, id)), grid);
}

function drawOverview() {
  const count = report.papers.length;
  document.getElementById("introduction").textContent =
      `This page sets numbers that ${["no paper reports", "a paper reports", "two papers report", "three papers report"][count] ?? `${count} papers report`} beside those that frugal gets when it ` +
      "runs the same trainings, and says of each whether it is reproduced, from which source it is, and how to make it again. " +
      "A bar is of one source, and ends with the share that is reproduced of what is decided. Click a part of a bar to see what is in it.";
  document.getElementById("legend").append(...verdicts.map(
      ({name, sign, means}) => element("li", {title: means}, element("span", {class: `swatch ${cssName(name)}`, "aria-hidden": true}, sign),
                                       ` ${name}`, element("span", {class: "hint"}, `: ${means}`))));
  document.getElementById("papers").append(...report.papers.map(paperCard));
  changes.on("filter.overview", () => {
    for (const part of document.querySelectorAll(".part"))
      part.setAttribute("aria-pressed", String(Object.entries(JSON.parse(part.dataset.filter))
                                                   .every(([name, value]) => filter[name] === value)));
  });
}

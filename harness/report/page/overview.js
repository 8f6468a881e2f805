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
                 ...(parts.length ? parts : [element("span", {class: "none"}, "–")]));
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

/** "112 of 131 decided ones, 85 %" */
function share(counts) {
  const reproduced = counts["reproduced"] ?? 0;
  const decided = reproduced + (counts["not reproduced"] ?? 0);
  return decided ? `${reproduced} of ${decided} (${Math.round(100 * reproduced / decided)} %)` : "none of 0";
}

function paperCard({id, title, claims, cells}) {
  const grid = element("div", {class: "bars"}, element("span", {class: "head of-source"}, "source"),
                       element("span", {class: "head"}, "claims, reproduced ", element("b", {}, share(claims))),
                       element("span", {class: "head"}, "numbers, reproduced ", element("b", {}, share(cells))));
  const own = {claims: claimsOf(id), cells: cellsOf(id).filter((cell) => cell.verdict)};
  for (const source of new Set([...own.claims, ...own.cells].map((number) => number.origin)))
    grid.append(element("span", {class: "source"}, source), ...["claims", "cells"].map(
        (what) => bar(what === "claims" ? what : "numbers", own[what].filter((number) => number.origin === source), id, source)));
  return element("article", {class: "paper", "aria-label": id}, element("h3", {}, title, " ", element("small", {}, id)),
                 grid);
}

function drawOverview() {
  const count = report.papers.length;
  document.getElementById("introduction").textContent =
      `This page sets numbers that ${["no paper reports", "a paper reports", "two papers report", "three papers report"][count] ?? `${count} papers report`} beside those that frugal gets when it ` +
      "runs the same trainings, and says of each whether it is reproduced, from which source it is, and how to make it again. " +
      "A bar is of one source: click a part of it to see what is in it. Above the bars each claim and number counts once, as the " +
      "paper's own program where that is known.";
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

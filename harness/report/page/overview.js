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
                 ...(parts.length ? parts : [element("span", {class: "none"}, "none")]),
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
  const grid = element("div", {class: "bars"}, ...["source", "claims: statements of the paper", "numbers in its tables and figures"].map(
      (head) => element("span", {class: "head"}, head)));
  const claims = claimsOf(id), cells = cellsOf(id).filter((cell) => cell.verdict);
  const bySource = d3.rollups([...claims, ...cells], (numbers) => numbers.length, ({origin}) => origin);
  for (const [source] of d3.sort(bySource, ([, count]) => -count)) {
    const own = (numbers) => numbers.filter((number) => number.origin === source);
    grid.append(sourceLabel(source, own([...claims, ...cells])), bar("claims", own(claims), id, source),
                bar("numbers", own(cells), id, source));
  }
  return element("article", {class: "paper", "aria-label": id}, element("h3", {}, title, " ", element("small", {}, id)), grid);
}

/** What the sources are that the page has. */
function sourcesInWords() {
  const origins = [...report.claims, ...report.cells].map(({origin}) => origin);
  return [["formula", /^formula/, " evaluates the paper’s equations."],
          ["virtual:", /^virtual:/, " executes a training on a described machine: memory is counted, and time is modelled."],
          ["as", / as /, " adds what the paper’s own program kept and sent besides: hold the paper’s numbers against this row."],
          ["measured", /^measured/, " ran on the device that is named."]]
      .filter(([, pattern]) => origins.some((origin) => pattern.test(origin)))
      .flatMap(([name, , means]) => [" ", element("code", {}, name), means]);
}

function drawOverview() {
  const count = report.papers.length;
  document.getElementById("introduction").append(
      `This page sets numbers that ${["no paper reports", "a paper reports", "two papers report", "three papers report"][count] ?? `${count} papers report`} ` +
      "beside frugal’s own, and says of each whether it is reproduced. Each source has a row.", ...sourcesInWords(),
      " The percentage is ✓ of ✓ and ✗; small parts of a bar are drawn wider than they are. Click a part to see its numbers: each opens to why it has its verdict, " +
      "and to the command that makes it again.");
  const present = new Set([...report.claims, ...report.cells].map(({verdict}) => verdict));
  document.getElementById("legend").append(...verdicts.filter(({name}) => present.has(name)).map(
      ({name, sign, means}) => element("li", {}, element("span", {class: `swatch ${cssName(name)}`, "aria-hidden": true}, sign),
                                       ` ${name}`, element("span", {class: "hint"}, `: ${means}`))));
  document.getElementById("papers").append(...report.papers.map(paperCard));
  changes.on("filter.overview", () => {
    for (const part of document.querySelectorAll(".part"))
      part.setAttribute("aria-pressed", String(Object.entries(JSON.parse(part.dataset.filter))
                                                   .every(([name, value]) => filter[name] === value)));
  });
}

// What the page shows (docs/report.md), and which part of it.
const report = JSON.parse(document.getElementById("document").textContent);

const verdicts = [
  {name: "reproduced", sign: "✓", means: "the value, with its whole interval, is as near to the paper's as was said beforehand"},
  {name: "not reproduced", sign: "✗", means: "the value and its whole interval are farther off"},
  {name: "undecided", sign: "?", means: "the interval has values of both kinds, or there is none: more rounds would tell"},
  {name: "calibrated", sign: "◎", means: "something was fitted to this number: it counts neither for nor against"},
  {name: "not comparable", sign: "≁", means: "the paper's number is of another run"},
  {name: "not measurable here", sign: "∅", means: "there is no value"}
];

const referenceOf = (number) => number.paper ?? number.formula;

/** From where to where a number counts as reproduced; infinite on the side that is open. Of a direction the end does not. */
function bandOf({tolerance, relation, no_effect: without, ...number}) {
  const reference = referenceOf(number);
  if (relation === "direction") return reference > without ? [without, Infinity] : [-Infinity, without];
  return [relation === "at most" ? -Infinity : reference - tolerance, relation === "at least" ? Infinity : reference + tolerance];
}

/** Every text stands once in the document, and what is usual is left out of it. */
function expand(object) {
  for (const key of report.shared)
    if (key in object) object[key] = report.texts[object[key]];
  return Object.assign(object, {scale: object.scale ?? "1", status: object.status ?? "ok"});
}
for (const list of [report.cells, report.claims, report.records]) list.forEach(expand);

const titles = new Map(report.artifacts.map((artifact) => [artifact.id, artifact.title]));
const paperOf = (artifact) => artifact.split("/")[0];
for (const number of [...report.cells, ...report.claims]) {
  number.of = paperOf(number.artifact);
  number.records = (number.records ?? []).map((position) => report.records[position]);
  number.words = [number.id, number.statement, number.artifact, titles.get(number.artifact), number.row, number.column,
                  number.reason, number.note, number.justification].join(" ").toLowerCase();
}
const claimsOf = (paper) => report.claims.filter((claim) => claim.of === paper);
const cellsOf = (paper) => report.cells.filter((cell) => cell.of === paper);

/** What the user wants to see; empty: everything. */
const filter = {paper: "", verdict: "", source: "", text: ""};
const filtering = () => Object.values(filter).some((value) => value !== "");
const changes = d3.dispatch("filter");

function setFilter(values) {
  Object.assign(filter, values);
  changes.call("filter");
}

function passes(number) {
  return (!filter.paper || number.of === filter.paper) && (!filter.verdict || number.verdict === filter.verdict) &&
      (!filter.source || number.origin === filter.source) &&
      filter.text.toLowerCase().split(/\s+/).every((word) => number.words.includes(word));
}

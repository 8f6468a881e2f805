// Where a number is from.

const commandsOf = (records) => [...new Set(records.map((record) => record.command))];
const exact = (value, unit) => value == null ? null : `${value} ${unit}`;

const toleranceOf = ({tolerance, relation, unit, justification}) => tolerance == null ? null
    : relation === "direction" ? justification : `${tolerance} ${unit}${justification ? `: ${justification}` : ""}`;

function bandText(number) {
  const {tolerance, relation, unit} = number;
  if (referenceOf(number) == null || tolerance == null) return null;
  const [low, high] = bandOf(number);
  if (relation === "direction") return isFinite(low) ? `above ${low} ${unit}` : `below ${high} ${unit}`;
  if (!isFinite(high)) return `from ${low} ${unit}`;
  return isFinite(low) ? `${low} to ${high} ${unit}` : `up to ${high} ${unit}`;
}

function numberFacts(number) {
  const {unit} = number;
  const read = number.read && number.read !== "printed" ? ` (${number.read})` : "";
  return facts([
    ["verdict", number.verdict ? chip(number) : "the paper has nothing to compare it with"],
    ["value", exact(number.value, unit) ?? (number.status === "ok" ? "none" : number.status)],
    ["interval, 95 %", number.interval && `${number.interval[0]} to ${number.interval[1]} ${unit}`],
    ["samples", number.samples ?? (number.value == null || number.source === "measured" ? null : "none: the value is exact")],
    ["source", number.origin],
    ["the paper's number", number.paper_oom ? "out of memory" : number.paper == null ? null : exact(number.paper, unit) + read],
    ["the formula's number", exact(number.formula, unit)],
    ["reproduced where", bandText(number)], ["tolerance", toleranceOf(number)], ["reason", number.reason],
    ["without any effect", noEffect(number)], ["fitted", number.fitted ? "to meet the paper's number" : null],
    ["note", number.note]
  ]);
}

function recordFacts(record) {
  const environment = element("details", {}, element("summary", {}, "Environment"),
                              element("pre", {}, JSON.stringify(report.environments[record.environment ?? 0], null, 1)));
  const quantities = record.quantities?.length && element("table", {}, ...record.quantities.map(
      ([name, value, unit]) => element("tr", {}, element("td", {}, name), element("td", {class: "number"}, value), element("td", {}, unit))));
  return element("section", {class: "record"}, element("h3", {}, `${record.artifact}: ${record.case}`), facts([
    ["make it again", command(record.command)],
    ["ended", `${record.status === "ok" ? "well" : `${record.status}: ${record.reason}`}, ${record.ended}`],
    ["on", record.on + (record.scale === "1" ? "" : `, scale ${record.scale}`)], ["device", record.device],
    ["build", `commit ${record.build}`], ["program, hash", record.program && element("code", {}, record.program)],
    ["machine, hash", record.machine && element("code", {}, record.machine)],
    ["fingerprint", element("code", {}, record.fingerprint)], ["record", `${record.file}, line ${record.line}`],
    ["quantities", quantities || null], ["", environment]
  ]));
}

function open(title, ...content) {
  const dialog = document.getElementById("provenance");
  document.getElementById("provenance-heading").textContent = title;
  document.getElementById("provenance-box").replaceChildren(...content);
  hideTip();
  dialog.showModal();
  dialog.scrollTop = 0;
}

function openNumber(number) {
  const most = 5;  // more are folded
  const shown = number.records.slice(0, most).map(recordFacts);
  const rest = number.records.slice(most);
  const from = number.source === "formula" ? "It follows from a formula or a schedule and needs no record."
      : number.records.length === 0 ? "There is no record that it could be taken from."
      : `It is taken from ${number.records.length === 1 ? "this record" : `these ${number.records.length} records`}:`;
  const more = element("details", {}, element("summary", {}, `${rest.length} more records`));
  more.addEventListener("toggle", () => more.append(...rest.map(recordFacts)), {once: true});
  open(number.statement ?? `${number.artifact}: ${number.row}, ${number.column}`, numberFacts(number), element("p", {}, from),
       ...shown, rest.length ? more : "");
}
const openRecord = (record) => open("Record", recordFacts(record));

/** Our number, which opens to where it is from. */
function numberButton(number, _, text) {
  const {sign} = verdicts.find(({name}) => name === number.verdict) ?? {};
  const words = text ?? (number.ours || (number.status === "ok" ? "none" : number.status));
  return element("button", {type: "button", class: "value", "aria-label": `${words}${number.verdict ? `, ${number.verdict}` : ""}: where it is from`,
                            onclick: () => openNumber(number)}, words);
}

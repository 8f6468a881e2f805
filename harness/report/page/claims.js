// The table of claims.

const noEffect = (number) => number.no_effect == null ? null : `${number.no_effect} ${number.unit}`;

function claimDetail(claim) {
  return element("div", {class: "detail"}, facts([
    ["stated by the paper", claim.stated], ["tolerance", toleranceOf(claim)], ["reason", claim.reason], ["note", claim.note],
    ["without any effect", noEffect(claim)],
    ["make it again", claim.records.length ? element("div", {}, ...commandsOf(claim.records).map(command)) : null],
    ["more", element("button", {type: "button", onclick: () => openNumber(claim)}, "Where this number is from")]
  ]));
}

function toggleDetail(table, line, claim) {
  const row = table.row(line);
  const opening = !row.child.isShown();
  if (opening) row.child(claimDetail(claim), "detail-row").show();
  else row.child.hide();
  line.querySelector(".unfold").setAttribute("aria-expanded", String(opening));
}

function drawClaims() {
  const fold = (claim) => element("button", {
    type: "button", class: "unfold", "aria-expanded": "false", "aria-label": `Details of ${claim.id}`
  }, element("span", {"aria-hidden": true}, "▸"));
  const columns = [
    {title: "", shows: fold},
    {title: "Claim", sort: (claim) => `${claim.of} ${claim.id}`,
     shows: (claim) => [element("small", {}, claim.of), element("div", {}, claim.id)]},
    {title: "Statement", sort: (claim) => claim.statement, shows: (claim) => claim.statement},
    {title: "Paper", number: true, sort: (claim) => claim.paper ?? claim.formula ?? -Infinity, shows: (claim) => claim.stated},
    {title: "frugal", number: true, sort: (claim) => claim.value ?? -Infinity, shows: numberButton},
    {title: "Source", sort: (claim) => claim.origin, shows: (claim) => claim.origin},
    {title: "Verdict", sort: (claim) => claim.verdict, shows: (claim) => chip(claim)}
  ];
  const {box, table} = sortedTable("claims-table", "Claims", columns, report.claims, {shown: passes, row: (line, claim) => {
    line.addEventListener("click", (event) => {
      const other = event.target.closest("button");
      if (!other || other.matches(".unfold")) toggleDetail(table, line, claim);
    });
  }});
  document.getElementById("claims-box").append(box);
  changes.on("filter.claims", () => table.draw());
}

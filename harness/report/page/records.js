// The records, the user's own runs, errors on published runs, and pictures.

function drawRecords() {
  const columns = [
    {title: "Case", sort: (record) => `${record.artifact} ${record.case}`,
     shows: (record) => element("button", {type: "button", class: "value", onclick: () => openRecord(record)},
                                element("small", {}, record.artifact), element("div", {}, record.case))},
    {title: "On", sort: (record) => record.on, shows: (record) => record.on + (record.scale === "1" ? "" : ` at ${record.scale}`)},
    {title: "Ended", sort: (record) => `${record.status} ${record.ended}`,
     shows: (record) => [record.status === "ok" ? "ok" : element("b", {title: record.reason}, record.status), " ", element("small", {}, record.ended)]},
    {title: "Build", sort: (record) => record.build, shows: (record) => record.build},
    {title: "Command", sort: (record) => record.command, shows: (record) => command(record.command)}
  ];
  document.getElementById("records-box").append(sortedTable("records-table", "Records", columns, report.records, {search: true}).box);
}

function drawRuns() {
  const runs = report.records.filter((record) => record.artifact === "measure");
  document.getElementById("runs").hidden = !runs.length;
  document.getElementById("runs-box").append(...runs.map((record) => element("details", {class: "run"}, element("summary", {}, record.case),
                                                                              recordFacts(record))));
}

function drawPublished() {
  const {columns, rows} = report.published;
  document.getElementById("published").hidden = !rows.length;
  if (!rows.length) return;
  const box = sortedTable("published-table", "Errors on published runs", columns.map(({name, number}, position) => ({
    title: name, number, sort: (row) => number ? Number(row[position]) : row[position], shows: (row) => row[position]
  })), rows, {paging: false}).box;
  document.getElementById("published-box").append(box);
}

function drawPictures() {
  document.getElementById("pictures").hidden = !report.pictures.length;
  document.getElementById("pictures-box").append(...report.pictures.map(({name, address}) => element("figure", {},
      element("img", {src: address, alt: name, loading: "lazy"}), element("figcaption", {}, name))));
}

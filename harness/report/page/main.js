// Filters, light and dark, paper; then everything is drawn.

const form = document.getElementById("filters");

function fillFilters() {
  const options = (name, label, values) => form.elements[name].append(element("option", {value: ""}, label),
      ...values.map((value) => element("option", {value}, value)));
  const numbers = [...report.claims, ...report.cells];
  options("paper", "all papers", report.papers.map(({id}) => id));
  options("verdict", "all verdicts", verdicts.map(({name}) => name).filter((name) => numbers.some(({verdict}) => verdict === name)));
  options("source", "all sources", [...new Set(numbers.map(({origin}) => origin))]);
  form.addEventListener("input", () => setFilter(Object.fromEntries(new FormData(form))));
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", (event) => {
    event.preventDefault();
    setFilter({paper: "", verdict: "", source: "", text: ""});
  });
  changes.on("filter.form", () => {
    for (const [name, value] of Object.entries(filter))
      if (form.elements[name].value !== value) form.elements[name].value = value;
    const some = (numbers) => filtering() ? `${numbers.filter(passes).length} of ${numbers.length}` : `${numbers.length}`;
    form.querySelector("output").textContent = `${some(report.claims)} claims, ${some(report.cells)} numbers, ` +
        `${report.cells.filter((cell) => cell.verdict && passes(cell)).length} of them with a verdict`;
    form.classList.toggle("filtering", filtering());
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, textarea, select")) return;
    event.preventDefault();
    form.elements.text.focus();
  });
}

/** As the system has it, until the button is pressed; that is kept where the browser lets the page. */
function switchTheme() {
  const button = document.getElementById("theme"), root = document.documentElement;
  const dark = () => (root.dataset.theme ?? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light")) === "dark";
  const name = () => button.textContent = dark() ? "☀ Light" : "☾ Dark";
  try {
    if (localStorage.theme) root.dataset.theme = localStorage.theme;
  } catch {}
  button.addEventListener("click", () => {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.theme = root.dataset.theme;
    } catch {}
    name();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", name);
  name();
}

/** On paper everything that the filter shows is unfolded, and every claim is in the table. */
function prepareForPaper() {
  let folded = [], length = 25;
  const claims = () => $("#claims-table").DataTable();
  addEventListener("beforeprint", () => {
    folded = [];
    for (const kind of [".artifact:not([hidden])", ".timeline", ".run", ".notes"])  // notes are within what is drawn by then
      for (const details of document.querySelectorAll(`${kind}:not([open])`)) {
        folded.push(details);
        details.open = true;
        details.draw?.();
      }
    length = claims().page.len();
    claims().page.len(-1).draw();
  });
  addEventListener("afterprint", () => {
    folded.forEach((details) => details.open = false);
    claims().page.len(length).draw();
  });
}

fillFilters();
switchTheme();
drawOverview();
drawClaims();
drawArtifacts();
drawTimelines();
drawRuns();
drawPublished();
drawPictures();
drawRecords();
prepareForPaper();
changes.call("filter");
document.documentElement.dataset.drawn = "";

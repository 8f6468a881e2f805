// Elements of the page.

/** element("td", {class: "x", onclick: f}, "text", another) */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child != null && child !== ""));
  return made;
}

const cssName = (verdict) => (verdict ?? "").replaceAll(" ", "-");

/** Of a number; `expected`: the paper contradicts itself, so that it would not be reproduced. */
function chip({verdict, expected, relation}) {
  const {sign} = verdicts.find(({name}) => name === verdict);
  return element("span", {class: `chip ${cssName(verdict)}`}, `${sign} ${relation === "direction" ? "direction " : ""}${verdict}` +
                 (expected && verdict === "not reproduced" ? ", as expected" : ""));
}

function copyButton(text) {
  const button = element("button", {type: "button", class: "copy"}, "Copy");
  button.addEventListener("click", async () => {
    const command = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(command);  // for a browser that does not let the page copy
    await navigator.clipboard.writeText(text).then(() => button.textContent = "Copied",
                                                   () => button.textContent = "Selected: press Ctrl+C");
  });
  return button;
}
const command = (text) => element("div", {class: "command"}, element("code", {}, text), copyButton(text));

/** Lines of a name and what it is; those without are left out. */
function facts(entries) {
  const list = element("dl");
  for (const [name, value] of entries)
    if (value != null && value !== "") list.append(element("dt", {}, name), element("dd", {}, value));
  return list;
}

/** A box of its own, in which what is wide is scrolled. */
const scrolled = (label, ...children) => element("div", {class: "scroll", role: "region", "aria-label": label, tabindex: 0},
                                                 ...children);

const tip = document.getElementById("tip");
function showTip(x, y, ...lines) {
  tip.replaceChildren(...lines.filter(Boolean).map((line) => line instanceof Node ? line : element("div", {}, line)));
  tip.hidden = false;
  const {width, height} = tip.getBoundingClientRect();
  tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - width - 4))}px`;
  tip.style.top = `${y + 18 + height > innerHeight ? Math.max(4, y - height - 12) : y + 18}px`;
}
const hideTip = () => tip.hidden = true;
addEventListener("keydown", (event) => event.key === "Escape" && hideTip());
addEventListener("scroll", hideTip, {passive: true});

/** A column's head as HTML, which may be broken behind each part of a name. */
const headOf = (text) => element("th", {}, text).innerHTML.replace(/[+:/]/g, "$&<wbr>");

/** A table whose lines are sorted by a column's head, and shown where `shown` says so. `columns` have a title, what is in
 * a line's cell, and by what lines are sorted. */
function sortedTable(id, label, columns, lines, {shown = () => true, paging = true, search = false, row} = {}) {
  const table = element("table", {id});
  const box = element("div", {class: "table"}, scrolled(label, table));
  const made = $(table).DataTable({
    data: lines,
    order: [],
    autoWidth: false,
    deferRender: true,
    paging,
    pageLength: 25,
    lengthMenu: [10, 25, 100, 500],
    dom: paging ? (search ? "ft<'pages'lip>" : "t<'pages'lip>") : "t",
    language: {info: "_START_–_END_ of _TOTAL_", infoFiltered: "(of _MAX_)", lengthMenu: "Show _MENU_", infoEmpty: "none",
               emptyTable: "nothing", zeroRecords: "nothing is left by the filter", search: "Search ",
               paginate: {previous: "‹ Previous", next: "Next ›"}},
    columns: columns.map((column) => ({
      title: headOf(column.title),
      className: column.number ? "number" : "",
      orderable: column.sort !== undefined,
      data: (line, type) => type === "sort" || type === "type" ? column.sort?.(line) ?? ""
          : type === "filter" ? column.sort?.(line) ?? "" : "",
      createdCell: (cell, _, line) => cell.append(...[column.shows(line, cell)].flat().filter((part) => part != null))
    })),
    createdRow: (tr, line) => row?.(tr, line)
  });
  table.shows = shown;
  if (paging) box.append(...$(table).closest(".dataTables_wrapper").find(".pages"));
  if (search) box.prepend(...$(table).closest(".dataTables_wrapper").find(".dataTables_filter"));
  return {box, table: made};
}
$.fn.dataTable.ext.search.push((settings, _, position, line) => settings.nTable.shows?.(line) ?? true);
$.fn.dataTable.ext.errMode = "throw";

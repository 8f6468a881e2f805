// Pipelines and memory over time, which zoom and move together: a lane for the passes of each stage, and one for what it holds.

const passNames = {F: "forward", B: "backward", I: "input backward", W: "weight backward", s: "step"};
const timeText = (unit) => unit === "s" ? (value) => `${d3.format("~s")(value)}s` : (value) => `${+value.toPrecision(6)}`;
const gibibytes = (bytes) => `${+(bytes / 2 ** 30).toPrecision(5)} GiB`;

/** What a stage held at each moment: [{time, bytes: [of each kind], total}]. */
function momentsOf({kinds, rows}) {
  let bytes = kinds.map(() => 0);
  return rows.map(([time, ...changes]) => {
    bytes = [...bytes];
    for (let i = 0; i < changes.length; i += 2) bytes[changes[i]] = changes[i + 1];
    return {time, bytes, total: d3.sum(bytes.filter((_, kind) => kinds[kind] !== "host"))};
  });
}

/** Lanes from the top: {kind, top, height, …}. */
function lanesOf(timelines) {
  const lanes = [];
  let top = 0;
  const add = (height, lane) => {
    lanes.push({top, height, ...lane});
    top += height + 4;
  };
  for (const timeline of timelines) {
    if (timelines.length > 1) add(18, {kind: "title", text: `${timeline.title} (${timeline.source})`});
    for (const {name, spans, memory} of timeline.stages) {
      if (spans) add(22, {kind: "passes", name, spans, timeline});
      if (memory) add(spans ? 46 : 260, {kind: "memory", name: spans ? "" : name, moments: momentsOf(memory), kinds: memory.kinds, timeline});
    }
  }
  return {lanes, height: top};
}

/** "stage 0: busy 93.1 % of the time, at most 12.3 GiB" */
function summaryOf(timeline) {
  const spans = timeline.stages.flatMap((stage) => stage.spans ?? []);
  const whole = (d3.max(spans, ([, end]) => end) ?? 0) - (d3.min(spans, ([begin]) => begin) ?? 0);
  return timeline.stages.map(({name, spans: own, memory}) => {
    const busy = own && `in passes and steps ${(100 * d3.sum(own, ([begin, end]) => end - begin) / whole).toFixed(1)} % of the time`;
    const peak = memory && `at most ${gibibytes(d3.max(momentsOf(memory), ({total}) => total))}`;
    return `${name}: ${[busy, peak].filter(Boolean).join(", ")}`;
  }).join("; ");
}

function drawPasses(lane, x, [low, high]) {
  const visible = lane.spans.filter(([begin, end]) => end > low && begin < high);
  const g = lane.g.selectAll("g").data(visible, ([begin, , label]) => `${begin} ${label}`).join((enter) => {
    const made = enter.append("g").attr("class", ([, , label]) => `pass pass-${label[0]}`);
    made.append("rect").attr("height", lane.height);
    made.append("text").attr("y", lane.height / 2).attr("dy", "0.35em");
    return made;
  });
  const width = ([begin, end]) => Math.max(0.5, x(end) - x(begin) - 0.5);
  g.select("rect").attr("x", ([begin]) => x(begin)).attr("width", width);
  g.select("text").attr("x", ([begin, end]) => (x(Math.max(begin, low)) + x(Math.min(end, high))) / 2)
      .text((span) => width(span) > 7 * span[2].length ? span[2].replace(/^[FBIW]/, "") : "");
}

function drawMemory(lane, x) {
  const {moments, kinds, height} = lane;
  const shown = kinds.map((_, kind) => kind).filter((kind) => kinds[kind] !== "host" && moments.some(({bytes}) => bytes[kind] > 0));
  lane.y ??= d3.scaleLinear().domain([0, d3.max(moments, ({total}) => total) / 2 ** 30]).nice().range([height, 0]);
  const layers = d3.stack().keys(shown).value(({bytes}, kind) => bytes[kind] / 2 ** 30)(moments);
  const area = d3.area().curve(d3.curveStepAfter).x(({data}) => x(data.time)).y0(([low]) => lane.y(low)).y1(([, high]) => lane.y(high));
  lane.g.selectAll("path").data(layers).join("path").attr("class", ({key}) => `kind kind-${kinds[key]}`).attr("d", area);
}

function tipOfPass([begin, end, label, version], lane) {
  const text = timeText(lane.timeline.unit);
  const kind = passNames[label[0]] ?? label, microbatch = label.slice(1);
  return [element("b", {}, kind === "step" ? "step of the optimizer" : `${kind} pass of microbatch ${microbatch}`), lane.name,
          `${text(begin)} to ${text(end)}, ${text(end - begin)} long`, version >= 0 && `version ${version} of the weights`,
          `${lane.timeline.source}${lane.timeline.on ? `, ${lane.timeline.on}` : ""}`];
}

function tipOfMemory(time, lane) {
  const moment = lane.moments[Math.max(0, d3.bisector((one) => one.time).right(lane.moments, time) - 1)];
  return [element("b", {}, `${gibibytes(moment.total)} in use`), `${lane.name} from ${timeText(lane.timeline.unit)(moment.time)}`,
          ...lane.kinds.map((kind, i) => moment.bytes[i] ? `${kind === "host" ? "on the host" : kind}: ${gibibytes(moment.bytes[i])}` : null),
          `${lane.timeline.source}${lane.timeline.on ? `, ${lane.timeline.on}` : ""}`];
}

function nameLane(svg, lane, left) {
  if (lane.kind === "title") svg.append("text").attr("class", "lane-title").attr("x", 2).attr("y", lane.top + 14).text(lane.text);
  else svg.append("text").attr("class", "label").attr("x", left - 8).attr("y", lane.top + (lane.kind === "passes" ? 11 : 8)).attr("dy", "0.35em").text(lane.name);
}

/** What the pointer is on, or no tip. */
function tipAt(event, plot, lanes, width, x) {
  const [px, py] = d3.clientPoint(plot, event);
  const lane = lanes.find(({top, height}) => py >= top && py <= top + height);
  const time = x.invert(px);
  const span = lane?.spans?.find(([begin, end]) => time >= begin && time <= end);
  if (px < 0 || px > width || !lane) hideTip();
  else if (span) showTip(event.clientX, event.clientY, ...tipOfPass(span, lane));
  else if (lane.kind === "memory") showTip(event.clientX, event.clientY, ...tipOfMemory(time, lane));
  else hideTip();
}

/** The picture, as wide as its box; returns what zooms it. */
function drawLanes(box, timelines, label) {
  const {lanes, height} = lanesOf(timelines);
  const left = 74, right = 12, bottom = 26, width = Math.max(200, box.clientWidth - left - right);
  const svg = d3.create("svg").attr("width", width + left + right).attr("height", height + bottom)
                  .attr("viewBox", [0, 0, width + left + right, height + bottom]).attr("tabindex", 0)
                  .attr("role", "application").attr("aria-roledescription", "timeline").attr("aria-label", label);
  box.replaceChildren(svg.node());
  const clip = `clip-${Math.random().toString(36).slice(2)}`;
  svg.append("clipPath").attr("id", clip).append("rect").attr("width", width).attr("height", height);
  const plot = svg.append("g").attr("transform", `translate(${left},0)`).attr("class", "plot");
  plot.append("rect").attr("class", "background").attr("width", width).attr("height", height);
  const axis = plot.append("g").attr("class", "axis").attr("transform", `translate(0,${height})`);
  const inside = plot.append("g").attr("clip-path", `url(#${clip})`);
  for (const lane of lanes) {
    lane.g = inside.append("g").attr("transform", `translate(0,${lane.top})`);
    nameLane(svg, lane, left);
  }
  const moments = lanes.flatMap((lane) => lane.spans ? lane.spans.flatMap(([begin, end]) => [begin, end]) : lane.moments?.map(({time}) => time) ?? []);
  const base = d3.scaleLinear().domain(d3.extent(moments)).range([0, width]);
  let x = base;
  const update = () => {
    axis.call(d3.axisBottom(x).ticks(Math.max(2, width / 110)).tickFormat(timeText(timelines[0].unit)).tickSizeOuter(0));
    for (const lane of lanes) {
      if (lane.kind === "passes") drawPasses(lane, x, x.domain());
      if (lane.kind === "memory") drawMemory(lane, x);
    }
    svg.attr("data-domain", x.domain().join(" "));
  };
  const zoom = d3.zoom().scaleExtent([1, 500]).extent([[0, 0], [width, height]]).translateExtent([[0, 0], [width, height]])
                   .on("zoom", () => {
                     x = d3.event.transform.rescaleX(base);
                     hideTip();
                     update();
                   });
  plot.call(zoom);
  update();
  for (const lane of lanes)
    if (lane.kind === "memory")
      svg.append("g").attr("class", "axis").attr("transform", `translate(${left - 2},${lane.top})`)
          .call(d3.axisLeft(lane.y).ticks(lane.height > 100 ? 6 : 2).tickFormat((value) => `${value} GiB`).tickSize(3));
  plot.node().addEventListener("pointermove", (event) => tipAt(event, plot.node(), lanes, width, x));
  plot.node().addEventListener("pointerleave", hideTip);
  const by = {
    in: () => plot.call(zoom.scaleBy, 1.5), out: () => plot.call(zoom.scaleBy, 1 / 1.5), all: () => plot.call(zoom.transform, d3.zoomIdentity),
    earlier: () => plot.call(zoom.translateBy, 0.15 * (x.domain()[1] - x.domain()[0]) / (base.domain()[1] - base.domain()[0]) * width, 0),
    later: () => plot.call(zoom.translateBy, -0.15 * (x.domain()[1] - x.domain()[0]) / (base.domain()[1] - base.domain()[0]) * width, 0)
  };
  const keys = {"+": by.in, "=": by.in, "-": by.out, "−": by.out, "0": by.all, Home: by.all, ArrowLeft: by.earlier, ArrowRight: by.later};
  svg.node().addEventListener("keydown", (event) => {
    if (!keys[event.key] || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    keys[event.key]();
  });
  return by;
}

function legendOf(timelines) {
  const stages = timelines.flatMap((timeline) => timeline.stages);
  const letters = new Set(stages.flatMap(({spans}) => spans ?? []).map(([, , label]) => label[0]));
  const kinds = new Set(stages.flatMap(({memory}) => memory ? memory.kinds.filter((kind, i) => kind !== "host" && memory.rows.some((row) => row.some((value, at) => at % 2 === 1 && value === i))) : []));
  const entry = (name, className) => element("li", {}, element("span", {class: `swatch ${className}`, "aria-hidden": true}), ` ${name}`);
  return element("ul", {class: "legend"}, ...[...letters].map((letter) => entry(passNames[letter], `pass-${letter}`)),
                 ...[...kinds].map((kind) => entry(kind, `kind-${kind}`)));
}

function timelineBox({title, timelines}) {
  const picture = element("div", {class: "picture"});
  const body = element("div", {class: "body"});
  const box = element("details", {class: "timeline"}, element("summary", {}, element("span", {class: "name"}, title),
      element("span", {class: "title"}, timelines.map(({on, source}) => on ?? source).join(", "))), body);
  let by, width = 0;
  const drawn = () => {
    if (picture.clientWidth === 0 || picture.clientWidth === width) return;
    width = picture.clientWidth;
    by = drawLanes(picture, timelines, title);
  };
  const button = (text, name, label) => element("button", {type: "button", "aria-label": label, onclick: () => by[name]()}, text);
  box.draw = () => {
    if (!body.childElementCount)
      body.append(element("div", {class: "tools"}, button("+", "in", "zoom in"), button("−", "out", "zoom out"), button("←", "earlier", "earlier"),
                          button("→", "later", "later"), button("All", "all", "show all"), legendOf(timelines)),
                  picture, ...timelines.flatMap((timeline) => [
                    timeline.command && element("p", {class: "summary"}, `${summaryOf(timeline)}.`),
                    thinning(timeline), timeline.command && command(timeline.command),
                    timeline.device && element("p", {class: "summary"}, timeline.device)].filter(Boolean)));
    drawn();
  };
  box.addEventListener("toggle", () => box.open && box.draw());
  new ResizeObserver(drawn).observe(picture);
  return box;
}

/** Says so where not every moment is drawn. */
function thinning({stages}) {
  const thinned = stages.filter(({memory}) => memory && memory.moments > memory.rows.length);
  return thinned.length && element("p", {class: "summary"}, `Memory changed at ${d3.sum(thinned, ({memory}) => memory.moments)} moments; drawn are the ` +
      `${d3.sum(thinned, ({memory}) => memory.rows.length)} with most bytes in use, of equal times one each.`);
}

function drawTimelines() {
  const groups = [];
  for (const timeline of report.timelines) {
    const last = groups[groups.length - 1];
    if (timeline.artifact && last?.artifact === timeline.artifact) last.timelines.push(timeline);
    else groups.push({artifact: timeline.artifact, timelines: [timeline],
                      title: timeline.artifact ? `${timeline.artifact}: ${titles.get(timeline.artifact)}` : timeline.title});
  }
  document.getElementById("timelines").hidden = !groups.length;
  const boxes = groups.map(timelineBox);
  document.getElementById("timelines-box").append(...boxes);
  if (boxes.length) boxes[0].open = true;
}

"use strict";
const MOST_OPTIONS = 300;  // levels in a select; more are suggestions of a text field
const SHOWN_COLUMNS = 8;  // of an explanation
const TASKS = {
  binary: "Binary classification", multiclass: "Classification", regression: "Regression",
  quantile: "Quantile regression", ranking: "Ranking", multioutput: "Prediction", clustering: "Clustering", embedding: "Embedding",
};
const $ = (id) => document.getElementById(id);
let schema = null;
let token = "";
let latest = 0;  // number of the newest request: older answers are dropped
const fields = new Map();  // column name -> {column, input, problem}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

function headers() {
  return token ? {"Authorization": `Bearer ${token}`} : {};
}

async function load() {
  const response = await fetch("/schema", {headers: headers()});
  if (response.status === 401) {
    $("subtitle").textContent = "Predictions over HTTP";
    $("token-error").textContent = token ? "The token is wrong." : "";
    $("token-form").hidden = false;
    $("token").focus();
    return;
  }
  const found = await response.json();
  if (!response.ok) throw new Error(found.error);
  schema = found;
  $("token-form").hidden = true;
  $("content").hidden = false;
  show();
}

function show() {
  document.title = `${schema.name} · gpupipe`;
  $("name").textContent = schema.name;
  const labels = schema.labels.slice(0, 6).join(", ") + (schema.labels.length > 6 ? ", …" : "");
  const target = schema.target ?? schema.targets.map(({target}) => target).join(", ");
  const what = target ? [" of ", element("b", {textContent: target}), labels ? `: ${labels}` : ""] : [];
  $("subtitle").replaceChildren(
    TASKS[schema.task] ?? schema.task, ...what,
    ` · ${schema.columns.length} columns · version ${schema.version}`);
  for (const column of schema.columns) $("fields").append(field(column));
  $("explain-choice").hidden = !schema.explanations;
  const links = [
    ["/schema", "columns, levels, ranges, rules"], ["/openapi.json", "OpenAPI 3.1"],
    ["/metrics", "Prometheus"], [`/v2/models/${encodeURIComponent(schema.name)}`, "Open Inference Protocol V2"],
    ...(schema.drift ? [["/drift", "predicted rows compared with the training rows"]] : []),
  ];
  // With a token, a plain link would be refused: a browser does not send it.
  $("links").replaceChildren(...links.map(([path, text]) => element("li", {},
    token ? element("code", {textContent: path}) : element("a", {href: path}, element("code", {textContent: path})),
    ` ${text}`)));
  showCommand();
  predict();
}

function field(column, index = fields.size) {
  const id = `field-${index}`;
  const input = makeInput(column, id);
  input.id = id;
  input.name = column.name;
  input.required = !column.nullable;
  input.setAttribute("aria-describedby", `${id}-hint ${id}-problem`);
  const problem = element("p", {className: "problem", id: `${id}-problem`});
  fields.set(column.name, {column, input, problem});
  const label = element("label", {htmlFor: id}, column.name);
  if (!column.nullable) label.append(" ", element("span", {className: "star", textContent: "*", ariaHidden: "true"}));
  input.addEventListener("input", () => {
    mark(column.name, "");
    showCommand();
  });
  return element("div", {className: "field"}, label, input, ...suggestions(column, input, id),
    element("p", {className: "hint", id: `${id}-hint`, textContent: hint(column)}), problem);
}

function makeInput(column) {
  const options = column.kind === "boolean" ? ["true", "false"] : column.levels;
  let input;
  if (options && options.length <= MOST_OPTIONS) {
    input = element("select", {}, ...(column.nullable ? [element("option", {value: "", textContent: "null"})] : []),
      ...options.map((level, i) => element("option", {value: `${i}`, textContent: level === "" ? "(empty text)" : level})));
    input.value = options.length ? "0" : "";
    return input;
  }
  if (column.kind === "text") return element("textarea", {});
  if (column.kind === "numeric" || isUnit(column)) {
    input = element("input", {type: "number", step: isWhole(column) ? "1" : "any"});
    const range = column.rules.find((rule) => rule.rule === "range" && rule.otherwise === "refuse");
    const bounds = range ? range.text.match(/-?[0-9.]+(e[+-]?[0-9]+)?|null/g) : [];
    if (bounds.length === 2 && column.kind === "numeric") {
      if (bounds[0] !== "null") input.min = bounds[0];
      if (bounds[1] !== "null") input.max = bounds[1];
    }
  } else if (column.kind === "datetime" && isIso(column)) {
    input = element("input", column.time_format === "%Y-%m-%d" ? {type: "date"} : {type: "datetime-local", step: "1"});
  } else {
    input = element("input", {type: "text", placeholder: column.time_format || "", autocomplete: "off"});
  }
  input.value = example(column);
  return input;
}

function suggestions(column, input, id) {
  if (!column.levels || input.tagName !== "INPUT") return [];
  input.setAttribute("list", `${id}-levels`);
  input.value = column.levels[0] ?? "";
  return [element("datalist", {id: `${id}-levels`}, ...column.levels.slice(0, 2000).map((value) => element("option", {value})))];
}

const isUnit = (column) => column.kind === "datetime" && ["s", "ms", "us", "ns"].includes(column.time_format);
const isIso = (column) => !column.time_format || column.time_format.startsWith("%Y-%m-%d") && !/%f|%z/.test(column.time_format);
const isWhole = (column) => /^u?int/.test(column.dtype) || column.rules.some((rule) => rule.rule === "dtype" && /int/.test(rule.text));

function example(column) {
  const {low, high} = column.training || {};
  if (low === null || low === undefined) return "";
  if (column.kind === "datetime") {
    if (!isIso(column)) return "";
    return column.time_format === "%Y-%m-%d" ? high.slice(0, 10) : high.slice(0, 19);
  }
  const middle = (low + high) / 2;
  if (isWhole(column)) return `${Math.round(middle)}`;
  return `${Number(middle.toPrecision(3))}`;
}

function hint(column) {
  const {low, high} = column.training || {};
  const rules = column.rules.filter((rule) => ["range", "regex"].includes(rule.rule)).map((rule) => rule.text);
  const parts = [column.kind === "categorical" && column.levels ? `${column.levels.length.toLocaleString("en")} levels` : column.kind];
  if (low !== null && low !== undefined) {
    const shown = (value) => typeof value === "number" ? Number(value.toPrecision(6)).toLocaleString("en") : value.slice(0, 10);
    parts.push(`${shown(low)} to ${shown(high)} in training`);
  }
  return [...parts, ...rules].join(" · ");
}

function value({column, input}) {
  if (input.value === "") return null;
  if (input.tagName === "SELECT") return column.kind === "boolean" ? input.value === "0" : column.levels[Number(input.value)];
  if (input.type === "number") return Number(input.value);
  if (input.type === "datetime-local") {
    const time = input.value.length === 16 ? `${input.value}:00` : input.value;
    if (column.time_format === "%Y-%m-%d %H:%M") return time.slice(0, 16).replace("T", " ");
    return column.time_format && column.time_format.includes(" ") ? time.replace("T", " ") : time;
  }
  return input.value;
}

function row() {
  return Object.fromEntries([...fields].map(([name, entry]) => [name, value(entry)]));
}

function path() {
  return $("explain").checked ? `/predict?explain=${Math.min(SHOWN_COLUMNS, schema.explanations.most_columns)}` : "/predict";
}

function showCommand() {
  const quoted = JSON.stringify(row()).replaceAll("'", "'\\''");
  const bearer = token ? ` \\\n  -H "Authorization: Bearer $GPUPIPE_TOKEN"` : "";
  $("curl").textContent = `curl '${location.origin}${path()}' \\\n  -H 'Content-Type: application/json'${bearer} \\\n  -d '${quoted}'`;
}

function mark(name, text) {
  const entry = fields.get(name);
  if (!entry) return;
  entry.problem.textContent = text;
  if (text) entry.input.setAttribute("aria-invalid", "true");
  else entry.input.removeAttribute("aria-invalid");
}

async function predict() {
  const number = ++latest;
  let answer, isOk = false;
  try {
    const response = await fetch(path(), {
      method: "POST", headers: {"Content-Type": "application/json", ...headers()}, body: JSON.stringify(row()),
    });
    answer = await response.json();
    isOk = response.ok;
  } catch {
    answer = {error: "The server does not answer.", problems: []};
  }
  if (number !== latest) return;
  for (const name of fields.keys()) mark(name, "");
  if (isOk) showAnswer(answer);
  else showProblems(answer);
}

function showAnswer(answer) {
  const targets = schema.targets.length ? schema.targets : [{task: schema.task}];
  $("result").replaceChildren(...targets.flatMap(({target, task}) => {
    const outputs = schema.outputs.filter((output) => output.target === target);
    // Of several targets: probability_churn_yes is probability_yes of churn.
    const plain = (name) => {
      const kind = name.split("_", 1)[0];
      return target === undefined ? name : kind + name.slice(kind.length + 1 + target.length);
    };
    const own = Object.fromEntries(outputs.map(({name}) => [plain(name), answer[name]]));
    return [...(target === undefined ? [] : [element("h3", {textContent: target})]), ...answerParts(own, task)];
  }), ...(schema.explanations?.names ?? []).filter((name) => answer[name]).map((name) => explanationPart(name, answer[name])));
}

function signed(number, decimals, plus = "+") {
  const text = Math.abs(number).toLocaleString("en", {minimumFractionDigits: decimals, maximumFractionDigits: decimals});
  if (!/[1-9]/.test(text)) return text;
  return (number < 0 ? "−" : plus) + text;
}

function explanationPart(name, {label, base, margin, scale, columns, others}) {
  const of = name.slice("explanation_".length);  // a target or a quantile
  const what = scale === "score" && schema.task !== "ranking" ? "prediction" : scale;
  const whose = [of, label ?? ""].filter((part) => part !== "").join(" = ");
  const title = `Contributions to the ${what}${whose === "" ? "" : ` of ${whose}`}`;
  const terms = columns.map(({column, value, contribution}) => [
    value === undefined ? column : `${column} = ${value === null ? "null" : value}`, contribution]);
  if (columns.length < schema.columns.length) terms.push(["other columns", others]);
  const largest = Math.max(...terms.map(([, contribution]) => Math.abs(contribution))) || 1;
  // All numbers have the same decimals, so that their sum can be checked: the largest contribution has three digits.
  const decimals = Math.min(12, Math.max(0, 2 - Math.floor(Math.log10(largest))));
  const items = terms.map(([text, contribution]) => {
    const bar = element("div", {className: contribution < 0 ? "lower" : ""});
    const width = 50 * Math.abs(contribution) / largest;
    bar.style.width = `${width}%`;
    bar.style.left = `${contribution < 0 ? 50 - width : 50}%`;
    return element("li", {}, term(text, signed(contribution, decimals)), element("div", {className: "track", ariaHidden: "true"}, bar));
  });
  return element("section", {className: "explanation"}, element("h3", {textContent: title}), element("ol", {},
    element("li", {}, term("base, the expected value", signed(base, decimals, ""))), ...items,
    element("li", {className: "total"}, term("margin of this row", signed(margin, decimals, "")))));
}

function term(text, number) {
  return element("div", {className: "term"}, element("span", {textContent: text}), element("span", {textContent: number}));
}

function answerParts(answer, task) {
  const shares = [], values = [], sets = [], parts = [];
  for (const name of Object.keys(answer)) {
    if (name === "prediction") {
      const found = answer[name];
      const isNumber = ["regression", "ranking"].includes(task);
      parts.push(element("p", {className: "figure", textContent: isNumber ? Number(found.toPrecision(6)).toLocaleString("en") : `${found}`}));
    } else if (name.startsWith("probability_")) {
      const percent = `${(100 * answer[name]).toFixed(1)} %`;
      const bar = element("div");
      bar.style.width = `${100 * answer[name]}%`;
      shares.push([answer[name], element("div", {className: "share"},
        element("dt", {}, element("span", {textContent: name.slice("probability_".length)}), element("span", {textContent: percent})),
        element("dd", {ariaHidden: "true"}, bar))]);
    } else if (name.startsWith("set_")) {
      sets.push(...(answer[name] ? [name.slice("set_".length)] : []));
    } else {
      values.push(element("div", {}, element("dt", {textContent: name}), element("dd", {textContent: Number(answer[name].toPrecision(6))})));
    }
  }
  if (Object.keys(answer).some((name) => name.startsWith("set_"))) {
    values.push(element("div", {}, element("dt", {textContent: "set"}), element("dd", {textContent: sets.join(", ") || "empty"})));
  }
  if (shares.length > 2) shares.sort((a, b) => b[0] - a[0]);
  if (shares.length) parts.push(element("dl", {}, ...shares.slice(0, 12).map(([, share]) => share)));
  if (values.length) parts.push(element("dl", {className: "values"}, ...values));
  return parts;
}

function showProblems(answer) {
  const problems = answer.problems || [];
  for (const {column, value, rule} of problems) mark(column, `expected ${rule}; found ${value}`);
  const what = problems.length ? `${problems.length} ${problems.length > 1 ? "fields need" : "field needs"} another value.` : answer.error;
  $("result").replaceChildren(element("p", {className: "failed", textContent: what}));
  if (problems.length) fields.get(problems[0].column)?.input.focus();
}

$("form").addEventListener("submit", (event) => {
  event.preventDefault();
  predict();
});
$("explain").addEventListener("change", () => {
  showCommand();
  predict();
});
$("reset").addEventListener("click", () => {
  $("fields").replaceChildren();
  fields.clear();
  for (const column of schema.columns) $("fields").append(field(column));
  showCommand();
  predict();
});
$("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText($("curl").textContent);
  $("copy").textContent = "Copied";
  setTimeout(() => { $("copy").textContent = "Copy"; }, 1500);
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = $("token").value;
  start();
});

function start() {
  load().catch((error) => { $("subtitle").textContent = `The schema could not be loaded: ${error.message}`; });
}
start();

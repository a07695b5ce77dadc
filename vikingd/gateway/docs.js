// The script of the API's description: it copies, makes calls, filters the list and marks the place in it.

const JSON_TYPE = "application/json";
const SHOWN = 200_000; // characters of a reply
const narrow = matchMedia("(max-width: 56rem)");
const $ = (selector, within = document) => within.querySelector(selector);
const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];

// --- Commands and calls

const fields = (form, where) => $$(`[data-in="${where}"]`, form).filter((one) => one.value !== "").map((one) => [one.dataset.name, one.value]);

function pathOf(form) {
  let path = form.dataset.path;
  for (const input of $$('[data-in="path"]', form)) {
    path = path.replace(`{${input.dataset.name}}`, input.value.split("/").map(encodeURIComponent).join("/"));
  }
  const query = fields(form, "query").map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join("&");
  return query ? `${path}?${query}` : path;
}

const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;

let hasKey = false; // of the session, or one is needed

function curl(form) {
  const { method, kind } = form.dataset;
  const usual = kind === JSON_TYPE ? "POST" : "GET";
  const request = method === usual ? "" : ` --request ${method}`;
  const lines = [`curl -sf${request} ${quoted(location.origin + pathOf(form))}`];
  if (hasKey) lines.push("--header @key.header");
  for (const [name, value] of fields(form, "header")) lines.push(`--header ${quoted(`${name}: ${value}`)}`);
  if (kind === JSON_TYPE) lines.push(`--header 'content-type: ${kind}'`, `--data ${quoted($("textarea", form).value)}`);
  else if (kind) lines.push(`--data-binary ${quoted(`@${$("[type=file]", form).files[0]?.name ?? "FILE"}`)}`);
  return lines.join(" \\\n  ");
}

const tell = (form) => { $(".curl", form).textContent = curl(form); };

async function send(form) {
  const button = $("button.primary", form);
  const { method, kind } = form.dataset;
  let body;
  if (kind === JSON_TYPE) body = $("textarea", form).value;
  else if (kind) {
    body = $("[type=file]", form).files[0];
    if (!body) return show(form, "Choose a file first.");
  }
  button.disabled = true;
  show(form, "Waiting for the reply …");
  const began = performance.now();
  try {
    const headers = new Headers(fields(form, "header")); // it refuses some characters
    if (kind) headers.set("content-type", kind);
    const reply = await fetch(pathOf(form), { method, headers, body });
    const data = await dataOf(reply);
    showReply(form, reply, data, performance.now() - began);
    if (form.dataset.path === "/session" || reply.status === 401) await showSession();
  } catch (error) {
    show(form, `No reply: ${error.message}`);
  } finally {
    button.disabled = false;
    if (document.activeElement === document.body) button.focus({ preventScroll: true }); // else the user has gone on
  }
}

/** Return the bytes of a reply; one that is no text is not read. */
async function dataOf(reply) {
  if (isText(reply) || !reply.body) return new Uint8Array(await reply.arrayBuffer());
  await reply.body?.cancel();
  return null;
}

const typeOf = (reply) => reply.headers.get("content-type") ?? "";
const isText = (reply) => typeOf(reply).startsWith(JSON_TYPE) || typeOf(reply).startsWith("text/");

/** Return the number of bytes of a reply in words; "" if a stream that is not read does not tell it. */
function sizeOf(reply, data) {
  const length = data?.length ?? reply.headers.get("content-length");
  return length === null ? "" : `${Number(length).toLocaleString("en")} bytes`;
}

function element(name, properties, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function show(form, ...parts) {
  $(".reply", form).replaceChildren(element("p", { className: "told" }, ...parts));
}

function showReply(form, reply, data, milliseconds) {
  const id = `${form.closest("section").id}-reply`;
  const parts = [
    element("strong", { className: reply.ok ? "good" : "bad" }, `${reply.status} ${reply.statusText}`.trim()),
    ` · ${milliseconds.toFixed(milliseconds < 10 ? 1 : 0)} ms`,
  ];
  const size = sizeOf(reply, data);
  if (size) parts.push(` · ${size}`);
  const tag = reply.headers.get("etag");
  if (tag) parts.push(` · etag ${tag}`);
  show(form, ...parts);
  if (reply.status === 401) $(".told", form).append(" · ", element("a", { href: "/" }, "Sign in"));
  if (size === "0 bytes") return;
  const text = data ? textOf(reply, data) : `${size || "A stream"} that is no text`;
  const copy = element("button", { type: "button", className: "copy" }, "Copy");
  copy.dataset.copy = id;
  copy.setAttribute("aria-label", "Copy the reply");
  const bar = element("div", { className: "bar" }, element("span", {}, "Reply"), copy);
  const shown = element("pre", { id, tabIndex: 0 }, text);
  shown.setAttribute("aria-label", "Reply");
  $(".reply", form).append(element("div", { className: "block" }, bar, shown));
}

function textOf(reply, data) {
  let text = new TextDecoder().decode(data);
  if (typeOf(reply).startsWith(JSON_TYPE)) text = JSON.stringify(JSON.parse(text), null, 2);
  return text.length > SHOWN ? `${text.slice(0, SHOWN)}\n… ${(text.length - SHOWN).toLocaleString("en")} more characters` : text;
}

// --- The session

async function showSession() {
  const signed = $("#signed");
  try {
    const { signedIn, tenant, keyNeeded } = await (await fetch("/session")).json();
    hasKey = signedIn || keyNeeded;
    if (signedIn) signed.replaceChildren(tenant ? `Signed in, tenant ${tenant}` : "Signed in");
    else signed.replaceChildren(keyNeeded ? "A key is needed: " : "Without a key: ", element("a", { href: "/" }, "sign in"));
  } catch {
    signed.replaceChildren("The gateway cannot be reached");
  }
  $$("form.make").forEach(tell);
}

// --- Copying

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const text = source.value ?? source.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch { // a browser that refuses: the text is selected, for its own command
    if (source.select) source.select();
    else getSelection().selectAllChildren(source);
    source.focus();
    button.textContent = "Selected";
  }
  setTimeout(() => { button.textContent = "Copy"; }, 2000);
}

// --- The list of calls

const contents = $("#contents"), filter = $("#filter");

function filterCalls() {
  const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of $$("li", contents)) item.hidden = !words.every((word) => item.textContent.toLowerCase().includes(word));
  for (const list of $$("ul", contents)) list.hidden = list.previousElementSibling.hidden = !$("li:not([hidden])", list);
  $("#none").hidden = $$("li:not([hidden])", contents).length > 0;
}

function showAll() {
  filter.value = "";
  filterCalls();
}

const seen = new Set(); // the calls in the upper part of the window
const order = $$("section.call");

function mark(entries) {
  for (const entry of entries) seen[entry.isIntersecting ? "add" : "delete"](entry.target);
  const now = order.find((section) => seen.has(section));
  if (!now) return;
  $("nav [aria-current]")?.removeAttribute("aria-current");
  const link = $(`nav a[href="#${now.id}"]`);
  link.setAttribute("aria-current", "location");
  if (!narrow.matches) link.scrollIntoView({ block: "nearest" });
}

// --- Begin

try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* the browser keeps nothing */ }

$$("form.make").forEach((form) => {
  form.addEventListener("input", () => tell(form));
  form.addEventListener("keydown", (event) => { // Enter in a field is no press of the button of a call that may write
    if (event.key === "Enter" && form.dataset.method !== "GET" && event.target.matches("input:not([type=file])")) event.preventDefault();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(form);
  });
});
document.addEventListener("click", ({ target }) => {
  if (target.matches("button.copy")) copy(target);
  else if (narrow.matches && target.closest("nav a")) contents.open = false;
});
document.addEventListener("keydown", (event) => {
  if (event.key === "/" && !event.target.matches("input, textarea")) {
    event.preventDefault();
    contents.open = true;
    filter.focus();
  } else if (event.key === "Escape" && event.target === filter) {
    showAll();
    filter.blur();
  } else if (event.key === "Enter" && event.target === filter) {
    $("li:not([hidden]) a", contents)?.click();
    showAll();
  }
});
filter.hidden = false;
filter.addEventListener("input", filterCalls);
const unfold = () => { contents.open = !narrow.matches; };
narrow.addEventListener("change", unfold);
unfold();
const observer = new IntersectionObserver(mark, { rootMargin: "-15% 0px -70% 0px" });
order.forEach((section) => observer.observe(section));
addEventListener("focus", showSession); // the user may have signed in on the page
showSession();

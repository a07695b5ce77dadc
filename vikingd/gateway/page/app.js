// The page: search, tree, answers with their reasons, and contexts.
import { html, render, useEffect, useRef, useState } from "./vendor/vendor.js";
import { call, session, signOut } from "./api.js";
import { Built } from "./built.js";
import { Context } from "./context.js";
import { keep, kept } from "./kept.js";
import { Live } from "./live.js";
import { Memories } from "./memories.js";
import { Results } from "./results.js";
import { go, read } from "./route.js";
import { SignIn } from "./sign_in.js";
import { current, t, use } from "./texts.js";
import { Tree } from "./tree.js";
import { hasUnsaved, isDropping, Question, release } from "./unsaved.js";
import { visible } from "./visible.js";

const LIMIT = 20;

/** The requests of the calls that the search box sends. */
const CALLS = {
  find: ["find", (q, { targetUri, where }) => ({ query: q, targetUri, where, limit: LIMIT, trace: true })],
  search: ["search", (q, { targetUri, where }) => ({ query: q, targetUri, where, limit: LIMIT, trace: true })],
  recall: ["recall", (q, { project }) => ({ query: q, noTouch: true, scope: { withGlobal: true, project } })],
  context: ["build_context", (q, { targetUri, where }) => ({ find: { query: q, targetUri, where, limit: LIMIT } })],
};
/** The kinds that an import gives to files, in the metadata `kind`. */
const KINDS = ["source", "test", "documentation", "example", "configuration", "data", "generated", "vendored", "licence"];
const VIEWS = { find: Results, search: Results, recall: Memories, context: Built };

/** Return an error in words. */
function describe(error) {
  if (error.status === 0) return t("unreachable");
  return error.status ? error.message : t("failed", { message: error.message });
}

function App() {
  const [route, setRoute] = useState(read());
  const [answer, setAnswer] = useState(null);
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState("");
  const [needsKey, setNeedsKey] = useState(false);
  const [isReady, setReady] = useState(false); // the daemon answers calls of this browser
  const [signedIn, setSignedIn] = useState(false);
  const [changes, setChanges] = useState(0);
  const [drawer, setDrawer] = useState(false);
  const [, redraw] = useState(0);
  const [leaving, setLeaving] = useState(null); // a step that waits until a person drops a text
  const box = useRef(null);
  const project = useRef(null);
  const shown = useRef(route);

  const fail = (failure) => {
    if (failure.name === "AbortError" || failure.isOld) return;
    if (failure.status === 401) {
      setReady(false);
      setNeedsKey(true);
    }
    else setError(describe(failure));
  };
  const changed = () => setChanges((n) => n + 1);
  const open = (uri) => {
    setDrawer(false);
    go({ uri });
  };
  // One call asks whether a key is needed: each call without one counts as a wrong key.
  const begin = async () => {
    try {
      setSignedIn(Boolean((await session()).signedIn));
      await call("list", { pageSize: 1 });
      setNeedsKey(false);
      setError("");
      setReady(true);
    } catch (failure) {
      if (failure.status === 403 || failure.status === 404) setReady(true);
      else fail(failure);
    }
  };

  const signedInNow = () => {
    setNeedsKey(false);
    return begin();
  };

  useEffect(() => {
    const show = (next) => {
      shown.current = next;
      setLeaving(null);
      setRoute(next);
    };
    const follow = () => {
      const next = read();
      if (isDropping(next)) setLeaving({ drop: () => show(next), keep: () => go(shown.current) });
      else show(next);
    };
    const onKey = (event) => {
      if (document.querySelector("dialog[open]")) return;
      const isTyping = /^(input|textarea|select)$/i.test(event.target.tagName);
      if (event.key === "/" && !isTyping) {
        event.preventDefault();
        box.current?.focus();
      } else if (event.key === "Escape") {
        setDrawer(false);
        if (!isTyping) go({ uri: "", why: "" });
      }
    };
    addEventListener("hashchange", follow);
    addEventListener("keydown", onKey);
    begin();
    return () => {
      removeEventListener("hashchange", follow);
      removeEventListener("keydown", onKey);
    };
  }, []);

  useEffect(() => {
    box.current.value = route.q;
    if (project.current) project.current.value = route.project;
  }, [route.q, route.project]);

  useEffect(() => {
    setError("");
    if (!route.q || !isReady) {
      if (!route.q || !hasUnsaved()) setAnswer(null);
      return undefined;
    }
    const [rpc, request] = CALLS[route.mode] || CALLS.find;
    const abort = new AbortController();
    const started = performance.now();
    setBusy(true);
    const bounds = {
      targetUri: route.target || undefined,
      where: route.kind ? { kind: route.kind } : undefined,
      project: route.project || undefined,
    };
    call(rpc, request(route.q, bounds), abort.signal)
      .then((reply) => setAnswer({ mode: route.mode, project: route.project, reply, taken: performance.now() - started }))
      .catch(fail)
      .finally(() => setBusy(false));
    return () => abort.abort();
  }, [route.mode, route.q, route.target, route.kind, route.project, isReady]);

  const ask = (event) => {
    event.preventDefault();
    go({ q: box.current.value.trim(), project: project.current?.value.trim() || "", why: "", uri: matchMedia("(max-width: 60rem)").matches ? "" : route.uri });
  };
  const leave = async () => {
    release();
    await signOut().catch(() => {});
    history.replaceState(null, "", location.pathname);
    release();
    location.reload();
  };
  const askedToLeave = () => (hasUnsaved() ? setLeaving({ drop: leave, keep: () => setLeaving(null) }) : leave());
  const View = answer && (VIEWS[answer.mode] || Results);
  return html`<div class=${`page ${drawer ? "has-drawer" : ""} ${route.uri ? "has-context" : ""}`}>
    <header class="top">
      <button type="button" class="icon menu" aria-label=${drawer ? t("closeTree") : t("openTree")} aria-expanded=${drawer} onClick=${() => setDrawer(!drawer)}>
        <svg viewBox="0 0 16 16"><path d="M2 4h12M2 8h12M2 12h12" /></svg>
      </button>
      <a class="brand" href="#" aria-label="vikingd"><img src="icon.svg" alt="" width="22" height="22" /><span>vikingd</span></a>
      <form class="ask" role="search" onSubmit=${ask}>
        <select aria-label=${t("mode")} value=${route.mode} onChange=${(event) => go({ mode: event.currentTarget.value, why: "" })}>
          <option value="find">${t("find")}</option>
          <option value="search">${t("searchMode")}</option>
          <option value="recall">${t("recall")}</option>
          <option value="context">${t("context")}</option>
        </select>
        <input ref=${box} type="search" aria-label=${t("search")} placeholder=${t("searchHint")} defaultValue=${route.q} autocomplete="off" enterkeyhint="search" />
        ${route.mode !== "recall" && html`<select class="kinds" aria-label=${t("fileKind")} value=${route.kind} onChange=${(event) => go({ kind: event.currentTarget.value, why: "" })}>
          <option value="">${t("anyKind")}</option>
          ${[...new Set([...KINDS, route.kind])].filter(Boolean).map((kind) => html`<option key=${kind} value=${kind}>${KINDS.includes(kind) ? t(`kind.${kind}`) : visible(kind)}</option>`)}
        </select>`}
        ${route.mode === "recall" && html`<input ref=${project} class="project" aria-label=${t("project")} placeholder=${t("project")} title=${t("projectHint")} defaultValue=${route.project} autocomplete="off" />`}
        <button class="primary">${t("go")}</button>
      </form>
      <div class="tools">
        <button type="button" class="icon" aria-label=${t("theme")} title=${t("theme")} onClick=${switchTheme}>
          <svg viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.5" /><path class="half" d="M8 2.5a5.5 5.5 0 0 1 0 11z" /></svg>
        </button>
        <button type="button" class="small" lang=${current() === "zh" ? "en" : "zh-CN"} onClick=${() => (use(current() === "zh" ? "en" : "zh"), redraw((n) => n + 1))}>${t("language")}</button>
        ${signedIn && html`<button type="button" class="small" onClick=${askedToLeave}>${t("signOut")}</button>`}
      </div>
    </header>
    <nav class="side" aria-label=${t("tree")}>
      ${isReady && html`<${Tree} uri=${route.uri} changes=${changes} open=${open} fail=${fail} />
        <${Live} changes=${changes} />`}
    </nav>
    ${drawer && html`<div class="shade" onClick=${() => setDrawer(false)}></div>`}
    <main class="main" aria-busy=${busy}>
      ${route.target && route.mode !== "recall" && html`<p class="target"><span class="quiet">${t("in")}</span> <bdi>${visible(route.target)}</bdi> <button type="button" class="small" onClick=${() => go({ target: "" })}>${t("clearTarget")}</button></p>`}
      ${error && html`<div class="note is-warning" role="alert">${visible(error)} <button type="button" class="small" onClick=${() => setError("")}>${t("close")}</button></div>`}
      ${View
        ? html`<${View} reply=${answer.reply} taken=${answer.taken} project=${answer.project} why=${route.why} uri=${route.uri} open=${open} changed=${changed} fail=${fail} explain=${(why) => go({ why })} />`
        : !busy && html`<div class="welcome"><h1>${t("welcome")}</h1><p class="quiet">${t("welcomeAbout")}</p><p class="quiet keys">${t("help")}</p></div>`}
    </main>
    ${route.uri && (isReady || hasUnsaved()) && html`<aside class="detail"><${Context} key=${route.uri} uri=${route.uri} open=${open} target=${(target) => go({ target, uri: "" })} changed=${changed} fail=${fail} close=${() => go({ uri: "" })} /></aside>`}
    ${needsKey && html`<${SignIn} describe=${describe} done=${signedInNow} />`}
    ${leaving && html`<${Question} drop=${() => (release(), leaving.drop())} keep=${leaving.keep} />`}
  </div>`;
}

function switchTheme() {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  keep("theme", root.dataset.theme);
}

const theme = kept("theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
render(html`<${App} />`, document.getElementById("app"));

// The page: its views, the context that is open beside them, and the sign-in.
import { html, render, useEffect, useRef, useState } from "./vendor/vendor.js";
import { call, session, signOut } from "./api.js";
import { focusBox } from "./ask.js";
import { forgetQuestions } from "./asked.js";
import { Context } from "./context.js";
import { closeLast, useEscape } from "./escape.js";
import { keep, kept } from "./kept.js";
import { Live } from "./live.js";
import { Memories } from "./memories.js";
import { Reader } from "./reader.js";
import { fragment, go, read } from "./route.js";
import { Search } from "./search.js";
import { SignIn } from "./sign_in.js";
import { State } from "./state.js";
import { current, t, use } from "./texts.js";
import { Tree } from "./tree.js";
import { hasUnsaved, isDropping, Question, release } from "./unsaved.js";
import { ROOT } from "./uris.js";
import { visible } from "./visible.js";

/**
 * The views by the mode of the route. Each gets {route, changes, open, changed, fail}: `open` shows a context and
 * marks lines of it, `changes` counts the writes of the page and `changed` adds one, `fail` tells of an error.
 */
const VIEWS = { find: Search, search: Search, recall: Memories, context: Context, state: State };
/** The views that the navigation names: their modes and texts. */
const PLACES = [["find", "search"], ["tree", "tree"], ["recall", "memories"], ["context", "context"], ["state", "state"]];
const placeOf = (mode) => (PLACES.some(([name]) => name === mode) ? mode : "find");

/** Return an error in words. */
function describe(error) {
  if (error.status === 0) return t("unreachable");
  return error.status ? error.message : t("failed", { message: error.message });
}

function App() {
  const [route, setRoute] = useState(read());
  const [error, setError] = useState("");
  const [needsKey, setNeedsKey] = useState(false);
  const [isReady, setReady] = useState(false); // the daemon answers calls of this browser
  const [signedIn, setSignedIn] = useState(false);
  const [changes, setChanges] = useState(0);
  const [, redraw] = useState(0);
  const [leaving, setLeaving] = useState(null); // a step that waits until a person drops a text
  const shown = useRef(route);
  const visited = useRef({}); // the last state of each view
  const wantsBox = useRef(false);

  const fail = (failure) => {
    if (!failure) return setError("");
    if (failure.name === "AbortError" || failure.isOld) return undefined;
    if (failure.status !== 401) return setError(describe(failure));
    setReady(false);
    return setNeedsKey(true);
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
      if (event.defaultPrevented || document.querySelector("dialog[open]")) return;
      if (event.key === "/" && !/^(input|textarea|select)$/i.test(event.target.tagName)) {
        event.preventDefault();
        if (focusBox()) return;
        go({ mode: "find" });
        wantsBox.current = true;
      } else if (event.key === "Escape") closeLast();
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
    if (wantsBox.current && focusBox()) wantsBox.current = false;
  }, [route.mode]);

  const place = placeOf(route.mode);
  visited.current[place] = fragment(route);
  const isTree = route.mode === "tree";
  const uri = route.uri || (isTree ? ROOT : "");
  const close = () => go({ uri: "", lines: "" });
  useEscape(Boolean(route.uri), close);
  const hrefOf = (mode) => `#${mode === "tree" && route.uri ? fragment({ mode, uri: route.uri }) : (visited.current[mode] ?? `mode=${mode}`)}`;
  const open = (next, lines = "") => go({ uri: next, lines });
  const changed = () => setChanges((n) => n + 1);
  const leave = async () => {
    release();
    await signOut().catch(() => {});
    forgetQuestions();
    history.replaceState(null, "", location.pathname);
    release();
    location.reload();
  };
  const askedToLeave = () => (hasUnsaved() ? setLeaving({ drop: leave, keep: () => setLeaving(null) }) : leave());
  const View = VIEWS[route.mode] || (isTree ? null : Search);
  const isShown = isReady || hasUnsaved();
  return html`<div class=${`page at-${place} ${route.uri ? "has-context" : ""}`}>
    <header class="top">
      <a class="brand" href="#"><img src="icon.svg" alt="" width="22" height="22" /><span>vikingd</span></a>
      <nav class="places" aria-label=${t("views")}>
        ${PLACES.map(([mode, name]) => html`<a key=${mode} href=${hrefOf(mode)} aria-current=${mode === place ? "page" : undefined}>${t(name)}</a>`)}
      </nav>
      <div class="tools">
        <button type="button" class="icon" aria-label=${t("theme")} title=${t("theme")} onClick=${switchTheme}>
          <svg viewBox="0 0 16 16"><circle cx="8" cy="8" r="5.5" /><path class="half" d="M8 2.5a5.5 5.5 0 0 1 0 11z" /></svg>
        </button>
        <button type="button" class="small" lang=${current() === "zh" ? "en" : "zh-CN"} onClick=${() => (use(current() === "zh" ? "en" : "zh"), redraw((n) => n + 1))}>${t("language")}</button>
        ${signedIn && html`<button type="button" class="small" onClick=${askedToLeave}>${t("signOut")}</button>`}
      </div>
    </header>
    ${isTree && isReady && html`<nav class="side" aria-label=${t("tree")}><${Tree} uri=${route.uri} changes=${changes} open=${open} fail=${fail} /></nav>`}
    <main class="main">
      ${error && html`<div class="note is-warning" role="alert">${visible(error)} <button type="button" class="small" onClick=${() => setError("")}>${t("close")}</button></div>`}
      ${View && isShown && html`<${View} key=${place} route=${route} changes=${changes} open=${open} changed=${changed} fail=${fail} />`}
    </main>
    ${uri && isShown && html`<aside class="detail" aria-label=${t("openContext")}><${Reader} key=${uri} uri=${uri} lines=${route.lines} changes=${changes} open=${open}
      below=${(target) => go({ mode: "find", target, uri: "", lines: "" })} changed=${changed} fail=${fail} close=${route.uri ? close : null} /></aside>`}
    <footer class="foot">${isReady && html`<${Live} changes=${changes} />`}</footer>
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

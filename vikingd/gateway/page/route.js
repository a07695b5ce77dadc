// The state of the page in the fragment of its URL, so that links and the back button work.

/** Return the state: {mode, q, target, kind, project, uri, why}. */
export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  return {
    mode: given.get("mode") || "find",
    q: given.get("q") || "",
    target: given.get("in") || "",
    kind: given.get("kind") || "",
    project: given.get("project") || "",
    uri: given.get("uri") || "",
    why: given.get("why") || "",
  };
}

/** Change parts of the state; "" removes one. */
export function go(changes) {
  const state = { ...read(), ...changes };
  const next = new URLSearchParams();
  if (state.mode !== "find") next.set("mode", state.mode);
  if (state.q) next.set("q", state.q);
  if (state.target) next.set("in", state.target);
  if (state.kind) next.set("kind", state.kind);
  if (state.project) next.set("project", state.project);
  if (state.uri) next.set("uri", state.uri);
  if (state.why) next.set("why", state.why);
  const hash = next.toString();
  if (hash !== location.hash.slice(1)) location.hash = hash;
}

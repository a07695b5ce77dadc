// The state of the page in the fragment of its URL, so that links and the back button work.

/** The parts of the state and their names in the URL; each is a string, "" if it is not there. */
const NAMES = {
  q: "q",
  target: "in", // the directory of a search
  types: "type", // memory, resource, skill, joined by commas
  kind: "kind", // of a file, in its metadata
  has: "has", // further metadata as JSON
  since: "since", // days
  strength: "strength", // the least one
  sort: "sort",
  count: "count", // of results
  project: "project",
  budget: "budget", // tokens of a context
  uri: "uri", // the context that is open
  lines: "lines", // of the passage that is marked in it, such as 7-13
  why: "why", // the result that is explained
};

/** A link to a context alone opens the tree. */
const usualMode = (state) => (state.uri && !state.q ? "tree" : "find");

/** Return the state: `mode` is the view, and the parts of NAMES. */
export function read() {
  const given = new URLSearchParams(location.hash.slice(1));
  const state = Object.fromEntries(Object.entries(NAMES).map(([part, name]) => [part, given.get(name) || ""]));
  return { mode: given.get("mode") || usualMode(state), ...state };
}

/** Return the fragment of a state. */
export function fragment(state) {
  const next = new URLSearchParams();
  if (state.mode && state.mode !== usualMode(state)) next.set("mode", state.mode);
  for (const [part, name] of Object.entries(NAMES)) if (state[part]) next.set(name, state[part]);
  return next.toString();
}

/** Change parts of the state; "" removes one. */
export function go(changes) {
  const hash = fragment({ ...read(), ...changes });
  if (hash !== location.hash.slice(1)) location.hash = hash;
}

// URIs of the tree.

export const ROOT = "viking://";

/** The last segment of a URI; of the root, the root itself. */
export const nameOf = (uri) => (uri === ROOT ? ROOT : uri.slice(uri.lastIndexOf("/") + 1));

/** The directory above; null above the root. */
export function parentOf(uri) {
  if (uri === ROOT) return null;
  const end = uri.lastIndexOf("/");
  return end < ROOT.length ? ROOT : uri.slice(0, end);
}

/** The URI below a directory. */
export const below = (directory, name) => (directory === ROOT ? ROOT + name : `${directory}/${name}`);

/** All directories above a URI, the root first. */
export function ancestorsOf(uri) {
  const found = [];
  for (let at = parentOf(uri); at !== null; at = parentOf(at)) found.unshift(at);
  return found;
}

/** Return the lines of a passage as they stand behind a URI, such as ":12-40"; "" if it has none. */
export function linesOf({ firstLine, lastLine } = {}) {
  if (!firstLine) return "";
  return lastLine > firstLine ? `:${firstLine}-${lastLine}` : `:${firstLine}`;
}

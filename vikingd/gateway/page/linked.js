// The context that a relative link of a text means.
import { call } from "./api.js";
import { ancestorsOf, parentOf, ROOT } from "./uris.js";

const MOST = 24; // contexts that are asked for

/** Return a part of a link without its escapes; one with a bare percent sign is as it is. */
export function unescaped(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

/** Return a path with its "." and ".." resolved. */
function resolved(directory, path) {
  const names = directory.slice(ROOT.length).split("/").filter(Boolean);
  for (const name of path.split("/")) {
    if (name === "..") names.pop();
    else if (name && name !== ".") names.push(name);
  }
  return ROOT + names.join("/");
}

/** Return the URIs that a path may stand for: as it is, as a page of a site, as a directory with an index. */
function spellings(uri) {
  const bare = uri.replace(/\.html?$/i, "");
  const endings = ["", ".md", "/index.md", "/README.md", ".rst", ".mdx"];
  return [uri, ...endings.map((ending) => bare + ending)];
}

/**
 * Return the URI of the stored context that a link means; "" if there is none.
 * @param {string} uri of the text with the link
 * @param {string} to the target: viking://..., or relative to the text; one from the root of a site may begin at
 *   each directory above the text
 */
export async function findLinked(uri, to) {
  if (to.startsWith("viking://")) return to;
  const path = unescaped(to.split(/[?#]/)[0]);
  const starts = path.startsWith("/") ? ancestorsOf(uri).reverse() : [parentOf(uri)];
  const candidates = [...new Set(starts.flatMap((start) => spellings(resolved(start, path))))].slice(0, MOST);
  for (const candidate of candidates) {
    try {
      await call("tree", { uri: candidate, pageSize: 1 });
      return candidate;
    } catch (error) {
      if (![400, 403, 404].includes(error.status)) throw error;
    }
  }
  return "";
}

// The calls of the page: POST /v1/{rpc} in protobuf's JSON form, and the session.

/** An error of the daemon or the gateway, or a daemon that is not reached. */
export class Failure extends Error {
  /**
   * @param {number} status of HTTP; 0: there was no answer
   * @param {string} message for people
   * @param {string} reason for programs, such as NOT_FOUND
   */
  constructor(status, message, reason) {
    super(message);
    this.status = status;
    this.reason = reason;
    this.isOld = false; // a call without a key, answered after the sign-in
    this.retryAfter = 0; // seconds that the gateway asks to wait
  }
}

let sessions = 0; // begun by this page

async function send(method, path, body, signal) {
  const before = sessions;
  const isFile = body instanceof Blob;
  const type = isFile ? "application/octet-stream" : "application/json";
  let response;
  try {
    response = await fetch(path, {
      method,
      signal,
      headers: body === undefined ? {} : { "content-type": type },
      body: isFile || body === undefined ? body : JSON.stringify(body),
      credentials: "same-origin",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "", "UNREACHABLE");
  }
  if (response.status === 204) return {};
  let reply = {};
  try {
    reply = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (response.ok) throw new Failure(0, "", "UNREACHABLE"); // it broke off
    // An error without JSON has its status alone.
  }
  if (response.ok) return reply;
  const info = (reply.details || []).find((detail) => detail.reason);
  const failure = new Failure(response.status, reply.message || `HTTP ${response.status}`, info?.reason || "");
  failure.retryAfter = Number(response.headers.get("retry-after")) || 0;
  failure.isOld = response.status === 401 && before < sessions;
  throw failure;
}

/** Call an RPC by its name, such as "find". */
export const call = (rpc, request = {}, signal) => send("POST", `/v1/${rpc}`, request, signal);

/** Return what files can be read: {extensions, maxBytes}. */
export const formats = () => send("GET", "/v1/formats");

/** Write a file of the browser as a context, as an import would; the path is what follows viking://. */
export const upload = (path, file, signal) =>
  send("PUT", `/v1/files/${path.split("/").map(encodeURIComponent).join("/")}`, file, signal);

/** Write the files of the demo; returns {created, uri}. */
export const loadDemo = () => send("POST", "/v1/demo", {});

/** Begin a session with a key; the page does not keep the key. */
export async function signIn(key, tenant) {
  await send("POST", "/session", { key, tenant });
  sessions += 1;
}

/** Tell whether the browser is signed in. */
export const session = () => send("GET", "/session");

/** End the session. */
export const signOut = () => send("DELETE", "/session");

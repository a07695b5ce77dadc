// The typed clients of a daemon, by Connect over gRPC.

import { readFileSync } from "node:fs";
import { type Client, createClient, type Interceptor } from "@connectrpc/connect";
import { createGrpcTransport } from "@connectrpc/connect-node";
import { Contexts } from "./gen/viking/retrieval/v1/contexts_pb.js";
import { Memories } from "./gen/viking/retrieval/v1/memories_pb.js";
import { Retrieval } from "./gen/viking/retrieval/v1/retrieval_pb.js";

export interface Options {
  key?: string;
  /** The tenant that an operator's key names. */
  tenant?: string;
  /** The file of the authority that signed the daemon's certificate. */
  ca?: string;
}

export interface Vikingd {
  contexts: Client<typeof Contexts>;
  memories: Client<typeof Memories>;
  retrieval: Client<typeof Retrieval>;
}

/** Connects to a daemon at a URL: http://HOST:PORT, or https://HOST:PORT for TLS. */
export function connect(url: string, options: Options = {}): Vikingd {
  const identify: Interceptor = (next) => (request) => {
    if (options.key) request.header.set("authorization", `Bearer ${options.key}`);
    if (options.tenant) request.header.set("vikingd-tenant", options.tenant);
    return next(request);
  };
  const transport = createGrpcTransport({
    baseUrl: url,
    interceptors: [identify],
    nodeOptions: options.ca ? { ca: readFileSync(options.ca) } : {},
  });
  return {
    contexts: createClient(Contexts, transport),
    memories: createClient(Memories, transport),
    retrieval: createClient(Retrieval, transport),
  };
}

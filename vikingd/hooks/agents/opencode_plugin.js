// The memory of OpenCode's sessions. `vikingctl agents install opencode --write` writes this file and
// replaces it; changes by hand are lost. Remove it, or set VIKINGD_HOOKS=off, to switch it off.
//
// It runs `vikingctl hook opencode EVENT` with the event on stdin. Each run is bounded in time, and no
// failure of it reaches OpenCode. `server` is for OpenCode 1, `setup` for OpenCode 2.

import { spawn, spawnSync } from "node:child_process"

const SETTINGS = { command: ["vikingctl", "hook", "opencode"], options: [], environment: {} }
const LONGEST = 3000 // milliseconds that OpenCode waits for a run
const MOST_SESSIONS = 100 // sessions that are kept in mind
const MOST_TEXTS = 200 // texts that are kept for one session

const environment = { ...process.env, ...SETTINGS.environment }
const command = (event) => [...SETTINGS.command.slice(1), event, ...SETTINGS.options]

// Returns the text for the model's context; "" without one, and after a failure.
function ask(event, given) {
  return new Promise((resolve) => {
    const child = spawn(SETTINGS.command[0], command(event), {
      stdio: ["pipe", "pipe", "ignore"],
      env: environment,
    })
    const timer = setTimeout(() => {
      child.kill("SIGKILL")
      resolve("")
    }, LONGEST)
    let answer = ""
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (piece) => (answer += piece))
    child.stdin.on("error", () => {}) // a child that reads nothing
    const end = () => {
      clearTimeout(timer)
      resolve(contextOf(answer))
    }
    child.on("error", end)
    child.on("close", end)
    child.stdin.end(JSON.stringify(given))
  }).catch(() => "")
}

function contextOf(answer) {
  try {
    const { context } = JSON.parse(answer)
    return typeof context === "string" ? context : ""
  } catch {
    return ""
  }
}

// Tells of an event that has no answer. It waits, since `opencode run` exits after its turn.
function tell(event, given) {
  spawnSync(SETTINGS.command[0], command(event), {
    input: JSON.stringify(given),
    stdio: ["pipe", "ignore", "ignore"],
    env: environment,
    timeout: LONGEST,
    killSignal: "SIGKILL",
  })
}

// Hides the failures of a function from OpenCode.
function quiet(run) {
  return async (...given) => {
    try {
      await run(...given)
    } catch {
      // OpenCode works on without memory.
    }
  }
}

class Sessions {
  // `isChild` tells whether a session is a subagent's. What a subagent is told is not the user's word.
  constructor(directory, isChild) {
    this.directory = directory
    this.isChild = isChild
    this.kept = new Map()
  }

  get(id) {
    return this.kept.get(id)
  }

  // Takes a prompt of the user; returns the memories that belong to it.
  async prompted(id, prompt) {
    if (!this.kept.has(id)) {
      if (await this.isChild(id)) return ""
      if (this.kept.size >= MOST_SESSIONS) this.kept.delete(this.kept.keys().next().value)
      this.kept.set(id, { start: "", said: [], prompt: "", memories: [] })
      await this.started(id, "startup") // before the prompt, which then repeats nothing of it
    }
    const session = this.get(id)
    session.prompt = prompt
    const text = await ask("prompt", this.#given(id, { prompt }))
    if (text) session.memories = [{ prompt, text }, ...session.memories].slice(0, MOST_TEXTS)
    return text
  }

  async started(id, source) {
    const session = this.get(id)
    if (session) session.start = await ask("start", this.#given(id, { source }))
  }

  // Takes words of the assistant.
  said(id, text) {
    const session = this.get(id)
    if (session && session.said.length < MOST_TEXTS) session.said.push(text)
  }

  // Takes the end of a turn.
  stopped(id) {
    const session = this.get(id)
    if (!session) return
    const response = session.said.join("\n\n")
    session.said = []
    tell("stop", this.#given(id, { response }))
  }

  compacting(id) {
    if (this.get(id)) tell("compact", this.#given(id, {}))
  }

  ended(id) {
    if (this.get(id)) tell("end", this.#given(id, {}))
    this.kept.delete(id)
  }

  #given(id, more) {
    return { session: id, directory: this.directory, ...more }
  }
}

async function server({ client, directory }) {
  const sessions = new Sessions(directory, async (id) => {
    const found = await client.session.get({ path: { id } })
    return Boolean(found.data?.parentID)
  })
  return {
    "chat.message": quiet(async ({ sessionID }, output) => {
      const parts = output.parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = parts.map((part) => part.text).join("\n")
      const text = prompt.trim() && (await sessions.prompted(sessionID, prompt))
      const last = output.parts.at(-1)
      if (text) {
        // A part of the message stays in the history, so the provider's cache of the prompt holds.
        // Parts are ordered by their ids.
        output.parts.push({
          id: `${last.id}v`,
          sessionID,
          messageID: output.message.id,
          type: "text",
          synthetic: true,
          text,
        })
      }
    }),
    "experimental.chat.system.transform": quiet(async ({ sessionID }, output) => {
      const start = sessions.get(sessionID)?.start
      if (start) output.system.push(start)
    }),
    "experimental.text.complete": quiet(async ({ sessionID }, output) => {
      sessions.said(sessionID, output.text)
    }),
    "experimental.session.compacting": quiet(async ({ sessionID }) => {
      sessions.compacting(sessionID)
    }),
    event: quiet(async ({ event }) => {
      const { sessionID, info } = event.properties ?? {}
      if (event.type === "session.idle") sessions.stopped(sessionID)
      if (event.type === "session.compacted") await sessions.started(sessionID, "compact")
      if (event.type === "session.deleted") sessions.ended(sessionID ?? info?.id)
    }),
  }
}

async function setup(ctx) {
  const sessions = new Sessions(ctx.location.directory, async (id) => {
    const found = await ctx.session.get({ sessionID: id })
    return Boolean(found?.parentID)
  })
  await ctx.session.hook(
    "prompt",
    quiet(async ({ sessionID, prompt }) => {
      if (prompt.text.trim()) await sessions.prompted(sessionID, prompt.text)
    }),
  )
  await ctx.session.hook(
    "context",
    quiet(async (event) => {
      const session = sessions.get(event.sessionID)
      if (session?.start) event.system.push({ type: "text", text: session.start })
      if (session?.memories.length) event.messages = withMemories(event.messages, session)
    }),
  )
  await ctx.session.hook(
    "compaction",
    quiet(async ({ sessionID }) => sessions.compacting(sessionID)),
  )
  const controller = new AbortController()
  const handled = quiet(async ({ type, data }) => {
    if (type === "session.text.ended") sessions.said(data.sessionID, data.text)
    if (/^session\.execution\.(succeeded|failed|interrupted)$/.test(type)) sessions.stopped(data.sessionID)
    if (type === "session.compaction.ended") await sessions.started(data.sessionID, "compact")
    if (type === "session.deleted") sessions.ended(data.sessionID)
  })
  const reading = quiet(async () => {
    for await (const event of ctx.event.subscribe({ signal: controller.signal })) await handled(event)
  })()
  return async () => {
    controller.abort()
    await reading
  }
}

// Adds to the messages of the user the memories of their prompts. Each request has the same ones at
// the same places, so the provider's cache of the prompt holds.
function withMemories(messages, { prompt, memories }) {
  const said = messages.map(({ role, content }) =>
    role === "user" && Array.isArray(content)
      ? content.filter((part) => part.type === "text").map((part) => part.text.trim())
      : [],
  )
  const found = said.map((texts) => memories.find((one) => texts.includes(one.prompt.trim())))
  const newest = memories[0]
  if (newest.prompt === prompt && !found.includes(newest)) {
    // OpenCode has changed the words of the prompt.
    const last = said.findLastIndex((texts) => texts.length > 0)
    if (last >= 0) found[last] = newest
  }
  return messages.map((message, i) =>
    found[i]
      ? { ...message, content: [...message.content, { type: "text", text: found[i].text }] }
      : message,
  )
}

export default { id: "vikingd", server, setup }

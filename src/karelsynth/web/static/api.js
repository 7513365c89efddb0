// The server's answers. Everything that goes wrong becomes one ApiError with a message for people.

class ApiError extends Error {
  /** `status` is that of the server's answer; 0: there was none. */
  constructor(message, status = 0) {
    super(message);
    this.status = status;
  }

  /** Whether the request itself was wrong, not the server or the connection. */
  get isRefusal() {
    return this.status >= 400 && this.status < 500;
  }

  get isSilence() {
    return this.status === 0;
  }
}

/** The server's {message, where, line, column} as a sentence. */
function sentence({ message, where, line, column }) {
  const place = [where, line && `line ${line}`, column && `column ${column}`].filter(Boolean).join(", ");
  const text = place ? `${place}: ${message}` : message;
  return text[0].toUpperCase() + text.slice(1);
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer. Your work stays on this page. Is `karelsynth serve` still running?");
  }
  if (response.ok) return response;
  const body = await response.json().catch(() => null);
  const message = body?.error ? sentence(body.error) : `The server answered with ${response.status}.`;
  throw new ApiError(message, response.status);
}

function posting(body, signal) {
  return { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal };
}

export async function get(path) {
  return (await request(path)).json();
}

export async function post(path, body, signal) {
  const response = await request(path, posting(body, signal));
  return response.status === 204 ? null : response.json();
}

/** Posts and yields [event, data] of the answer's event stream (EventSource itself can only GET); an event `error` is
 *  thrown like any other problem. */
export async function* stream(path, body, signal) {
  const response = await request(path, posting(body, signal));
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffered = "";
  for (;;) {
    let chunk;
    try {
      chunk = await reader.read();
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new ApiError("The connection to the server broke off.");
    }
    if (chunk.done) return;
    buffered += chunk.value.replaceAll("\r\n", "\n");
    const blocks = buffered.split("\n\n");
    buffered = blocks.pop();
    for (const block of blocks) {
      const event = eventOf(block);
      if (event?.[0] === "error") throw new ApiError(sentence(event[1]), 500);
      if (event) yield event;
    }
  }
}

/** One block of an event stream; null for comments that only keep the line open. */
function eventOf(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const [, field, value] = /^([^:]*):? ?(.*)$/.exec(line);
    if (field === "event") name = value;
    if (field === "data") data.push(value);
  }
  return data.length ? [name, JSON.parse(data.join("\n"))] : null;
}
